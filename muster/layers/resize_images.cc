#include "muster/layers/resize_images.h"

#include <ATen/TracerMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

double lanczos(double d, double radius) {
  if (d > radius) return 0;
  const double x = std::numbers::pi * d;
  return d < 1e-3 ? 1 : radius * std::sin(x) * std::sin(x / radius) / (x * x);
}

// The weight at distance `d`, for interpolations that weigh by distance.
double weight_at(double d, Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBicubic:
      if (d >= 2) return 0;
      return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : ((-0.5 * d + 2.5) * d - 4) * d + 2;
    case Interpolation::kLanczos3:
      return lanczos(d, 3);
    case Interpolation::kLanczos5:
      return lanczos(d, 5);
    case Interpolation::kGaussian:
      return d >= 1.5 ? 0 : std::exp(-2 * d * d);
    case Interpolation::kMitchellCubic:
      if (d >= 2) return 0;
      return (d < 1 ? (7 * d - 12) * d * d + 16.0 / 3
                    : ((-7.0 / 3 * d + 12) * d - 20) * d + 32.0 / 3) /
             6;
    default:
      break;
  }
  throw internal_error("no interpolation by distance: " + describe(interpolation));
}

// The part of old pixel `i` between `begin` and `end`.
double overlap(int64_t i, double begin, double end) {
  const auto left = static_cast<double>(i);
  return std::max(0.0, std::min(left + 1, end) - std::max(left, begin));
}

// The part that each of `from` pixels has in each of `to` new ones: [to, from], float64.
Tensor parts_of_pixels(int64_t from, int64_t to, Interpolation interpolation) {
  // A model that is exported holds the parts as they are, rather than zeros.
  const at::tracer::impl::NoTracerDispatchMode untraced;
  constexpr double kWidest = 5;
  Tensor parts = torch::zeros({to, from}, kFloat64);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t pixel = 0; pixel < to; ++pixel) {
    double* row = parts.data_ptr<double>() + pixel * from;
    const double begin = static_cast<double>(pixel) * scale, middle = begin + scale / 2;
    const bool area = interpolation == Interpolation::kArea;
    const auto first = static_cast<int64_t>(std::floor(area ? begin : middle - kWidest - 1));
    const auto last = static_cast<int64_t>(std::ceil(area ? begin + scale : middle + kWidest));
    double sum = 0;
    for (int64_t i = std::max<int64_t>(first, 0); i <= std::min(last, from - 1); ++i) {
      const double distance = std::abs(static_cast<double>(i) + 0.5 - middle);
      row[i] = area ? overlap(i, begin, begin + scale) : weight_at(distance, interpolation);
      sum += row[i];
    }
    for (int64_t i = 0; i < from; ++i) row[i] /= sum;
  }
  return parts;
}

// LibTorch's kernels, of images [batch, channels, height, width].
Tensor resize_neighbours(const Tensor& images, at::IntArrayRef size, bool nearest) {
  return nearest ? at::_upsample_nearest_exact2d(images, size)
                 : at::upsample_bilinear2d(images, size, /*align_corners=*/false);
}

}  // namespace

std::string describe(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kNearest:
      return "kNearest";
    case Interpolation::kBilinear:
      return "kBilinear";
    case Interpolation::kBicubic:
      return "kBicubic";
    case Interpolation::kArea:
      return "kArea";
    case Interpolation::kLanczos3:
      return "kLanczos3";
    case Interpolation::kLanczos5:
      return "kLanczos5";
    case Interpolation::kGaussian:
      return "kGaussian";
    case Interpolation::kMitchellCubic:
      return "kMitchellCubic";
  }
  return fmt::format("interpolation {}", static_cast<int>(interpolation));
}

Tensor resize_images(const Tensor& images, int64_t height, int64_t width,
                     Interpolation interpolation) {
  if (!images.defined() || images.dim() != 4 || !images.is_floating_point() || images.size(1) < 1 ||
      images.size(2) < 1 || height < 1 || width < 1) {
    throw invalid_argument(
        fmt::format("resize_images: {} cannot become {} x {} pixels",
                    images.defined() ? describe(images) : "an undefined tensor", height, width),
        "images are [batch, height, width, channels], floating, and sizes at least 1");
  }
  if (images.size(0) == 0) {
    // Without rows only the shape counts, and the way back of gradients.
    return images.narrow(1, 0, 1).narrow(2, 0, 1).expand({0, height, width, images.size(3)});
  }
  // There are no kernels for the short floating dtypes on every device.
  const bool narrow = images.scalar_type() != kFloat32 && images.scalar_type() != kFloat64;
  const Tensor wide = narrow ? images.to(kFloat32) : images;
  Tensor resized;
  if (interpolation == Interpolation::kNearest || interpolation == Interpolation::kBilinear) {
    resized = resize_neighbours(wide.permute({0, 3, 1, 2}), {height, width},
                                interpolation == Interpolation::kNearest)
                  .permute({0, 2, 3, 1});
  } else {
    const Tensor rows = parts_of_pixels(images.size(1), height, interpolation).to(wide.options());
    const Tensor columns = parts_of_pixels(images.size(2), width, interpolation).to(wide.options());
    resized = at::matmul(
        columns, at::matmul(rows, wide.flatten(2)).unflatten(2, {images.size(2), images.size(3)}));
  }
  return narrow ? resized.to(images.scalar_type()) : resized;
}

}  // namespace muster::inline v0_1
