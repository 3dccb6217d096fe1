// Images from files: decoded, and brought to one size. Thread safety: pure functions; those that
// take a RandomKey give the same for the same key.
//
//   const std::vector<std::string> classes = data::image_classes("photos/train");
//   Dataset train = data::image_folder("photos/train", {.fit = data::ImageFit::kRandomCrop,
//                                                       .mean = {0.485, 0.456, 0.406},
//                                                       .std = {0.229, 0.224, 0.225}})
//                       .shuffle(10000).repeat().batch(32).prefetch();
//   Dataset eval = data::image_folder("photos/val", {.fit = data::ImageFit::kCenterCrop, ...},
//                                     {.classes = classes}).batch(32);
//
// A JPEG is decoded no further than the part and the size that are wanted need it, and what comes
// out of the decoder goes straight into the tensor.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/dataset.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1::data {

// All of a JPEG or PNG at its own size: uint8[height, width, channels]. `channels`: 3 (RGB) or 1
// (grey). `what` is how errors call it, best the path. Throws Corrupt for bytes that are no image,
// damaged or cut short, InvalidArgument for images that are not supported, for more than 2^27
// pixels and for another number of channels.
Tensor decode_image(std::string_view bytes, int channels = 3, std::string_view what = "image");
// The same of a value that holds one string. Throws InvalidArgument for any other.
Tensor decode_image(const Value& bytes, int channels = 3);

// How an image of any size becomes one of a given size.
enum class ImageFit {
  kStretch,     // all of it, whatever that does to its proportions
  kCenterCrop,  // the middle, in the proportions wanted: for evaluation
  kRandomCrop,  // a random part at a random size, mirrored at random: for training
};

// What fit_image() makes of an image.
struct ImageOptions {
  int64_t height = 224;  // pixels
  int64_t width = 224;
  int channels = 3;  // 3: RGB, 1: grey
  ImageFit fit = ImageFit::kStretch;
  // kFloat32: 0 to 1, or (that - mean) / std; kUInt8: 0 to 255.
  DType dtype = kFloat32;
  // One number for each channel, or none: 0 and 1.
  std::vector<double> mean = {};
  std::vector<double> std = {};

  // kCenterCrop: the part of the largest such crop that is taken. 0.875 is what "shorter side to
  // 256, then the middle 224" takes.
  double crop_fraction = 0.875;

  // kRandomCrop: the part of the area that is taken, from and to; width / height of what is taken,
  // from and to; how probably it is mirrored, left to right. An image too long for its proportions
  // is cropped in the middle, after ten draws.
  std::array<double, 2> area = {0.08, 1.0};
  std::array<double, 2> aspect_ratio = {3.0 / 4.0, 4.0 / 3.0};
  double flip_probability = 0.5;
};

// The image as [height, width, channels] of options.dtype, bilinear, antialiased. `key`: what
// kRandomCrop draws from. Throws as decode_image(), and InvalidArgument for options out of range.
Tensor fit_image(std::string_view bytes, const ImageOptions& options, RandomKey key = {},
                 std::string_view what = "image");

// Options of image_folder().
struct ImageFolderOptions {
  // Files with another ending (upper or lower case) are left out.
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png"};
  // The names of the classes, in the order of their labels; when empty, those of the sub-folders.
  // Give those of the training data to evaluate by the same labels.
  std::vector<std::string> classes = {};
};

// The images below `dir`, one sub-folder for each class: tuples (image as fit_image() makes it,
// int64 scalar: the label). Labels count the sub-folders sorted by name, from 0; elements are
// sorted by class, then by name. Files that are no such images are left out, and one line of the
// log says which; names that begin with a dot are left out silently. Images are read when they are
// needed; one that cannot be decoded is an error naming its path. Throws NotFound when there is no
// such directory, InvalidArgument for one without sub-folders, a sub-folder without images, one
// that options.classes does not name, and options out of range.
Dataset image_folder(const std::string& dir, const ImageOptions& image = {},
                     const ImageFolderOptions& options = {});

// The names of the classes of image_folder(dir), by label. Throws as it does for `dir`.
std::vector<std::string> image_classes(const std::string& dir);

}  // namespace muster::inline v0_1::data
