#include "muster/export/write_version.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/export/internal/description.h"
#include "muster/export/model_format.h"
#include "muster/export/servable.h"

namespace muster::inline v0_1 {
namespace {

// Aside of the versions, and of what another process writes.
std::string temporary_name(int64_t seconds) {
  return fmt::format(".temp-{}-{}", seconds, ::getpid());
}

// Removes what processes that are gone left behind.
void remove_leftovers(FileSystem& files, const std::string& directory) {
  const Result<std::vector<std::string>> names = files.list_directory(directory);
  if (!names.ok()) return;
  for (const std::string& name : names.value()) {
    if (!name.starts_with(".temp-")) continue;
    const auto process = parse_int(std::string_view(name).substr(name.rfind('-') + 1));
    if (!process || access(fmt::format("/proc/{}", *process).c_str(), F_OK) == 0) continue;
    if (const Status removed = files.remove_tree(join_path(directory, name)); !removed.ok())
      log::warning(fmt::format("cannot remove a leftover: {}", removed.error().message()));
  }
}

// Removes a folder that was not finished.
class Unfinished {
 public:
  Unfinished(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  ~Unfinished() {
    if (path_.empty()) return;
    // As in remove_version(): its answer may have got lost, and then it is there.
    if (is_remote(path_)) (void)files_.remove(join_path(path_, internal::kSignaturesFile));
    if (const Status removed = files_.remove_tree(path_); !removed.ok())
      log::warning(fmt::format("cannot remove {}: {}", path_, removed.error().message()));
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  // It is finished, under the name it has.
  void keep() { path_.clear(); }

  // Gives the folder the name `seconds`, or the next one that makes it the newest, and returns its
  // path.
  std::string finish(const std::string& directory, int64_t seconds) {
    constexpr int kTries = 10;
    for (int i = 0;; ++i) {
      const auto newest = newest_version(directory, &files_);
      const std::string path =
          join_path(directory, std::to_string(newest ? std::max(seconds, *newest + 1) : seconds));
      const Status renamed = files_.rename(path_, path);
      if (renamed.ok()) {
        path_.clear();
        return path;
      }
      // Another process may have taken the name in between.
      if (i == kTries || !files_.exists(path).value()) throw renamed.error();
    }
  }

 private:
  FileSystem& files_;
  std::string path_;
};

// Removes what exports that were killed have left in a store: folders that never became whole, that
// hold nothing else, and that were begun longer ago than any export takes.
void remove_unfinished(FileSystem& files, const std::string& export_dir, int64_t seconds) {
  constexpr int64_t kLongestExport = 24 * 3600;
  for (const int64_t version : internal::numbered_folders(files, export_dir)) {
    if (version > seconds - kLongestExport) continue;
    const std::string folder = join_path(export_dir, std::to_string(version));
    const Result<std::vector<std::string>> names = files.list_directory(folder);
    if (!names.ok() || !std::ranges::all_of(names.value(), [](const std::string& name) {
          return name.starts_with("model.") || name == "saved_model.pb" || name == "variables" ||
                 name == "assets";
        }))
      continue;
    if (const Status removed = files.remove_tree(folder); !removed.ok())
      log::warning(fmt::format("cannot remove a leftover: {}", removed.error().message()));
  }
}

// Where folders are not renamed, the version is written in its place, and is one when the last of
// its files is there.
std::string write_in_store(FileSystem& files, const std::string& export_dir, int64_t seconds,
                           const ServableSource& source) {
  remove_unfinished(files, export_dir, seconds);
  const std::vector<int64_t> there = internal::numbered_folders(files, export_dir);
  const int64_t version = there.empty() ? seconds : std::max(seconds, there.back() + 1);
  const std::string path = join_path(export_dir, std::to_string(version));
  Unfinished folder(files, path);
  write_servable(files, path, source);
  folder.keep();
  log::info(fmt::format("exported step {} to {}", source.global_step, path));
  return path;
}

}  // namespace

void check_export(const std::string& export_dir, const ServingInputReceiver& receiver) {
  if (export_dir.empty()) {
    throw invalid_argument("export_model: export_dir is empty",
                           "name a folder for the versions, such as model_dir + \"/export\"");
  }
  if (receiver.features.empty()) {
    throw invalid_argument(
        "export_model: the receiver has no features",
        "make it with raw_serving_input_receiver() or parsing_serving_input_receiver()");
  }
}

std::string write_version(FileSystem& files, const std::string& export_dir, int64_t seconds,
                          const ServableSource& source) {
  check_export(export_dir, source.receiver);
  for (const std::string& format : source.formats) (void)model_format(format);
  files.make_directories(export_dir).value();
  if (is_remote(export_dir)) return write_in_store(files, export_dir, seconds, source);
  remove_leftovers(files, export_dir);
  const std::string aside = join_path(export_dir, temporary_name(seconds));
  files.remove_tree(aside).value();
  files.make_directories(aside).value();
  Unfinished folder(files, aside);
  write_servable(files, aside, source);
  const std::string path = folder.finish(export_dir, seconds);
  log::info(fmt::format("exported step {} to {}", source.global_step, path));
  return path;
}

Status remove_version(FileSystem& files, const std::string& export_dir, int64_t version) {
  const std::string path = join_path(export_dir, std::to_string(version));
  if (is_remote(export_dir)) {
    // The file that makes it a version goes first: no reader takes the rest for a whole version.
    const Status first = files.remove(join_path(path, internal::kSignaturesFile));
    if (!first.ok() && first.error().kind() != ErrorKind::kNotFound) return first;
  }
  return files.remove_tree(path);
}

}  // namespace muster::inline v0_1
