#include "muster/data/idx_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/formats/idx.h"
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

Dataset rows_of(const IdxArray& images, const std::string& images_path, const IdxArray& labels,
                const std::string& labels_path) {
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

// A file that may be one of MNIST's.
struct MnistFile {
  std::string name{};
  std::string prefix{};  // the text before the split: "emnist-letters-"; mostly empty
};

// MNIST's own name of the images or the labels of a split.
std::string own_name(const std::string& split, bool images) {
  return (split == "train" ? "train" : "t10k") +
         std::string(images ? "-images-idx3-ubyte" : "-labels-idx1-ubyte");
}

// Reads a name as one of the images or labels of a split: Kaggle's archive and some that unpack
// have dots and underscores for dashes, EMNIST a name in front and "test" for "t10k".
std::optional<MnistFile> as_mnist_file(const std::string& name, const std::string& split,
                                       bool images) {
  std::string plain = to_lower(name);
  if (plain.ends_with(".gz")) plain.resize(plain.size() - 3);
  for (char& letter : plain) {
    if (letter == '.' || letter == '_') letter = '-';
  }
  std::vector<std::string> endings{own_name(split, images)};
  if (split == "test") endings.push_back("test" + endings.front().substr(4));
  for (const std::string& ending : endings) {
    if (!plain.ends_with(ending)) continue;
    std::string prefix = plain.substr(0, plain.size() - ending.size());
    if (prefix.empty() || prefix.ends_with('-')) return MnistFile{name, std::move(prefix)};
  }
  return std::nullopt;
}

// The names of the files in a folder, without the folders in it: some archives have a folder of the
// name of each file. If the folder cannot be listed (a web server), the MNIST names that exist
// there.
std::vector<std::string> file_names(FileSystem& files, const std::string& dir,
                                    const std::string& split) {
  std::vector<std::string> names;
  if (const auto entries = files.list_entries(dir); entries.ok()) {
    for (const DirectoryEntry& entry : entries.value()) {
      if (!entry.info.is_directory) names.push_back(entry.name);
    }
    return names;
  }
  for (const bool images : {true, false}) {
    for (const char* ending : {"", ".gz"}) {
      const std::string name = own_name(split, images) + ending;
      if (files.exists(join_path(dir, name)).value()) names.push_back(name);
    }
  }
  return names;
}

// The chosen file, with its content. Files of one prefix are one data set: the first of them is
// taken, its own name first and packed ones last, if the others have the same content.
struct MnistArray {
  std::string path{};
  IdxArray array;
};
MnistArray read_mnist(const std::string& dir, const std::vector<MnistFile>& found) {
  std::vector<MnistFile> order = found;
  std::ranges::stable_sort(order, {}, [](const MnistFile& file) {
    return std::tuple(file.prefix.size(), file.name.ends_with(".gz"),
                      file.name.find('.') != std::string::npos);
  });
  MnistArray taken;
  for (const MnistFile& file : order) {
    if (file.prefix != order.front().prefix) continue;
    const std::string path = join_path(dir, file.name);
    IdxArray array = formats::read_idx(file_systems(), path).value();
    if (taken.path.empty()) {
      taken = {path, std::move(array)};
      continue;
    }
    if (array.shape == taken.array.shape && array.data == taken.array.data) continue;
    throw invalid_argument(fmt::format("{}: both {} and {} exist, but their data differs", dir,
                                       order.front().name, file.name),
                           "remove one, or name the files: data::from_idx(images, labels)");
  }
  if (order.size() > 1) {
    log::info(fmt::format("{}: reading {}; {} more of the same content {} read", dir,
                          order.front().name, order.size() - 1,
                          order.size() == 2 ? "is not" : "are not"));
  }
  return taken;
}

// Throws InvalidArgument when the files are of several data sets, none of which is MNIST's own.
void check_one_set(const std::string& dir, const std::vector<MnistFile>& found) {
  std::set<std::string> prefixes;
  for (const MnistFile& file : found) prefixes.insert(file.prefix);
  if (prefixes.size() < 2 || prefixes.contains("")) return;
  std::vector<std::string> names;
  for (const MnistFile& file : found) names.push_back(file.name);
  throw invalid_argument(fmt::format("{} holds several data sets: {}", dir, join_quoted(names, 5)),
                         "name the files of one: data::from_idx(images, labels)");
}

}  // namespace

Dataset from_idx(const std::string& images_path, const std::string& labels_path) {
  FileSystem& files = file_systems();
  const IdxArray images = formats::read_idx(files, images_path).value();
  const IdxArray labels = formats::read_idx(files, labels_path).value();
  return rows_of(images, images_path, labels, labels_path);
}

Dataset mnist(const std::string& data_dir, const std::string& split) {
  if (split != "train" && split != "test") {
    throw invalid_argument(fmt::format("there is no split \"{}\" of this data set", split),
                           "pass \"train\" or \"test\"");
  }
  if (data_dir.empty()) {
    throw invalid_argument("no data directory was given",
                           "pass --data_dir=DIR; muster data digits --out DIR makes one");
  }
  FileSystem& files = file_systems();
  const std::string wanted =
      own_name(split, true) + "[.gz] and " + own_name(split, false) + "[.gz]";
  const auto make_in = [](const std::string& folder) {
    return "make a data set with: muster data digits --out " + folder;
  };
  if (const Result<FileInfo> info = files.info(data_dir); info.ok() && !info.value().is_directory) {
    throw invalid_argument(fmt::format("the data directory {} is a file", data_dir),
                           "pass the folder that holds " + wanted);
  }
  const std::vector<std::string> names = file_names(files, data_dir, split);
  std::vector<MnistFile> images, labels;
  for (const std::string& name : names) {
    if (auto file = as_mnist_file(name, split, true)) images.push_back(std::move(*file));
    if (auto file = as_mnist_file(name, split, false)) labels.push_back(std::move(*file));
  }
  if (images.empty() || labels.empty()) {
    if (!files.exists(data_dir).value()) {
      throw not_found(fmt::format("the data directory {} does not exist", data_dir),
                      make_in(data_dir));
    }
    std::vector<std::string> missing;
    if (images.empty()) missing.push_back(own_name(split, true) + "[.gz]");
    if (labels.empty()) missing.push_back(own_name(split, false) + "[.gz]");
    const std::string raw = join_path(data_dir, "MNIST/raw");
    // Between files of the user's ours would look like theirs.
    const bool is_empty = files.list_directory(data_dir).value_or({}).empty();
    throw not_found(
        fmt::format("the data directory {} has no {}{}", data_dir, join(missing, " and no "),
                    names.empty() ? "" : "; its files are " + join_quoted(names, 5)),
        files.exists(raw).value_or(false) ? "pass the folder that torchvision put them into: " + raw
                                          : make_in(is_empty ? data_dir : "digits"));
  }
  check_one_set(data_dir, images);
  check_one_set(data_dir, labels);
  const MnistArray pictures = read_mnist(data_dir, images);
  const MnistArray numbers = read_mnist(data_dir, labels);
  return rows_of(pictures.array, pictures.path, numbers.array, numbers.path);
}

}  // namespace muster::inline v0_1::data
