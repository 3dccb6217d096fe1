#include "muster/stores/glob.h"

#include <fnmatch.h>

#include <map>
#include <utility>

#include "muster/base/missing_file.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1::stores {
namespace {

void add_if_there(FileSystem& files, const std::string& path,
                  std::map<std::string, FileInfo>& found) {
  const Result<FileInfo> info = files.info(path);
  if (info.ok()) {
    found.emplace(path, info.value());
  } else if (is_remote(path) && info.error().kind() != ErrorKind::kNotFound) {
    // A store that forbids or cannot be reached says why.
    throw info.error();
  }
}

// What matches below `directory`, which ends with a slash or is empty, the rest of the pattern,
// from `begin` on.
void match(FileSystem& files, const std::string& directory, const std::string& pattern,
           size_t begin, std::map<std::string, FileInfo>& found) {
  const size_t slash = pattern.find('/', begin);
  const bool last = slash == std::string::npos;
  const std::string part = pattern.substr(begin, last ? slash : slash - begin);
  const auto go_on = [&](const std::string& name) {
    match(files, directory + name + "/", pattern, slash + 1, found);
  };
  if (!has_wildcard(part)) {
    return last ? add_if_there(files, directory + part, found) : go_on(part);
  }
  const Result<std::vector<DirectoryEntry>> entries =
      files.list_entries(directory.empty() ? "." : directory);
  if (!entries.ok()) {
    if (entries.error().kind() == ErrorKind::kNotFound) return;
    throw entries.error().with_context("no files of " + pattern + " can be listed");
  }
  for (const auto& [name, info] : entries.value()) {
    // Objects may have the names by which a disk leads out of a folder.
    if (name == "." || name == ".." || is_staging_name(name)) continue;
    if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
    if (last) found.emplace(directory + name, info);
    if (!last && info.is_directory) go_on(name);
  }
}

void add_below(FileSystem& files, const std::string& folder, std::vector<FoundPath>& found) {
  Result<std::vector<DirectoryEntry>> entries = files.list_entries(folder);
  if (!entries.ok()) throw entries.error();
  for (const auto& [name, info] : entries.value()) {
    const std::string path = join_path(folder, name);
    if (name == "." || name == "..") {
      throw invalid_argument(
          "'" + folder + "' holds objects whose names go on with '" + name + "/'",
          "give such an object another name; in a folder of a disk it would lie "
          "outside of it");
    }
    if (is_staging_name(name)) continue;
    if (info.is_directory) {
      add_below(files, path, found);
    } else {
      found.push_back({path, info});
    }
  }
}

}  // namespace

bool has_wildcard(std::string_view pattern) {
  std::string_view names = pattern.substr(root_size(pattern));
  // What stands behind the question mark of a web address is no file's name.
  if (const std::string_view scheme = scheme_of(pattern); scheme == "http" || scheme == "https")
    names = names.substr(0, names.find('?'));
  return names.find_first_of("*?[") != std::string_view::npos;
}

std::vector<FoundPath> find_paths(FileSystem& files, const std::string& pattern) {
  std::map<std::string, FileInfo> found;
  size_t root = root_size(pattern);
  if (root < pattern.size() && pattern[root] == '/') ++root;
  if (has_wildcard(pattern)) {
    match(files, pattern.substr(0, root), pattern, root, found);
  } else {
    add_if_there(files, pattern, found);
  }
  std::vector<FoundPath> paths;
  for (auto& [path, info] : found) paths.push_back({path, info});
  return paths;
}

Error nothing_matches(FileSystem& files, const std::string& pattern) {
  const size_t root = root_size(pattern);
  const size_t wild =
      has_wildcard(pattern) ? pattern.find_first_of("*?[", root) : std::string::npos;
  const std::string beside = what_stands_beside(files, pattern.substr(0, pattern.find('/', wild)));
  return not_found("nothing matches " + pattern,
                   wild == std::string::npos ? beside : "\"*\" does not match \"/\"; " + beside);
}

std::vector<FoundPath> files_below(FileSystem& files, const std::string& folder) {
  std::vector<FoundPath> found;
  add_below(files, folder, found);
  return found;
}

}  // namespace muster::inline v0_1::stores
