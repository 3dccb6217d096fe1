#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/path_list.h"
#include "muster/stores/file_systems.h"

namespace muster::inline v0_1 {
namespace {

bool has_wildcard(std::string_view part) {
  return part.find_first_of("*?[") != std::string_view::npos;
}

// The paths below `directory` that match the rest of the pattern, from `begin` on.
void match(FileSystem& files, const std::string& directory, const std::string& pattern,
           size_t begin, std::set<std::string>& found) {
  const size_t slash = pattern.find('/', begin);
  const bool last = slash == std::string::npos;
  const std::string part = pattern.substr(begin, last ? slash : slash - begin);
  const auto go_on = [&](const std::string& name) {
    const std::string path = directory.empty() ? name : directory + name;
    if (!last) return match(files, path + "/", pattern, slash + 1, found);
    const Result<FileInfo> info = files.info(path);
    if (info.ok() && !info.value().is_directory) found.insert(path);
  };
  if (!has_wildcard(part)) return go_on(part);
  const Result<std::vector<DirectoryEntry>> entries =
      files.list_entries(directory.empty() ? "." : directory);
  if (!entries.ok()) {
    if (entries.error().kind() == ErrorKind::kNotFound) return;
    throw entries.error().with_context(fmt::format("no files of {} can be listed", pattern));
  }
  for (const auto& [name, info] : entries.value()) {
    // As a shell does, "*" leaves out names that begin with a dot.
    if (is_staging_name(name) || fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
    if (!last && info.is_directory) go_on(name);
    if (last && !info.is_directory) found.insert(directory + name);
  }
}

}  // namespace

Dataset Dataset::list_files(const std::vector<std::string>& patterns,
                            const ListFilesOptions& options) {
  if (patterns.empty()) throw invalid_argument("list_files() needs a pattern, got none");
  std::set<std::string> found;
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) throw invalid_argument("list_files(): a pattern is empty");
    std::set<std::string> matched;
    // What a URI begins with is no pattern.
    const size_t scheme = pattern.find("://");
    const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
    match(stores::file_systems(), pattern.substr(0, begin), pattern, begin, matched);
    if (matched.empty()) {
      throw not_found(fmt::format("no file matches {}", pattern),
                      has_wildcard(pattern) ? "\"*\" does not match \"/\"; check the directory"
                                            : "check the path");
    }
    found.merge(matched);
  }
  const auto n = static_cast<int64_t>(found.size());
  Dataset files = from_source(std::make_shared<const data::internal::PathList>(
      std::vector<std::string>(found.begin(), found.end())));
  return options.shuffle ? files.shuffle(n, {.seed = options.seed}) : files;
}

}  // namespace muster::inline v0_1
