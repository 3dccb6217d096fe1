#include "muster/data/image_ops.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/internal/resize_image.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

constexpr int64_t kHeightAxis = -3;
constexpr int64_t kWidthAxis = -2;

void check_images(const char* who, const Tensor& images) {
  if (images.dim() == 3 || images.dim() == 4) return;
  throw invalid_argument(
      fmt::format("{} takes images [height, width, channels] or a batch of "
                  "them, not {}",
                  who, describe(images)));
}

void check_crop(const char* who, const Tensor& images, int64_t height, int64_t width) {
  check_images(who, images);
  if (height >= 1 && width >= 1 && height <= images.size(kHeightAxis) &&
      width <= images.size(kWidthAxis)) {
    return;
  }
  throw invalid_argument(fmt::format("{}: no {} x {} pixels can be cut out of {}", who, height,
                                     width, describe(images)),
                         "resize() first, or ask for less");
}

// fn(image, row) for each image of a batch, or for the one there is.
template <typename Fn>
Tensor for_each_image(const Tensor& images, Fn fn) {
  if (images.dim() == 3) return fn(images, int64_t{0});
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < images.size(0); ++i) rows.push_back(fn(images[i], i));
  return torch::stack(rows);
}

Tensor resize_nearest(const Tensor& images, int64_t height, int64_t width) {
  const auto places = [](int64_t in, int64_t out) {
    Tensor places = torch::empty({out}, at::kLong);
    for (int64_t i = 0; i < out; ++i) {
      // (i + 1/2) * in / out, rounded down, in whole numbers.
      places.data_ptr<int64_t>()[i] = std::min((2 * i + 1) * in / (2 * out), in - 1);
    }
    return places;
  };
  return images.index_select(kHeightAxis, places(images.size(kHeightAxis), height))
      .index_select(kWidthAxis, places(images.size(kWidthAxis), width));
}

template <typename T>
void resize_into(const Tensor& images, Tensor& out, bool antialias) {
  const int64_t height = images.size(kHeightAxis);
  const int64_t width = images.size(kWidthAxis);
  const int64_t channels = images.size(-1);
  const int64_t out_size = out.size(kHeightAxis) * out.size(kWidthAxis) * channels;
  const int64_t rows = images.dim() == 4 ? images.size(0) : 1;
  for (int64_t i = 0; i < rows; ++i) {
    internal::resample(images.data_ptr<T>() + i * height * width * channels, height, width,
                       channels, {0, 0, static_cast<double>(height), static_cast<double>(width)},
                       out.data_ptr<T>() + i * out_size, out.size(kHeightAxis),
                       out.size(kWidthAxis), {.antialias = antialias});
  }
}

}  // namespace

Tensor resize(const Tensor& images, int64_t height, int64_t width, const ResizeOptions& options) {
  check_images("resize", images);
  if (height < 1 || width < 1 || images.size(kHeightAxis) < 1 || images.size(kWidthAxis) < 1) {
    throw invalid_argument(
        fmt::format("resize: {} cannot become {} x {} pixels", describe(images), height, width));
  }
  if (options.method == ResizeMethod::kNearest) return resize_nearest(images, height, width);
  Shape shape = images.sizes().vec();
  shape[shape.size() - 3] = height;
  shape[shape.size() - 2] = width;
  Tensor out = torch::empty(shape, images.options().requires_grad(false));
  if (images.scalar_type() == kUInt8) {
    resize_into<uint8_t>(images.contiguous(), out, options.antialias);
  } else if (images.scalar_type() == kFloat32) {
    resize_into<float>(images.contiguous(), out, options.antialias);
  } else {
    throw invalid_argument(fmt::format("not supported: a bilinear resize of {}", describe(images)),
                           "convert the images to uint8 or float32 first");
  }
  return out;
}

Tensor center_crop(const Tensor& images, int64_t height, int64_t width) {
  check_crop("center_crop", images, height, width);
  return images.narrow(kHeightAxis, (images.size(kHeightAxis) - height) / 2, height)
      .narrow(kWidthAxis, (images.size(kWidthAxis) - width) / 2, width);
}

Tensor random_crop(const Tensor& images, int64_t height, int64_t width, RandomKey key) {
  check_crop("random_crop", images, height, width);
  if (images.dim() == 4 && images.size(0) == 0) return center_crop(images, height, width);
  return for_each_image(images, [&](const Tensor& image, int64_t row) {
    Random random(images.dim() == 4 ? key.derive(static_cast<uint64_t>(row)) : key);
    const auto place = [&](int64_t size, int64_t part) {
      return static_cast<int64_t>(random.uniform_below(static_cast<uint64_t>(size - part + 1)));
    };
    const int64_t top = place(image.size(0), height);
    const int64_t left = place(image.size(1), width);
    return image.narrow(0, top, height).narrow(1, left, width);
  });
}

Tensor flip_left_right(const Tensor& images) {
  check_images("flip_left_right", images);
  return images.flip(kWidthAxis);
}

Tensor random_flip_left_right(const Tensor& images, RandomKey key, double probability) {
  check_images("random_flip_left_right", images);
  if (!(probability >= 0 && probability <= 1)) {
    throw invalid_argument(
        fmt::format("random_flip_left_right: the probability is 0 to 1, not {}", probability));
  }
  const auto draw = [&](RandomKey own) { return Random(own).uniform() < probability; };
  if (images.dim() == 3) return draw(key) ? flip_left_right(images) : images;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < images.size(0); ++i) {
    if (draw(key.derive(static_cast<uint64_t>(i)))) chosen.push_back(i);
  }
  Tensor out = images.clone();
  for (const int64_t i : chosen) out[i].copy_(images[i].flip(kWidthAxis));
  return out;
}

Tensor to_float(const Tensor& images) {
  check_images("to_float", images);
  if (images.scalar_type() != kUInt8) {
    throw invalid_argument(fmt::format("to_float takes uint8 images, not {}", describe(images)),
                           "call it on what was decoded, once");
  }
  return images.to(at::kFloat).div_(255);
}

Tensor normalize(const Tensor& images, std::span<const double> mean, std::span<const double> std) {
  check_images("normalize", images);
  if (images.scalar_type() != kFloat32) {
    throw invalid_argument(fmt::format("normalize takes float32 images, not {}", describe(images)),
                           "to_float() makes them of uint8");
  }
  const auto channels = static_cast<size_t>(images.size(-1));
  if (mean.size() != channels || std.size() != channels) {
    throw invalid_argument(fmt::format("normalize: {} means and {} standard deviations for {}",
                                       mean.size(), std.size(), describe(images)),
                           "give one of each for every channel");
  }
  const auto tensor_of = [](std::span<const double> numbers) {
    Tensor tensor = torch::empty({static_cast<int64_t>(numbers.size())});
    std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<float>());
    return tensor;
  };
  for (const double deviation : std) {
    if (deviation > 0) continue;
    throw invalid_argument(fmt::format("normalize: a standard deviation is {}", deviation),
                           "standard deviations are above 0");
  }
  return (images - tensor_of(mean)).div_(tensor_of(std));
}

}  // namespace muster::inline v0_1::data
