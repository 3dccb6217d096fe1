
#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/missing_file.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/data/image.h"
#include "muster/data/internal/image_options.h"
#include "muster/files/file_systems.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

constexpr size_t kNamesShown = 5;

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

// The direct content of a directory, hidden names left out.
struct Listing {
  std::vector<std::string> directories{};
  std::vector<std::string> files{};
};

Listing list(FileSystem& files, const std::string& dir) {
  Listing listing;
  if (is_remote(dir)) {
    // One request determines the kinds of all files of a folder.
    for (const auto& [name, info] : files.list_entries(dir).value()) {
      if (!is_hidden(name))
        (info.is_directory ? listing.directories : listing.files).push_back(name);
    }
    return listing;
  }
  for (const std::string& name : files.list_directory(dir).value()) {
    if (is_hidden(name)) continue;
    const FileInfo info = files.info(join_path(dir, name)).value();
    (info.is_directory ? listing.directories : listing.files).push_back(name);
  }
  return listing;
}

void check_folder(FileSystem& files, const std::string& dir, const char* hint) {
  const Result<FileInfo> info = files.info(dir);
  if (!info.ok() && info.error().kind() == ErrorKind::kNotFound)
    throw not_found(fmt::format("the image folder '{}' does not exist", dir),
                    fmt::format("{}; {}", what_stands_beside(files, dir), hint));
  if (!info.value().is_directory)
    throw invalid_argument(fmt::format("the image folder '{}' is a file", dir), hint);
}

bool has_ending(const std::string& name, const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const std::string& ending) {
    return to_lower(name).ends_with(to_lower(ending));
  });
}

void add_images_below(FileSystem& files, const std::string& dir,
                      const std::vector<std::string>& extensions, std::vector<std::string>& paths) {
  const Listing inside = list(files, dir);
  for (const std::string& file : inside.files) {
    if (has_ending(file, extensions)) paths.push_back(join_path(dir, file));
  }
  for (const std::string& folder : inside.directories)
    add_images_below(files, join_path(dir, folder), extensions, paths);
}

Tensor read_image(std::string_view path, const ImageOptions& image, RandomKey key) {
  const std::string bytes = file_systems().read_file(std::string(path)).value();
  return fit_image(bytes, image, key, path);
}

// The content of `dir` itself; throws if that is not a sub-folder at all.
Listing list_classes(FileSystem& files, const std::string& dir) {
  const char* layout = "put the images of each class into a folder of their own: DIR/CLASS/IMAGE";
  check_folder(files, dir, layout);
  Listing listing = list(files, dir);
  if (!listing.directories.empty()) return listing;
  if (listing.files.empty()) {
    throw invalid_argument(fmt::format("the image folder '{}' is empty", dir), layout);
  }
  throw invalid_argument(
      fmt::format("the image folder '{}' has {} files ('{}', ...) but no sub-folders", dir,
                  listing.files.size(), listing.files[0]),
      layout);
}

// The label of each sub-folder.
std::vector<int64_t> labels_of(const std::string& dir, const std::vector<std::string>& folders,
                               const std::vector<std::string>& classes) {
  std::vector<int64_t> labels;
  for (size_t i = 0; i < folders.size(); ++i) {
    if (classes.empty()) {
      labels.push_back(static_cast<int64_t>(i));
      continue;
    }
    const auto found = std::find(classes.begin(), classes.end(), folders[i]);
    if (found == classes.end()) {
      throw invalid_argument(
          fmt::format("'{}' has the sub-folder '{}', which is not one of the {} given classes: {}",
                      dir, folders[i], classes.size(), join(classes, ", ")),
          "rename or remove it, or add it to ImageFolderOptions.classes");
    }
    labels.push_back(found - classes.begin());
  }
  return labels;
}

void report_left_out(const std::string& dir, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  if (names.size() > kNamesShown) shown.push_back("...");
  log::warning(
      fmt::format("image folder '{}': skipped files that are not images in a class folder, {}: {}",
                  dir, names.size(), join(shown, ", ")));
}

}  // namespace

std::vector<std::string> image_classes(const std::string& dir) {
  return list_classes(file_systems(), dir).directories;
}

Dataset image_folder(const std::string& dir, const ImageOptions& image,
                     const ImageFolderOptions& options) {
  internal::check_image_options(image);
  if (options.extensions.empty()) {
    throw invalid_argument("ImageFolderOptions: extensions is empty", "give \".jpg\", for example");
  }
  FileSystem& files = file_systems();
  const Listing top = list_classes(files, dir);
  const std::vector<int64_t> labels = labels_of(dir, top.directories, options.classes);

  std::vector<std::pair<int64_t, std::string>> found;
  std::vector<std::string> left_out = top.files;
  for (size_t i = 0; i < top.directories.size(); ++i) {
    const std::string& name = top.directories[i];
    const size_t before = found.size();
    const Listing inside = list(files, join_path(dir, name));
    for (const std::string& file : inside.files) {
      if (has_ending(file, options.extensions)) {
        found.emplace_back(labels[i], join_path(join_path(dir, name), file));
      } else {
        left_out.push_back(name + "/" + file);
      }
    }
    for (const std::string& folder : inside.directories)
      left_out.push_back(name + "/" + folder + "/");
    if (found.size() == before) {
      throw invalid_argument(
          fmt::format("the class folder '{}' has no image ({})", join_path(dir, name),
                      join(options.extensions, ", ")),
          "remove the folder, or name other endings in ImageFolderOptions.extensions");
    }
  }
  report_left_out(dir, left_out);

  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> paths;
  Tensor numbers = torch::empty({static_cast<int64_t>(found.size())}, at::kLong);
  for (size_t i = 0; i < found.size(); ++i) {
    numbers.data_ptr<int64_t>()[i] = found[i].first;
    paths.push_back(std::move(found[i].second));
  }
  const auto load = [image](const Element& element, RandomKey key) {
    return Element::tuple(
        {read_image(element.part(0).value().strings()[0], image, key), element.part(1)});
  };
  return Dataset::from_tensor_slices(Element::tuple({Value(Strings(paths)), numbers}))
      .map(load, {.name = "load image", .num_parallel_calls = kAutotune});
}

Dataset images_at(const std::vector<std::string>& paths, const ImageOptions& image) {
  internal::check_image_options(image);
  const auto load = [image](const Element& path, RandomKey key) {
    return Element(read_image(path.value().strings()[0], image, key));
  };
  return Dataset::from_tensor_slices(Strings(paths))
      .map(load, {.name = "load image", .num_parallel_calls = kAutotune});
}

std::vector<std::string> image_files(const std::string& dir,
                                     const std::vector<std::string>& extensions) {
  FileSystem& files = file_systems();
  check_folder(files, dir, "name a folder that holds images");
  std::vector<std::string> paths;
  add_images_below(files, dir, extensions, paths);
  if (paths.empty()) {
    throw invalid_argument(
        fmt::format("there is no image in '{}' and below it ({})", dir, join(extensions, ", ")),
        "name a folder that holds files with these endings");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace muster::inline v0_1::data
