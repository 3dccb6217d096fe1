// Decodes images and fits them to one size. Thread safety: pure functions; those with a RandomKey
// return the same result for the same key.
//
//   const std::vector<std::string> classes = data::image_classes("photos/train");
//   Dataset train = data::image_folder("photos/train", {.fit = data::ImageFit::kRandomCrop,
//                                                       .mean = {0.485, 0.456, 0.406},
//                                                       .std = {0.229, 0.224, 0.225}})
//                       .shuffle(10000).repeat().batch(32).prefetch();
//   Dataset eval = data::image_folder("photos/val", {.fit = data::ImageFit::kCenterCrop, ...},
//                                     {.classes = classes}).batch(32);
//
// A JPEG is decoded only as far as the requested part and size need, directly into the tensor.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/data/dataset.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1::data {

// The extensions of files that can be decoded. The first bytes decide the format, so a file may
// have the extension of another format.
inline const std::vector<std::string> kImageExtensions = {".jpg", ".jpeg", ".png", ".bmp", ".gif"};

// Options of decode_image().
struct DecodeImageOptions {
  int channels = 3;  // 3: RGB, 1: grey
  // kUInt8: 0 to 255. kInt32: 0 to 65535, which keeps all of a 16-bit PNG (tensors have no uint16;
  // 8-bit pixels are multiplied by 257). kFloat32: 0 to 1, which also keeps all bits.
  DType dtype = kUInt8;
  // Decodes a JPEG whose end is missing as far as it goes, instead of throwing.
  bool try_recover_truncated = false;
};

// Decodes a whole JPEG, PNG, BMP, or the first frame of a GIF, in its own size to [height, width,
// channels]. `what` is the name of the image in messages, best its path. A JPEG with damage before
// its end is decoded as far as it goes, and a warning counts such images. Throws Corrupt for bytes
// that are not an image, for other damage, and for truncated data; InvalidArgument for unsupported
// images, for more than 2^27 pixels and for options out of range.
MUSTER_EXPORT Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options,
                                  std::string_view what = "image");
// Does the same, to uint8.
MUSTER_EXPORT Tensor decode_image(std::string_view bytes, int channels = 3,
                                  std::string_view what = "image");
// Does the same with a value that holds one string. Throws InvalidArgument for any other value.
MUSTER_EXPORT Tensor decode_image_value(const Value& bytes, const DecodeImageOptions& options = {});
// A template, so that it is not called for a text, which converts to a Value but means bytes here.
template <std::same_as<Value> T>
Tensor decode_image(const T& bytes, const DecodeImageOptions& options) {
  return decode_image_value(bytes, options);
}
template <std::same_as<Value> T>
Tensor decode_image(const T& bytes, int channels = 3) {
  return decode_image_value(bytes, {.channels = channels});
}

// How an image of any size is fitted to a given size.
enum class ImageFit {
  kStretch,     // the whole image; its proportions may change
  kCenterCrop,  // the middle, in the requested proportions: for evaluation
  kRandomCrop,  // a random part at a random size, mirrored at random: for training
};

// Options of fit_image().
struct ImageOptions {
  int64_t height = 224;  // pixels
  int64_t width = 224;
  int channels = 3;  // 3: RGB, 1: grey
  ImageFit fit = ImageFit::kStretch;
  // kFloat32: pixels are 0 to 1, or (pixel - mean) / std, and a 16-bit PNG keeps its bits. kUInt8:
  // pixels are 0 to 255.
  DType dtype = kFloat32;
  // One number for each channel. Empty: mean 0, std 1.
  std::vector<double> mean = {};
  std::vector<double> std = {};

  // For kCenterCrop: the fraction of the largest possible crop. 0.875 means the same as "shorter
  // side to 256, then the middle 224".
  double crop_fraction = 0.875;

  // For kRandomCrop: the range of the crop's share of the area; the range of its width / height;
  // and the probability of mirroring it left to right. If ten draws do not fit into a very long
  // image, its middle is used.
  std::array<double, 2> area = {0.08, 1.0};
  std::array<double, 2> aspect_ratio = {3.0 / 4.0, 4.0 / 3.0};
  double flip_probability = 0.5;

  // Decodes a JPEG whose end is missing as far as it goes, instead of throwing.
  bool try_recover_truncated = false;
};

// Returns the image as [height, width, channels] of options.dtype; it is resized bilinearly with
// antialiasing. kRandomCrop draws from `key`. Throws as decode_image() does, and InvalidArgument
// for options out of range.
MUSTER_EXPORT Tensor fit_image(std::string_view bytes, const ImageOptions& options,
                               RandomKey key = {}, std::string_view what = "image");

// Options of image_folder().
struct ImageFolderOptions {
  // The extensions of files to read, in upper or lower case. Other files are skipped.
  std::vector<std::string> extensions = kImageExtensions;
  // The names of the classes, in the order of their labels; empty: the names of the sub-folders.
  // For evaluation, give the classes of the training data, so that labels are the same.
  std::vector<std::string> classes = {};
};

// Reads the images in `dir`, which has a sub-folder for each class, as tuples (the image from
// fit_image(), the label as an int64 scalar). Labels number the sub-folders, sorted by name, from
// 0; elements are sorted by class, then by name. Other files are skipped, and one log line names
// them; names that begin with a dot are skipped silently. Images are read when needed; one that
// cannot be decoded is an error with its path. Throws NotFound when the directory is missing;
// InvalidArgument when it has no sub-folders, when a sub-folder has no images or is not in
// options.classes, and for options out of range.
MUSTER_EXPORT Dataset image_folder(const std::string& dir, const ImageOptions& image = {},
                                   const ImageFolderOptions& options = {});

// Reads the images at these paths, in order, with fit_image(): for prediction, without labels.
// Throws InvalidArgument for options out of range.
MUSTER_EXPORT Dataset images_at(const std::vector<std::string>& paths,
                                const ImageOptions& image = {});

// Returns the sorted paths of the images in `dir` and all folders below it: files whose names have
// one of these extensions, in lower or upper case. Names that begin with a dot are skipped. Throws
// NotFound when the directory is missing, and InvalidArgument for a file and for a directory
// without images.
MUSTER_EXPORT std::vector<std::string> image_files(
    const std::string& dir, const std::vector<std::string>& extensions = kImageExtensions);

// Returns the names of the classes of image_folder(dir), by label. Throws the same errors for
// `dir`.
MUSTER_EXPORT std::vector<std::string> image_classes(const std::string& dir);

}  // namespace muster::inline v0_1::data
