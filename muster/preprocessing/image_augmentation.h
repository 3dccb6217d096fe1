// Changes images randomly during training.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/layers/layer.h"
#include "muster/layers/resize_images.h"
#include "muster/preprocessing/fill_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// The result of the functions below. It changes images [height, width, channels] or each image of a
// batch differently; integers become float32.
//
// In a pipeline, use it in a keyed map(), best before batch(), where the key is that of the image:
// the change is then a function of (seed, epoch, the image's index in the source), on any number of
// workers and threads.
//
//   images.map([flip = RandomFlip()](const Element& image, RandomKey key) {
//     return flip(image.value().tensor(), key);
//   });
//
// As a Layer it takes batches, changes them only in training, and draws from a key of (seed, step,
// layer name, row of the global batch): the bits are the same on any number of replicas. With
// several replicas it needs one small message in each step.
// several replicas it costs one small message in each step.
class MUSTER_EXPORT ImageAugmentation {
 public:
  class Impl;
  explicit ImageAugmentation(std::shared_ptr<const Impl> impl);

  // Draws from `key` for one image, or from key.derive(row) for each image of a batch. Give several
  // augmentations in one map() different keys: key.derive(0), key.derive(1). Throws InvalidArgument
  // for other numbers of axes.
  Tensor operator()(const Tensor& images, RandomKey key) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const Impl> impl_;
};

// A range for uniform draws from [lower, upper): RandomRotation(0.2) or RandomRotation({-0.1,
// 0.3}).
struct RandomFactor {
  RandomFactor(double both)  // NOLINT(google-explicit-constructor)
      : lower(-both), upper(both) {}
  RandomFactor(double lower, double upper) : lower(lower), upper(upper) {}

  double lower;
  double upper;
};

// Left to right, top to bottom, or both.
enum class FlipMode { kHorizontal, kVertical, kHorizontalAndVertical };

// Mirrors an image with probability 1/2, independently in each direction of the mode.
MUSTER_EXPORT ImageAugmentation RandomFlip(FlipMode mode = FlipMode::kHorizontalAndVertical,
                                           std::string name = {});

// Options of RandomRotation().
struct RandomRotationOptions {
  FillMode fill_mode = FillMode::kReflect;
  Interpolation interpolation = Interpolation::kBilinear;  // or kNearest
  double fill_value = 0;                                   // for FillMode::kConstant
  std::string name{};                                      // of the layer
};

// Rotates an image about its center by factor * 2 pi, counter-clockwise for positive factors.
// Throws InvalidArgument for factors that are not finite or do not ascend, another interpolation,
// and a fill value that is not finite.
MUSTER_EXPORT ImageAugmentation RandomRotation(RandomFactor factor,
                                               RandomRotationOptions options = {});

// Options of RandomZoom().
struct RandomZoomOptions {
  std::optional<RandomFactor>
      width_factor{};  // unset: the height's, so that the aspect ratio stays
  FillMode fill_mode = FillMode::kReflect;
  Interpolation interpolation = Interpolation::kBilinear;  // or kNearest
  double fill_value = 0;                                   // for FillMode::kConstant
  std::string name{};                                      // of the layer
};

// Shows 1 + factor times as much of the height and width: a factor above 0 makes things smaller, a
// factor below 0 larger. Throws InvalidArgument for height factors outside of [-1, 1], width
// factors below -1, factors that are not finite or do not ascend, another interpolation, and a fill
// value that is not finite.
MUSTER_EXPORT ImageAugmentation RandomZoom(RandomFactor height_factor,
                                           RandomZoomOptions options = {});

// Options of RandomTranslation().
struct RandomTranslationOptions {
  FillMode fill_mode = FillMode::kReflect;
  Interpolation interpolation = Interpolation::kBilinear;  // or kNearest
  double fill_value = 0;                                   // for FillMode::kConstant
  std::string name{};                                      // of the layer
};

// Moves an image down by height_factor of its height and right by width_factor of its width;
// negative factors move it up and left. Throws InvalidArgument for factors outside of [-1, 1] or
// that do not ascend, another interpolation, and a fill value that is not finite.
MUSTER_EXPORT ImageAugmentation RandomTranslation(RandomFactor height_factor,
                                                  RandomFactor width_factor,
                                                  RandomTranslationOptions options = {});

// Crops a random part [..., height, width, channels]; each position is equally likely. Outside of
// training, and for smaller images, it becomes Resizing(height, width, {.crop_to_aspect_ratio =
// true}). Throws InvalidArgument for sizes below 1.
MUSTER_EXPORT ImageAugmentation RandomCrop(int64_t height, int64_t width, std::string name = {});

// Computes (x - mean) * contrast + mean for each channel of an image, with its mean and a contrast
// drawn from [1 - lower, 1 + upper); a single number is both. Throws InvalidArgument unless 0 <=
// lower <= 1 and upper is finite and at least 0.
MUSTER_EXPORT ImageAugmentation RandomContrast(double factor, std::string name = {});
MUSTER_EXPORT ImageAugmentation RandomContrast(double lower, double upper, std::string name = {});

// Options of RandomBrightness().
struct RandomBrightnessOptions {
  RandomFactor value_range{0, 255};  // of the pixels
  std::string name{};                // of the layer
};

// Adds `factor` times the width of value_range to the whole image, and clips pixels to value_range.
// Throws InvalidArgument for factors outside of [-1, 1] or that do not ascend, and for a
// value_range that is not finite or does not ascend.
MUSTER_EXPORT ImageAugmentation RandomBrightness(RandomFactor factor,
                                                 RandomBrightnessOptions options = {});

}  // namespace muster::inline v0_1
