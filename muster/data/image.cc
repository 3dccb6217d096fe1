#include "muster/data/image.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/internal/image_options.h"
#include "muster/data/internal/resize_image.h"
#include "muster/formats/image.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using internal::ResampleBox;

constexpr int64_t kLongestSide = 65536;
constexpr int kDraws = 10;
constexpr size_t kMostKept = size_t{16} << 20;  // bytes, of each thread

// The largest box of this proportion (width / height), times `fraction`, in the middle.
ResampleBox middle(double height, double width, double proportion, double fraction) {
  const double box_height = fraction * std::min(height, width / proportion);
  const double box_width = fraction * std::min(width, height * proportion);
  return {(height - box_height) / 2, (width - box_width) / 2, box_height, box_width};
}

ResampleBox random_box(const formats::ImageInfo& info, const ImageOptions& options, Random random) {
  const auto height = static_cast<double>(info.height);
  const auto width = static_cast<double>(info.width);
  const double low = std::log(options.aspect_ratio[0]);
  const double high = std::log(options.aspect_ratio[1]);
  for (int draw = 0; draw < kDraws; ++draw) {
    const double part = options.area[0] + random.uniform() * (options.area[1] - options.area[0]);
    const double proportion = std::exp(low + random.uniform() * (high - low));
    const double box_width = std::round(std::sqrt(height * width * part * proportion));
    const double box_height = std::round(std::sqrt(height * width * part / proportion));
    if (box_width < 1 || box_height < 1 || box_width > width || box_height > height) continue;
    const auto rows = static_cast<uint64_t>(height - box_height) + 1;
    const auto columns = static_cast<uint64_t>(width - box_width) + 1;
    const auto top = static_cast<double>(random.uniform_below(rows));
    const auto left = static_cast<double>(random.uniform_below(columns));
    return {top, left, box_height, box_width};
  }
  return middle(height, width,
                std::clamp(width / height, options.aspect_ratio[0], options.aspect_ratio[1]), 1);
}

// The part of the image that is taken, and whether it is mirrored.
struct Crop {
  ResampleBox box;
  bool flip = false;
};

Crop choose_crop(const formats::ImageInfo& info, const ImageOptions& options, RandomKey key) {
  const auto height = static_cast<double>(info.height);
  const auto width = static_cast<double>(info.width);
  switch (options.fit) {
    case ImageFit::kStretch:
      return {{0, 0, height, width}};
    case ImageFit::kCenterCrop:
      return {middle(height, width,
                     static_cast<double>(options.width) / static_cast<double>(options.height),
                     options.crop_fraction)};
    case ImageFit::kRandomCrop:
      // The box takes as many draws as it needs; the flip does not depend on that.
      return {random_box(info, options, Random(key.derive(0))),
              Random(key.derive(1)).uniform() < options.flip_probability};
  }
  throw internal_error("an ImageFit that does not exist");
}

// The pixels that a box touches.
formats::ImageRegion region_of(const ResampleBox& box, const formats::ImageInfo& info) {
  const auto top = static_cast<int64_t>(std::floor(box.top));
  const auto left = static_cast<int64_t>(std::floor(box.left));
  const auto bottom = static_cast<int64_t>(std::ceil(box.top + box.height));
  const auto right = static_cast<int64_t>(std::ceil(box.left + box.width));
  return {top, left, std::min(bottom, info.height) - top, std::min(right, info.width) - left};
}

// Says once of each image that it is damaged, and how many are so far. All of the first, then fewer
// and fewer: 16, 32, 64 ...
void tell_of_damage(const formats::DecodedImage& image, std::string_view what) {
  if (image.damage.empty()) return;
  constexpr size_t kAll = 10, kMostNames = 100'000;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> names;
  size_t count = 0;
  {
    const std::lock_guard lock(mutex);
    if (names.size() >= kMostNames || !names.emplace(what).second) return;
    count = names.size();
  }
  if (count > kAll && (count & (count - 1)) != 0) return;
  log::warning(
      fmt::format("'{}' is damaged and was decoded only in part ({} such images so far): {}", what,
                  count, image.damage));
}

}  // namespace

