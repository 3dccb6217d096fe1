#include "muster/preprocessing/image_augmentation.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/layers/unary_layer.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/images.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

// One image is changed at a time, so that its bits depend on no other.
class ImageAugmentation::Impl : public UnaryLayerImpl {
 public:
  // `keras_name` is its name in errors.
  Impl(const char* keras_name, const char* class_name, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), keras_name_(keras_name) {}

  Tensor call(const Tensor& input, CallContext& context) const final {
    const std::string& name = context.name_of(identity());
    const Tensor images = internal::to_images(keras_name_, input);
    if (images.dim() != 4) {
      throw invalid_argument(
          fmt::format("layer {}: expected images [batch, height, width, channels], was given {}",
                      name, describe(input)));
    }
    if (!context.training()) return outside_of_training(images);
    const RandomKey key = context.common_random_key(identity());
    return each_row(images, key, static_cast<uint64_t>(context.first_row(images.size(0))));
  }

  Tensor apply(const Tensor& input, RandomKey key) const {
    const Tensor images = internal::to_images(keras_name_, input);
    if (images.dim() == 4) return each_row(images, key, 0);
    Random random(key);
    return change(images, random);
  }

 protected:
  const char* keras_name() const { return keras_name_; }

 private:
  virtual Tensor change(const Tensor& image, Random& random) const = 0;
  virtual Tensor outside_of_training(const Tensor& images) const { return images; }

  Tensor each_row(const Tensor& images, RandomKey key, uint64_t first) const {
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < images.size(0); ++i) {
      Random random(key.derive(first + static_cast<uint64_t>(i)));
      rows.push_back(change(images[i], random));
    }
    // Without rows only the shape counts.
    return rows.empty() ? outside_of_training(images) : torch::stack(rows);
  }

  const char* keras_name_;
};

namespace {

double draw(const RandomFactor& factor, Random& random) {
  return factor.lower + (factor.upper - factor.lower) * random.uniform();
}

void check_factor(const char* layer, const char* field, const RandomFactor& factor, double least,
                  double most) {
  if (std::isfinite(factor.lower) && std::isfinite(factor.upper) && factor.lower >= least &&
      factor.upper <= most && factor.lower <= factor.upper) {
    return;
  }
  throw invalid_argument(
      fmt::format("{}: {} is [{}, {}]", layer, field, factor.lower, factor.upper),
      fmt::format("numbers must be finite, ascend, and lie between {} and {}", least, most));
}

void check_fill_value(const char* layer, double value) {
  if (std::isfinite(value)) return;
  throw invalid_argument(fmt::format("{}: fill_value is {}", layer, value),
                         "fill_value must be finite");
}

void check_interpolation(const char* layer, Interpolation interpolation) {
  if (interpolation == Interpolation::kNearest || interpolation == Interpolation::kBilinear) return;
  throw invalid_argument(fmt::format("{}: interpolation is {}", layer, describe(interpolation)),
                         "interpolation must be kNearest or kBilinear");
}

class RandomFlipImpl final : public ImageAugmentation::Impl {
 public:
  RandomFlipImpl(FlipMode mode, std::string name)
      : Impl("RandomFlip", "random_flip", std::move(name)), mode_(mode) {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    std::vector<int64_t> axes;
    if (mode_ != FlipMode::kVertical && random.uniform() < 0.5) axes.push_back(1);
    if (mode_ != FlipMode::kHorizontal && random.uniform() < 0.5) axes.push_back(0);
    return axes.empty() ? image : image.flip(axes);
  }

