#include "muster/layers/internal/windows.h"

#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1::internal {
namespace {

// Says how a tensor that holds no images becomes images.
std::string how_to_make_images(const Tensor& input) {
  if (input.dim() == 3) return "add the channels with unsqueeze(-1)";
  if (input.dim() != 2) return "";
  // Flat images are most often square, of one channel.
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(input.size(1))));
  const bool square = side > 1 && side * side == input.size(1);
  return fmt::format("reshape it first: reshape({{-1, {}, 1}})",
                     square ? fmt::format("{0}, {0}", side) : "height, width");
}

const char* kind_of(size_t rank) {
  return rank == 1 ? "sequences" : rank == 2 ? "images" : "volumes";
}

// The pads of an axis of `size` elements.
Pads pads_of_axis(const Window& window, size_t axis, int64_t size) {
  if (window.padding == Padding::kValid) return {};
  const int64_t span = window.span(axis), stride = window.strides[axis];
  if (window.padding == Padding::kCausal) return {span - 1, 0};
  const int64_t outputs = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>((outputs - 1) * stride + span - size, 0);
  return {total / 2, total - total / 2};
}

// The pads as constant_pad_nd() takes them, which lists the last axis first.
Sizes flat(const std::vector<Pads>& pads) {
  Sizes all;
  for (const Pads& each : pads) all.insert(all.begin(), {each.before, each.after});
  return all;
}

// Has the next constant_pad_nd() recorded with pads_of_axis() as an expression of the sizes of
// `images`: an exported model may be given other sizes.
void stash_pads(const Window& window, const Tensor& images) {
  namespace tracer = torch::jit::tracer;
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t span = window.span(axis), stride = window.strides[axis];
    const Tensor size = tracer::getSizeOf(images, static_cast<int64_t>(axis) + 2);
    const Tensor outputs = at::div(size + (stride - 1), stride, "floor");
    const Tensor total = ((outputs - 1) * stride + span - size).clamp_min(0);
    const Tensor before = at::div(total, 2, "floor");
    const size_t place = 2 * (window.rank() - 1 - axis);
    tracer::ArgumentStash::stashIntArrayRefElem("pad", 2 * window.rank(), place, before);
    tracer::ArgumentStash::stashIntArrayRefElem("pad", 2 * window.rank(), place + 1,
                                                total - before);
  }
}

bool all_are_one(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
}

// Returns the result of a convolution of no images. LibTorch looks at all weights for it, which
// costs seconds if only the shapes of a large model are needed.
Tensor nothing_convolved(const Tensor& images, const Tensor& weight, const Window& window,
                         const Sizes& padding) {
  Shape shape{0, weight.size(0)};
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t size = images.size(static_cast<int64_t>(axis) + 2) + 2 * padding[axis];
    shape.push_back((size - window.span(axis)) / window.strides[axis] + 1);
  }
  return at::empty(
      shape, images.options(),
      window.rank() == 2 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

// Shows the size as it was given: 0, or 0x3.
void check_sizes(const std::string& layer, const char* field, const Sizes& sizes) {
  if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 1; })) return;
  const bool same =
      std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes.front(); });
  throw invalid_argument(fmt::format("{}: {} is {}", layer, field,
                                     same ? fmt::format("{}", sizes.front())
                                          : fmt::format("{}", fmt::join(sizes, "x"))),
                         fmt::format("{} must be at least 1", field));
}

}  // namespace

bool Window::is_plain() const {
  return all_are_one(strides) && all_are_one(dilation) && padding == Padding::kValid;
}

void check_window(const std::string& layer, const char* field, const Window& window,
                  bool may_be_causal) {
  check_sizes(layer, field, window.sizes);
  check_sizes(layer, "strides", window.strides);
  check_sizes(layer, "dilation_rate", window.dilation);
  if (!all_are_one(window.strides) && !all_are_one(window.dilation)) {
    throw invalid_argument(
        fmt::format("{}: strides is {}, and dilation_rate {}", layer,
                    fmt::join(window.strides, "x"), fmt::join(window.dilation, "x")),
        "one of strides and dilation_rate must be 1");
  }
  if (window.padding == Padding::kCausal && !may_be_causal) {
    throw invalid_argument(fmt::format("{}: padding is kCausal", layer),
                           "padding must be kValid or kSame; kCausal is for Conv1D");
  }
}

