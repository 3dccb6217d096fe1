// Decodes images and brings them to one size. Thread safety: pure functions; those that take a
// RandomKey give the same for the same key.
//
//   const std::vector<std::string> classes = data::image_classes("photos/train");
//   Dataset train = data::image_folder("photos/train", {.fit = data::ImageFit::kRandomCrop,
//                                                       .mean = {0.485, 0.456, 0.406},
//                                                       .std = {0.229, 0.224, 0.225}})
//                       .shuffle(10000).repeat().batch(32).prefetch();
//   Dataset eval = data::image_folder("photos/val", {.fit = data::ImageFit::kCenterCrop, ...},
//                                     {.classes = classes}).batch(32);
//
// A JPEG is decoded only as far as the wanted part and size need it, and the decoder's output goes
// straight into the tensor.
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

// The endings of the files that can be decoded. The first bytes tell which of the kinds it is, so
// one kind may have the ending of another.
inline const std::vector<std::string> kImageExtensions = {".jpg", ".jpeg", ".png", ".bmp", ".gif"};

// Options of decode_image().
struct DecodeImageOptions {
  int channels = 3;  // 3: RGB, 1: grey
  // kUInt8, from 0 to 255; kInt32, from 0 to 65535, which keeps all of a 16-bit PNG (tensors have
  // no uint16; pixels of 8 bits are multiplied by 257); kFloat32, from 0 to 1, which keeps them
  // too.
  DType dtype = kUInt8;
  // A JPEG that has lost its end is decoded as far as it goes, rather than refused.
  bool try_recover_truncated = false;
};

// Decodes a whole JPEG, PNG, BMP, or the first frame of a GIF, at its own size to [height, width,
// channels]. `what` is the name of the image in messages, best its path. A JPEG with damage before
// its end is decoded as far as it goes, and a warning counts such images. Throws Corrupt for bytes
// that are no image, for other damage, and for what is cut short; InvalidArgument for images that
// are not supported, for more than 2^27 pixels and for options out of range.
MUSTER_EXPORT Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options,
                                  std::string_view what = "image");
// Does the same, to uint8.
MUSTER_EXPORT Tensor decode_image(std::string_view bytes, int channels = 3,
                                  std::string_view what = "image");
// Does the same with a value that holds one string. Throws InvalidArgument for any other value.
MUSTER_EXPORT Tensor decode_image_value(const Value& bytes, const DecodeImageOptions& options = {});
// A template, so that texts, which become values by themselves, are bytes here.
template <std::same_as<Value> T>
Tensor decode_image(const T& bytes, const DecodeImageOptions& options) {
  return decode_image_value(bytes, options);
}
template <std::same_as<Value> T>
Tensor decode_image(const T& bytes, int channels = 3) {
  return decode_image_value(bytes, {.channels = channels});
}

// How an image of any size becomes one of a given size.
enum class ImageFit {
  kStretch,     // all of it, whatever that does to its proportions
  kCenterCrop,  // the middle, in the proportions wanted: for evaluation
  kRandomCrop,  // a random part at a random size, mirrored at random: for training
};

// Options of fit_image().
struct ImageOptions {
  int64_t height = 224;  // pixels
  int64_t width = 224;
  int channels = 3;  // 3: RGB, 1: grey
  ImageFit fit = ImageFit::kStretch;
  // With kFloat32 pixels are 0 to 1, or (that - mean) / std, and a 16-bit PNG keeps its bits; with
  // kUInt8 they are 0 to 255.
  DType dtype = kFloat32;
  // One number for each channel. Without numbers the mean is 0 and std is 1.
  std::vector<double> mean = {};
  std::vector<double> std = {};

  // For kCenterCrop: how much of the largest such crop is taken. 0.875 gives the same as "shorter
  // side to 256, then the middle 224".
  double crop_fraction = 0.875;

  // For kRandomCrop: the share of the area that is taken, from and to; its width / height, from and
  // to; and the probability that it is mirrored, left to right. When ten draws do not fit into a
  // very long image, its middle is taken.
  std::array<double, 2> area = {0.08, 1.0};
  std::array<double, 2> aspect_ratio = {3.0 / 4.0, 4.0 / 3.0};
  double flip_probability = 0.5;

  // A JPEG that has lost its end is decoded as far as it goes, rather than refused.
  bool try_recover_truncated = false;
};

// Returns the image as [height, width, channels] of options.dtype; it is resized bilinearly with
// antialiasing. kRandomCrop draws from `key`. Throws as decode_image() does, and InvalidArgument
// for options out of range.
MUSTER_EXPORT Tensor fit_image(std::string_view bytes, const ImageOptions& options,
                               RandomKey key = {}, std::string_view what = "image");

// Options of image_folder().
struct ImageFolderOptions {
  // The endings of files to read, in upper or lower case. Other files are left out.
  std::vector<std::string> extensions = kImageExtensions;
  // The names of the classes, in the order of their labels; when empty, those of the sub-folders.
  // Give those of the training data to evaluate by the same labels.
  std::vector<std::string> classes = {};
};

// Reads the images below `dir`, which has a sub-folder for each class, as tuples (the image as
// fit_image() makes it, the label as an int64 scalar). Labels count the sub-folders, sorted by
// name, from 0; elements are sorted by class, then by name. Files that are no such images are left
// out, and one line of the log says which; names that begin with a dot are left out silently.
// Images are read when they are needed; one that cannot be decoded is an error naming its path.
// Throws NotFound when there is no such directory, InvalidArgument for one without sub-folders, a
// sub-folder without images, one that options.classes does not name, and options out of range.
MUSTER_EXPORT Dataset image_folder(const std::string& dir, const ImageOptions& image = {},
                                   const ImageFolderOptions& options = {});

// Reads the images at these paths, in their order, as fit_image() makes them: photos to predict,
// which have no labels yet. Throws InvalidArgument for options out of range.
MUSTER_EXPORT Dataset images_at(const std::vector<std::string>& paths,
                                const ImageOptions& image = {});

// Returns the paths of the images in `dir` and in all folders below it, sorted: of the files whose
// names have one of these endings, in small or capital letters. Names that begin with a dot are
// left out. Throws NotFound when there is no such directory, and InvalidArgument for a file and for
// a directory without images.
MUSTER_EXPORT std::vector<std::string> image_files(
    const std::string& dir, const std::vector<std::string>& extensions = kImageExtensions);

// Returns the names of the classes of image_folder(dir), by label. Throws as image_folder() does
// for `dir`.
MUSTER_EXPORT std::vector<std::string> image_classes(const std::string& dir);

}  // namespace muster::inline v0_1::data