  FlipMode mode_;
};

class RandomRotationImpl final : public ImageAugmentation::Impl {
 public:
  RandomRotationImpl(RandomFactor factor, const RandomRotationOptions& options)
      : Impl("RandomRotation", "random_rotation", options.name),
        factor_(factor),
        sampling_{options.fill_mode, options.interpolation, options.fill_value} {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    const double angle = draw(factor_, random) * 2 * std::numbers::pi;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const auto bottom = static_cast<double>(image.size(0) - 1);
    const auto right = static_cast<double>(image.size(1) - 1);
    return internal::transform_image(image,
                                     {.xx = cosine,
                                      .xy = -sine,
                                      .x0 = (right - (cosine * right - sine * bottom)) / 2,
                                      .yx = sine,
                                      .yy = cosine,
                                      .y0 = (bottom - (sine * right + cosine * bottom)) / 2},
                                     sampling_);
  }

  RandomFactor factor_;
  internal::Sampling sampling_;
};

class RandomZoomImpl final : public ImageAugmentation::Impl {
 public:
  RandomZoomImpl(RandomFactor height_factor, const RandomZoomOptions& options)
      : Impl("RandomZoom", "random_zoom", options.name),
        height_factor_(height_factor),
        width_factor_(options.width_factor),
        sampling_{options.fill_mode, options.interpolation, options.fill_value} {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    const double height = 1 + draw(height_factor_, random);
    const double width = width_factor_ ? 1 + draw(*width_factor_, random) : height;
    return internal::transform_image(
        image,
        {.xx = width,
         .xy = 0,
         .x0 = static_cast<double>(image.size(1) - 1) / 2 * (1 - width),
         .yx = 0,
         .yy = height,
         .y0 = static_cast<double>(image.size(0) - 1) / 2 * (1 - height)},
        sampling_);
  }

  RandomFactor height_factor_;
  std::optional<RandomFactor> width_factor_;
  internal::Sampling sampling_;
};

class RandomTranslationImpl final : public ImageAugmentation::Impl {
 public:
  RandomTranslationImpl(RandomFactor height_factor, RandomFactor width_factor,
                        const RandomTranslationOptions& options)
      : Impl("RandomTranslation", "random_translation", options.name),
        height_factor_(height_factor),
        width_factor_(width_factor),
        sampling_{options.fill_mode, options.interpolation, options.fill_value} {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    const double down = draw(height_factor_, random) * static_cast<double>(image.size(0));
    const double right = draw(width_factor_, random) * static_cast<double>(image.size(1));
    return internal::transform_image(
        image, {.xx = 1, .xy = 0, .x0 = -right, .yx = 0, .yy = 1, .y0 = -down}, sampling_);
  }

  RandomFactor height_factor_, width_factor_;
  internal::Sampling sampling_;
};

class RandomBrightnessImpl final : public ImageAugmentation::Impl {
 public:
  RandomBrightnessImpl(RandomFactor factor, const RandomBrightnessOptions& options)
      : Impl("RandomBrightness", "random_brightness", options.name),
        factor_(factor),
        range_(options.value_range) {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    const double added = draw(factor_, random) * (range_.upper - range_.lower);
    return (image + added).clamp(range_.lower, range_.upper);
  }

  RandomFactor factor_, range_;
};

class RandomCropImpl final : public ImageAugmentation::Impl {
 public:
  RandomCropImpl(int64_t height, int64_t width, std::string name)
      : Impl("RandomCrop", "random_crop", std::move(name)), height_(height), width_(width) {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    const int64_t spare_rows = image.size(0) - height_, spare_columns = image.size(1) - width_;
    if (spare_rows < 0 || spare_columns < 0) return outside_of_training(image);
    const auto place = [&](int64_t spare) {
      return static_cast<int64_t>(random.uniform_below(static_cast<uint64_t>(spare) + 1));
    };
    const int64_t top = place(spare_rows);
    return image.narrow(0, top, height_).narrow(1, place(spare_columns), width_);
  }

  Tensor outside_of_training(const Tensor& images) const override {
    return internal::crop_and_resize_images(keras_name(), images, height_, width_,
                                            Interpolation::kBilinear);
  }

  int64_t height_, width_;
};

class RandomContrastImpl final : public ImageAugmentation::Impl {
 public:
  RandomContrastImpl(double lower, double upper, std::string name)
      : Impl("RandomContrast", "random_contrast", std::move(name)),
        contrast_(1 - lower, 1 + upper) {}