std::string form_of(size_t rank, const std::string& channels) {
  const char* axes = rank == 1 ? "steps" : rank == 2 ? "height, width" : "depth, height, width";
  return fmt::format("{} [batch, {}, {}]", kind_of(rank), axes, channels);
}

void check_channels(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                    size_t rank, int64_t channels) {
  if (input.size(-1) == channels) return;
  refuse_input(context, layer, form_of(rank, std::to_string(channels)), input,
               "a layer is called with as many channels as at its first call");
}

void check_rank(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                size_t rank) {
  context.name_of(layer);
  if (input.dim() != static_cast<int64_t>(rank) + 2) {
    refuse_input(context, layer, form_of(rank, "channels"), input,
                 rank == 2 ? how_to_make_images(input) : "");
  }
  const auto sizes = input.sizes().slice(1);
  if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; })) return;
  refuse_input(context, layer, form_of(rank, "channels") + " that are not empty", input);
}

void check_windowed(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                    const Window& window) {
  if (input.dim() != static_cast<int64_t>(window.rank()) + 2) {
    check_rank(context, layer, input, window.rank());
  }
  Sizes least;
  bool fits = true;
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    least.push_back(window.padding == Padding::kValid ? window.span(axis) : 1);
    fits = fits && input.size(static_cast<int64_t>(axis) + 1) >= least.back();
  }
  if (fits) return;
  refuse_input(context, layer,
               fmt::format("{} of at least {}", kind_of(window.rank()), fmt::join(least, "x")),
               input);
}

std::vector<Pads> pads_of(const Window& window, const Tensor& images) {
  std::vector<Pads> pads(window.rank());
  for (size_t axis = 0; axis < pads.size(); ++axis)
    pads[axis] = pads_of_axis(window, axis, images.size(static_cast<int64_t>(axis) + 2));
  return pads;
}

Tensor to_channels_first(const Tensor& input) {
  return (input.is_contiguous() ? input : input.contiguous()).movedim(-1, 1);
}

Tensor to_channels_last(const Tensor& input) { return input.movedim(1, -1); }

Sizes pad(Tensor& input, const std::vector<Pads>& pads, double value) {
  const bool symmetric = std::all_of(pads.begin(), pads.end(),
                                     [](const Pads& pad) { return pad.before == pad.after; });
  Sizes left;
  for (const Pads& each : pads) left.push_back(symmetric ? each.before : 0);
  if (!symmetric) input = at::constant_pad_nd(input, flat(pads), value);
  return left;
}

Sizes pad(Tensor& images, const Window& window, double value) {
  const std::vector<Pads> pads = pads_of(window, images);
  const bool follows_size = window.padding == Padding::kSame && !all_are_one(window.strides);
  if (!follows_size || !is_tracing()) return pad(images, pads, value);
  stash_pads(window, images);
  images = at::constant_pad_nd(images, flat(pads), value);
  return Sizes(window.rank(), 0);
}

Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const Window& window,
                int64_t groups, const Sizes& margins) {
  Tensor images = to_channels_first(input);
  const Sizes padding = margins.empty() ? pad(images, window, 0) : margins;
  if (images.size(0) == 0 && !at::GradMode::is_enabled())
    return to_channels_last(nothing_convolved(images, weight, window, padding));
  const Sizes no_output_padding(window.rank(), 0);
  const auto product = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    // LibTorch flattens the weights of an empty batch with a view.
    return at::convolution(x, x.size(0) == 0 ? w.contiguous() : w, b, window.strides, padding,
                           window.dilation, /*transposed=*/false, no_output_padding, groups);
  };
  return to_channels_last(
      multiplied(ProductKind::kConvolution, /*multiplications=*/0, product, images, weight, bias));
}

}  // namespace muster::inline v0_1::internal
