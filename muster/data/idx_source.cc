#include "muster/data/idx_source.h"

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/formats/idx.h"
#include "muster/stores/file_systems.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using formats::IdxArray;
using formats::IdxType;

Tensor to_int64(const IdxArray& array, const std::string& path) {
  const auto from = [&](DType dtype) {
    // from_blob does not write; the cast below copies.
    return torch::from_blob(const_cast<char*>(array.data.data()), array.shape, dtype)
        .to(at::kLong, /*non_blocking=*/false, /*copy=*/true);
  };
  switch (array.type) {
    case IdxType::kUint8:
      return from(at::kByte);
    case IdxType::kInt8:
      return from(at::kChar);
    case IdxType::kInt16:
      return from(at::kShort);
    case IdxType::kInt32:
      return from(at::kInt);
    default:
      throw invalid_argument(fmt::format("the labels in {} are {}, not integers", path,
                                         formats::to_string(array.type)));
  }
}

}  // namespace

Dataset from_idx(const std::string& images_path, const std::string& labels_path) {
  FileSystem& files = stores::file_systems();
  const IdxArray images = formats::read_idx(files, images_path).value();
  const IdxArray labels = formats::read_idx(files, labels_path).value();
  if (images.type != IdxType::kUint8 || images.shape.size() != 3) {
    throw invalid_argument(
        fmt::format("the images in {} are {}{}, not uint8[n, height, width]", images_path,
                    formats::to_string(images.type), describe(images.shape)),
        "are images and labels the wrong way round?");
  }
  if (labels.shape.size() != 1) {
    throw invalid_argument(
        fmt::format("the labels in {} are {}{}, not one number per image", labels_path,
                    formats::to_string(labels.type), describe(labels.shape)),
        "are images and labels the wrong way round?");
  }
  if (images.shape[0] != labels.shape[0]) {
    throw corrupt(fmt::format("{} has {} images, but {} has {} labels", images_path,
                              images.shape[0], labels_path, labels.shape[0]),
                  "take both files from the same data set, of the same split");
  }
  if (images.shape[0] == 0) {
    throw invalid_argument(fmt::format("the data set {} is empty (0 rows)", images_path),
                           "take files with images in them; muster data digits makes some");
  }
  Tensor pixels = torch::empty({images.shape[0], images.shape[1], images.shape[2], 1}, at::kByte);
  std::memcpy(pixels.data_ptr(), images.data.data(), images.data.size());
  return Dataset::from_tensor_slices(
      Element::tuple({std::move(pixels), to_int64(labels, labels_path)}));
}

Dataset mnist(const std::string& data_dir, const std::string& split) {
  if (split != "train" && split != "test") {
    throw invalid_argument(fmt::format("there is no split \"{}\" of this data set", split),
                           "pass \"train\" or \"test\"");
  }
  const std::string prefix = split == "train" ? "train" : "t10k";
  std::vector<std::string> missing;
  const auto find = [&](const std::string& name) {
    const std::string plain = join_path(data_dir, name);
    const bool has_plain = stores::file_systems().exists(plain).value();
    if (!stores::file_systems().exists(plain + ".gz").value()) {
      if (!has_plain) missing.push_back(name + "[.gz]");
      return plain;
    }
    if (has_plain) {
      throw invalid_argument(fmt::format("{}: both {} and {}.gz are there", data_dir, name, name),
                             "remove one; they need not be the same data");
    }
    return plain + ".gz";
  };
  const std::string images = find(prefix + "-images-idx3-ubyte");
  const std::string labels = find(prefix + "-labels-idx1-ubyte");
  if (!missing.empty() && data_dir.empty()) {
    throw invalid_argument("no data directory was given",
                           "pass --data_dir=DIR; muster data digits --out DIR makes one");
  }
  if (!missing.empty()) {
    FileSystem& files = stores::file_systems();
    const auto make_in = [](const std::string& folder) {
      return "make a data set with: muster data digits --out " + folder;
    };
    if (!files.exists(data_dir).value()) {
      throw not_found(fmt::format("the data directory {} does not exist", data_dir),
                      make_in(data_dir));
    }
    if (!files.info(data_dir).value().is_directory) {
      throw invalid_argument(fmt::format("the data directory {} is a file", data_dir),
                             "pass the folder that holds " + join(missing, " and "));
    }
    // Between files of the user's ours would look like theirs.
    throw not_found(
        fmt::format("the data directory {} has no {}", data_dir, join(missing, " and no ")),
        make_in(files.list_directory(data_dir).value().empty() ? data_dir : "digits"));
  }
  return from_idx(images, labels);
}

}  // namespace muster::inline v0_1::data
