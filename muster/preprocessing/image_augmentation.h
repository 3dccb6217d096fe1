// Changes images at random while a model is trained.
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

// What the functions below make. It changes images [height, width, channels] or a batch of them,
// each in another way; integers become float32.
//
// In a pipeline it stands in a keyed map(), best before batch(), where the key is that of the
// image: what becomes of an image is then a function of (seed, epoch, its place in the source), on
// any number of workers and threads.
//
//   images.map([flip = RandomFlip()](const Element& image, RandomKey key) {
//     return flip(image.value().tensor(), key);
//   });
//
// As a Layer it takes batches, changes them in training alone, and draws from a key of (seed, step,
// layer name, row of the global batch): the bits are the same on any number of replicas. With
// several replicas it costs one small message in each step.
class MUSTER_EXPORT ImageAugmentation {
 public:
  class Impl;
  explicit ImageAugmentation(std::shared_ptr<const Impl> impl);

  // Draws from `key` for one image, from key.derive(row) for each image of a batch. Several in one
  // map() take keys of their own: key.derive(0), key.derive(1). Throws InvalidArgument for other
  // numbers of axes.
  Tensor operator()(const Tensor& images, RandomKey key) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const Impl> impl_;
};

// What is drawn uniformly from [lower, upper): RandomRotation(0.2) or RandomRotation({-0.1, 0.3}).
struct RandomFactor {
  RandomFactor(double both)  // NOLINT(google-explicit-constructor)
      : lower(-both), upper(both) {}
  RandomFactor(double lower, double upper) : lower(lower), upper(upper) {}

  double lower;
  double upper;
};

// Left to right, top to bottom, or both.
enum class FlipMode { kHorizontal, kVertical, kHorizontalAndVertical };

// Mirrors an image with probability 1/2, in each direction of the mode by itself.
MUSTER_EXPORT ImageAugmentation RandomFlip(FlipMode mode = FlipMode::kHorizontalAndVertical,
                                           std::string name = {});

// Options of RandomRotation().
struct RandomRotationOptions {
  FillMode fill_mode = FillMode::kReflect;
  Interpolation interpolation = Interpolation::kBilinear;  // or kNearest
  double fill_value = 0;                                   // for FillMode::kConstant
  std::string name{};                                      // of the layer
};

// Turns an image about its middle by factor * 2 pi, counter-clockwise where that is positive.
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

// Shows 1 + factor times as much of the height and width as there is: a factor above 0 makes things
// smaller, one below 0 larger. Throws InvalidArgument for height factors outside of [-1, 1], width
// factors below -1, factors that are not finite or do not ascend, another interpolation, and a
// fill value that is not finite.
MUSTER_EXPORT ImageAugmentation RandomZoom(RandomFactor height_factor,
                                           RandomZoomOptions options = {});

// Options of RandomTranslation().
struct RandomTranslationOptions {
  FillMode fill_mode = FillMode::kReflect;
  Interpolation interpolation = Interpolation::kBilinear;  // or kNearest
  double fill_value = 0;                                   // for FillMode::kConstant
  std::string name{};                                      // of the layer
};

// Moves an image down by height_factor of its height and right by width_factor of its width; up and
// left where they are below 0. Throws InvalidArgument for factors outside of [-1, 1] or that do not
// ascend, another interpolation, and a fill value that is not finite.
MUSTER_EXPORT ImageAugmentation RandomTranslation(RandomFactor height_factor,
                                                  RandomFactor width_factor,
                                                  RandomTranslationOptions options = {});

// Cuts out [..., height, width, channels]; each place is equally likely. Outside of training, and
// where an image is smaller, it gives Resizing(height, width, {.crop_to_aspect_ratio = true}).
// Throws InvalidArgument for sizes below 1.
MUSTER_EXPORT ImageAugmentation RandomCrop(int64_t height, int64_t width, std::string name = {});

// Computes (x - mean) * contrast + mean for each channel of an image, with its mean and a contrast
// drawn from [1 - lower, 1 + upper); with one number both are it. Throws InvalidArgument unless 0
// <= lower <= 1 and upper is finite and at least 0.
MUSTER_EXPORT ImageAugmentation RandomContrast(double factor, std::string name = {});
MUSTER_EXPORT ImageAugmentation RandomContrast(double lower, double upper, std::string name = {});

// Options of RandomBrightness().
struct RandomBrightnessOptions {
  RandomFactor value_range{0, 255};  // of the pixels
  std::string name{};                // of the layer
};

// Adds to all of an image `factor` of what lies between the ends of value_range, and clips pixels
// to these. Throws InvalidArgument for factors outside of [-1, 1] or that do not ascend, and for a
// value_range that is not finite or does not rise.
MUSTER_EXPORT ImageAugmentation RandomBrightness(RandomFactor factor,
                                                 RandomBrightnessOptions options = {});

}  // namespace muster::inline v0_1