 private:
  Tensor change(const Tensor& image, Random& random) const override {
    const double contrast = draw(contrast_, random);
    const Tensor mean = image.mean(at::IntArrayRef({0, 1}), /*keepdim=*/true);
    return (image - mean) * contrast + mean;
  }

  RandomFactor contrast_;
};

}  // namespace

ImageAugmentation::ImageAugmentation(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tensor ImageAugmentation::operator()(const Tensor& images, RandomKey key) const {
  return impl_->apply(images, key);
}

ImageAugmentation::operator Layer() const { return Layer(impl_); }

ImageAugmentation RandomFlip(FlipMode mode, std::string name) {
  return ImageAugmentation(std::make_shared<RandomFlipImpl>(mode, std::move(name)));
}

ImageAugmentation RandomRotation(RandomFactor factor, RandomRotationOptions options) {
  constexpr double kMost = 1e6;  // turns, beyond which a float64 has few digits for the angle
  check_factor("RandomRotation", "factor", factor, -kMost, kMost);
  check_interpolation("RandomRotation", options.interpolation);
  check_fill_value("RandomRotation", options.fill_value);
  return ImageAugmentation(std::make_shared<RandomRotationImpl>(factor, options));
}

ImageAugmentation RandomZoom(RandomFactor height_factor, RandomZoomOptions options) {
  check_factor("RandomZoom", "height_factor", height_factor, -1, 1);
  if (options.width_factor)
    check_factor("RandomZoom", "width_factor", *options.width_factor, -1, 1e6);
  check_interpolation("RandomZoom", options.interpolation);
  check_fill_value("RandomZoom", options.fill_value);
  return ImageAugmentation(std::make_shared<RandomZoomImpl>(height_factor, options));
}

ImageAugmentation RandomTranslation(RandomFactor height_factor, RandomFactor width_factor,
                                    RandomTranslationOptions options) {
  check_factor("RandomTranslation", "height_factor", height_factor, -1, 1);
  check_factor("RandomTranslation", "width_factor", width_factor, -1, 1);
  check_interpolation("RandomTranslation", options.interpolation);
  check_fill_value("RandomTranslation", options.fill_value);
  return ImageAugmentation(
      std::make_shared<RandomTranslationImpl>(height_factor, width_factor, options));
}

ImageAugmentation RandomBrightness(RandomFactor factor, RandomBrightnessOptions options) {
  check_factor("RandomBrightness", "factor", factor, -1, 1);
  const RandomFactor& range = options.value_range;
  if (!(std::isfinite(range.lower) && std::isfinite(range.upper) && range.lower < range.upper)) {
    throw invalid_argument(
        fmt::format("RandomBrightness: value_range is [{}, {}]", range.lower, range.upper),
        "both ends must be finite, and the first below the second");
  }
  return ImageAugmentation(std::make_shared<RandomBrightnessImpl>(factor, options));
}

ImageAugmentation RandomCrop(int64_t height, int64_t width, std::string name) {
  internal::check_at_least("RandomCrop", "height", height, 1);
  internal::check_at_least("RandomCrop", "width", width, 1);
  return ImageAugmentation(std::make_shared<RandomCropImpl>(height, width, std::move(name)));
}

ImageAugmentation RandomContrast(double factor, std::string name) {
  return RandomContrast(factor, factor, std::move(name));
}

ImageAugmentation RandomContrast(double lower, double upper, std::string name) {
  if (!(lower >= 0 && lower <= 1 && upper >= 0 && std::isfinite(upper))) {
    throw invalid_argument(fmt::format("RandomContrast: factor is [{}, {}]", lower, upper),
                           "the lower one is 0 to 1, the upper one finite and at least 0");
  }
  return ImageAugmentation(std::make_shared<RandomContrastImpl>(lower, upper, std::move(name)));
}

}  // namespace muster::inline v0_1
