#include "muster/preprocessing/internal/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Brings a coordinate into [0, size - 1], except for kConstant: the rules of TensorFlow's
// ImageProjectiveTransformV3.
double inside(double at, int64_t size, FillMode mode) {
  const auto n = static_cast<double>(size), last = n - 1;
  const bool beyond = at < 0 || at > last;
  switch (mode) {
    case FillMode::kConstant:
      return at;
    case FillMode::kNearest:
      break;
    case FillMode::kReflect:
      if (!beyond) break;
      // The image and its mirror image have 2 n pixels, which repeat without end.
      at -= 2 * n * std::floor(at / (2 * n));
      if (at >= n) at = 2 * n - 1 - at;
      break;
    case FillMode::kWrap:
      // TensorFlow shifts by whole images, but counts them from middle to middle of the outer
      // pixels.
      if (!beyond || size == 1) break;
      at += at < 0 ? n * (std::floor(-at / last) + 1) : -n * std::floor(at / last);
      break;
  }
  return std::clamp(at, 0.0, last);
}

// Which pixels make one of the result, and their weights.
struct Taps {
  Taps(int64_t count, int64_t pixels) : outside(pixels) {
    for (int64_t i = 0; i < count; ++i) {
      places.push_back(torch::empty({pixels}, at::TensorOptions(kInt64)));
      weights.push_back(torch::empty({pixels, 1}, at::TensorOptions(kFloat64)));
    }
  }
  int64_t outside;  // the number of the pixel that represents all pixels beyond the image
  std::vector<Tensor> places, weights;
};

class TapWriter {
 public:
  TapWriter(Taps& taps, int64_t height, int64_t width)
      : taps_(taps), height_(height), width_(width) {
    for (size_t i = 0; i < taps.places.size(); ++i) {
      places_[i] = taps.places[i].data_ptr<int64_t>();
      weights_[i] = taps.weights[i].data_ptr<double>();
    }
  }

  void nearest(int64_t pixel, double x, double y) {
    write(0, pixel, std::round(x), std::round(y), 1);
  }

  void bilinear(int64_t pixel, double x, double y) {
    const double left = std::floor(x), top = std::floor(y);
    const double right_part = x - left, lower_part = y - top;
    write(0, pixel, left, top, (1 - right_part) * (1 - lower_part));
    write(1, pixel, left + 1, top, right_part * (1 - lower_part));
    write(2, pixel, left, top + 1, (1 - right_part) * lower_part);
    write(3, pixel, left + 1, top + 1, right_part * lower_part);
  }

 private:
  void write(size_t tap, int64_t pixel, double x, double y, double weight) {
    const bool there =
        x >= 0 && y >= 0 && x < static_cast<double>(width_) && y < static_cast<double>(height_);
    places_[tap][pixel] =
        there ? static_cast<int64_t>(y) * width_ + static_cast<int64_t>(x) : taps_.outside;
    weights_[tap][pixel] = weight;
  }

  Taps& taps_;
  int64_t height_, width_;
  std::array<int64_t*, 4> places_{};
  std::array<double*, 4> weights_{};
};

Taps taps_of(int64_t height, int64_t width, const AffineMap& map, const Sampling& sampling) {
  const bool nearest = sampling.interpolation == Interpolation::kNearest;
  Taps taps(nearest ? 1 : 4, height * width);
  TapWriter writer(taps, height, width);
  for (int64_t pixel = 0; pixel < height * width; ++pixel) {
    const auto x = static_cast<double>(pixel % width), y = static_cast<double>(pixel / width);
    const double from_x = inside(map.xx * x + map.xy * y + map.x0, width, sampling.fill_mode);
    const double from_y = inside(map.yx * x + map.yy * y + map.y0, height, sampling.fill_mode);
    if (nearest) {
      writer.nearest(pixel, from_x, from_y);
    } else {
      writer.bilinear(pixel, from_x, from_y);
    }
  }
  return taps;
}

}  // namespace

Tensor to_images(const char* layer, const Tensor& input) {
  if (!input.defined() || (input.dim() != 3 && input.dim() != 4)) {
    throw invalid_argument(fmt::format(
        "{}: expected images [height, width, channels] or a batch of them, was given {}", layer,
        input.defined() ? describe(input) : "an undefined tensor"));
  }
  return input.is_floating_point() ? input : input.to(kFloat32);
}

Tensor resize_images(const char* layer, const Tensor& images, int64_t height, int64_t width,
                     Interpolation interpolation) {
  if (images.size(-3) < 1 || images.size(-2) < 1) {
    throw invalid_argument(
        fmt::format("{}: {} cannot become {} x {} pixels", layer, describe(images), height, width));
  }
  if (images.dim() == 4) return muster::resize_images(images, height, width, interpolation);
  return muster::resize_images(images.unsqueeze(0), height, width, interpolation)[0];
}

Tensor crop_and_resize_images(const char* layer, const Tensor& images, int64_t height,
                              int64_t width, Interpolation interpolation) {
  const int64_t rows = images.size(-3), columns = images.size(-2);
  // Rounded down, as Keras's smart_resize does; but a row and a column stay.
  const auto part_of = [](int64_t size, int64_t wanted) {
    return std::min(size, std::max<int64_t>(wanted, 1));
  };
  const int64_t kept_rows = part_of(rows, columns * height / width);
  const int64_t kept_columns = part_of(columns, rows * width / height);
  const Tensor part = images.narrow(-3, (rows - kept_rows) / 2, kept_rows)
                          .narrow(-2, (columns - kept_columns) / 2, kept_columns);
  return resize_images(layer, part, height, width, interpolation);
}

Tensor transform_image(const Tensor& image, const AffineMap& map, const Sampling& sampling) {
  const int64_t height = image.size(0), width = image.size(1), channels = image.size(2);
  if (image.numel() == 0) return image;
  const Taps taps = taps_of(height, width, map, sampling);
  const Tensor pixels = torch::cat({image.reshape({height * width, channels}),
                                    image.new_full({1, channels}, sampling.fill_value)});
  const auto pick = [&](size_t tap) {
    return pixels.index_select(0, taps.places[tap].to(image.device()));
  };
  if (taps.places.size() == 1) return pick(0).view(image.sizes());
  Tensor sum;
  for (size_t tap = 0; tap < taps.places.size(); ++tap) {
    const Tensor part = pick(tap) * taps.weights[tap].to(image.options());
    sum = sum.defined() ? sum + part : part;
  }
  return sum.view(image.sizes());
}

}  // namespace muster::inline v0_1::internal