namespace internal {

void check_image_options(const ImageOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw invalid_argument("ImageOptions: " + what);
  };
  const auto goes_up = [](const std::array<double, 2>& range) {
    return range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]);
  };
  if (options.height < 1 || options.width < 1 || options.height > kLongestSide ||
      options.width > kLongestSide) {
    refuse(fmt::format("height and width are 1 to {}, not {} and {}", kLongestSide, options.height,
                       options.width));
  }
  if (options.channels != 1 && options.channels != 3) {
    refuse(fmt::format("channels is 1 or 3, not {}", options.channels));
  }
  if (options.dtype != kFloat32 && options.dtype != kUInt8) {
    refuse(fmt::format("dtype is float32 or uint8, not {}", dtype_name(options.dtype)));
  }
  for (const auto& [name, numbers] : {std::pair("mean", &options.mean), {"std", &options.std}}) {
    if (numbers->empty()) continue;
    if (numbers->size() != static_cast<size_t>(options.channels)) {
      refuse(fmt::format("{} has {} numbers for {} channels", name, numbers->size(),
                         options.channels));
    }
    if (options.dtype != kFloat32) {
      refuse(fmt::format("{} is for float32; uint8 stays as it is", name));
    }
  }
  for (const double deviation : options.std) {
    if (!(deviation > 0)) refuse(fmt::format("std is above 0, not {}", deviation));
  }
  if (!(options.crop_fraction > 0 && options.crop_fraction <= 1)) {
    refuse(fmt::format("crop_fraction is above 0 and at most 1, not {}", options.crop_fraction));
  }
  if (!goes_up(options.area) || options.area[1] > 1) {
    refuse(fmt::format("area goes from above 0 to at most 1, not from {} to {}", options.area[0],
                       options.area[1]));
  }
  if (!goes_up(options.aspect_ratio)) {
    refuse(fmt::format("aspect_ratio goes up from above 0, not from {} to {}",
                       options.aspect_ratio[0], options.aspect_ratio[1]));
  }
  if (!(options.flip_probability >= 0 && options.flip_probability <= 1)) {
    refuse(fmt::format("flip_probability is 0 to 1, not {}", options.flip_probability));
  }
}

}  // namespace internal

Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options,
                    std::string_view what) {
  if (options.dtype != kUInt8 && options.dtype != kInt32 && options.dtype != kFloat32) {
    throw invalid_argument(fmt::format("decode_image: dtype is uint8, int32 or float32, not {}",
                                       dtype_name(options.dtype)));
  }
  const Bytes file = bytes_of(bytes);
  const bool deep = options.dtype == kInt32 ||
                    (options.dtype == kFloat32 && formats::image_info(file, what).value().bits > 8);
  formats::DecodedImage image =
      formats::decode_image(file, what,
                            {.channels = options.channels,
                             .bits = deep ? 16 : 8,
                             .try_recover_truncated = options.try_recover_truncated})
          .value();
  tell_of_damage(image, what);
  const Shape shape{image.height, image.width, image.channels};
  if (deep) {
    // There is no uint16: its bytes become a wider type.
    const Tensor levels =
        torch::from_blob(image.pixels.get(), shape, at::kShort).to(at::kInt).bitwise_and(0xffff);
    return options.dtype == kInt32 ? levels : levels.to(kFloat32).div_(65535);
  }
  uint8_t* pixels = image.pixels.release();
  const Tensor levels = torch::from_blob(
      pixels, shape, [](void* memory) { delete[] static_cast<uint8_t*>(memory); }, at::kByte);
  return options.dtype == kUInt8 ? levels : levels.to(kFloat32).div_(255);
}

Tensor decode_image(std::string_view bytes, int channels, std::string_view what) {
  return decode_image(bytes, {.channels = channels}, what);
}

Tensor decode_image_value(const Value& bytes, const DecodeImageOptions& options) {
  if (!bytes.is_strings() || bytes.strings().size() != 1) {
    throw invalid_argument(
        fmt::format("decode_image takes the bytes of one file, not {}", bytes.describe()),
        "call it in a map() before batch()");
  }
  return decode_image(bytes.strings()[0], options);
}

Tensor fit_image(std::string_view bytes, const ImageOptions& options, RandomKey key,
                 std::string_view what) {
  internal::check_image_options(options);
  const formats::ImageInfo info = formats::image_info(bytes_of(bytes), what).value();
  const Crop crop = choose_crop(info, options, key);
  const bool deep = info.bits == 16 && options.dtype == kFloat32;
  // One image after the other in the same memory, unless it is a giant one's.
  thread_local formats::DecodedImage image;
  image = formats::decode_image(
              bytes_of(bytes), what,
              {.channels = options.channels,
               .bits = deep ? 16 : 8,
               .region = region_of(crop.box, info),
               .min_height = options.height,
               .min_width = options.width,
               .try_recover_truncated = options.try_recover_truncated},
              image.capacity <= kMostKept ? std::move(image) : formats::DecodedImage())
              .value();
  tell_of_damage(image, what);
  const ResampleBox box{crop.box.top * image.scale - static_cast<double>(image.top),
                        crop.box.left * image.scale - static_cast<double>(image.left),
                        crop.box.height * image.scale, crop.box.width * image.scale};
  Tensor out = torch::empty({options.height, options.width, options.channels}, options.dtype);
  const auto run = [&](const auto* from, auto* to, const internal::ResampleOptions& how) {
    internal::resample(from, image.height, image.width, image.channels, box, to, options.height,
                       options.width, how);
  };
  if (options.dtype == kUInt8) {
    run(image.pixels.get(), out.data_ptr<uint8_t>(), {.flip = crop.flip});
    return out;
  }
  const double most = deep ? 65535 : 255;
  std::array<float, 3> scale;
  std::array<float, 3> offset;
  for (size_t c = 0; c < 3; ++c) {
    const double deviation = c < options.std.size() ? options.std[c] : 1;
    const double mean = c < options.mean.size() ? options.mean[c] : 0;
    scale[c] = static_cast<float>(1 / (most * deviation));
    offset[c] = static_cast<float>(-mean / deviation);
  }
  const internal::ResampleOptions how{
      .flip = crop.flip, .scale = scale.data(), .offset = offset.data()};
  if (deep) {
    run(reinterpret_cast<const uint16_t*>(image.pixels.get()), out.data_ptr<float>(), how);
  } else {
    run(image.pixels.get(), out.data_ptr<float>(), how);
  }
  return out;
}

}  // namespace muster::inline v0_1::data
