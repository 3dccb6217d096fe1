// The common part of convolution and pooling: windows that move over one, two or three axes between
// the batch and the channels. Thread safety: pure functions, and functions with a context for the
// thread it belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/layers/layer.h"
#include "muster/layers/window.h"

namespace muster::inline v0_1::internal {

// One number for each axis the window moves over.
using Sizes = std::vector<int64_t>;

inline Sizes sizes_of(int64_t size) { return {size}; }
inline Sizes sizes_of(const Size2D& size) { return {size.height, size.width}; }
inline Sizes sizes_of(const Size3D& size) { return {size.depth, size.height, size.width}; }

struct Window {
  Sizes sizes{};
  Sizes strides{};
  Sizes dilation{};
  Padding padding = Padding::kValid;

  size_t rank() const { return sizes.size(); }
  // Returns how many elements a dilated window spans along an axis.
  int64_t span(size_t axis) const { return (sizes[axis] - 1) * dilation[axis] + 1; }
  bool is_plain() const;  // strides and dilation are 1, and padding is valid
};

struct Pads {
  int64_t before = 0;
  int64_t after = 0;
};

// Throws InvalidArgument for numbers below 1, for strides and dilation that are both above 1, and
// for causal padding unless `may_be_causal`. `field` is "kernel_size" or "pool_size".
void check_window(const std::string& layer, const char* field, const Window& window,
                  bool may_be_causal);

// Throws InvalidArgument unless the input is [batch, as many axes as the window has, channels], and
// large enough for the window.
void check_windowed(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                    const Window& window);
// Throws InvalidArgument unless the input is [batch, `rank` axes, channels], none of them empty but
// the batch.
void check_rank(CallContext& context, const LayerIdentity& layer, const Tensor& input, size_t rank);
// Throws InvalidArgument unless the input has the channels that the layer's kernel is for.
void check_channels(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                    size_t rank, int64_t channels);
// Returns "images [batch, height, width, 3]".
std::string form_of(size_t rank, const std::string& channels);

// Returns the padding of each axis for images [batch, channels, axes].
std::vector<Pads> pads_of(const Window& window, const Tensor& images);

// Shows [batch, axes, channels] as LibTorch's [batch, channels, axes] without a copy, and back.
// Contiguous inputs get true channels-last strides, also inputs of one channel.
Tensor to_channels_first(const Tensor& input);
Tensor to_channels_last(const Tensor& input);

// Takes padding that is the same on both sides out of `pads`, and returns it; otherwise pads
// `input` (channels first) with `value`.
Sizes pad(Tensor& input, const std::vector<Pads>& pads, double value);
// The same with pads_of() these images. While this thread traces, pads that depend on the size of
// an axis are recorded as expressions of it.
Sizes pad(Tensor& images, const Window& window, double value);

// Convolves `input` [batch, axes, channels] with `weight` [filters, channels / groups, axes] and
// adds `bias` [filters], which may be undefined. If margins are given, that many zeros lie on both
// sides of each axis, and the window's own padding is valid.
Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const Window& window,
                int64_t groups, const Sizes& margins = {});

}  // namespace muster::inline v0_1::internal
