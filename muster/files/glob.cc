#include "muster/files/glob.h"

#include <fnmatch.h>

#include <map>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/missing_file.h"
#include "muster/base/outside_name.h"
#include "muster/base/printable.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1 {
namespace {

// The folders that were listed for one answer.
class Walk {
 public:
  Walk(std::string what, const WalkLimits& limits)
      : what_(std::move(what)), limits_(limits), said_(limits.clock->now()) {}

  // One more, `depth` folders below where it began. Throws Corrupt when that is too many.
  void enter(size_t depth) {
    if (depth > limits_.depth || ++folders_ > limits_.folders) {
      throw corrupt(
          "'" + what_ + "' has no end: there are more than " +
              (depth > limits_.depth ? std::to_string(limits_.depth) + " folders in each other"
                                     : std::to_string(limits_.folders) + " folders"),
          "name a folder or a pattern with less in it; if there is not so much, who lists it is at "
          "fault");
    }
    if (to_seconds(limits_.clock->now() - said_) < kSecondsBetweenLines) return;
    said_ = limits_.clock->now();
    log::info("listing '" + what_ + "': " + std::to_string(folders_) + " folders so far");
  }

 private:
  static constexpr double kSecondsBetweenLines = 10;
  const std::string what_;
  const WalkLimits limits_;
  size_t folders_ = 0;
  TimePoint said_;
};

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

// The part of a pattern with brackets that stand for themselves; "" where it says itself which do.
std::string with_plain_brackets(const std::string& part) {
  if (part.find('[') == std::string::npos || part.find('\\') != std::string::npos ||
      part.find("[[]") != std::string::npos || part.find("[*]") != std::string::npos ||
      part.find("[?]") != std::string::npos) {
    return "";
  }
  std::string plain;
  for (const char letter : part) plain += letter == '[' ? "\\[" : std::string(1, letter);
  return plain;
}

// Those entries of a folder that a part of a pattern means.
std::vector<DirectoryEntry> meant(std::vector<DirectoryEntry> entries, const std::string& part,
                                  Literal literal, const std::string& directory) {
  const std::string plain = with_plain_brackets(part);
  const auto fits = [](const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
  };
  std::vector<DirectoryEntry> by_letter, by_pattern;
  for (DirectoryEntry& entry : entries) {
    const std::string& name = entry.name;
    // Objects may have the names by which a disk leads out of a folder.
    if (!fault_of_name(name).empty() || is_staging_name(name)) continue;
    if ((literal == Literal::kAny && name == part) || (!plain.empty() && fits(plain, name))) {
      by_letter.push_back(std::move(entry));
    } else if (fits(part, name)) {
      by_pattern.push_back(std::move(entry));
    }
  }
  if (by_letter.empty()) return by_pattern;
  if (!by_pattern.empty()) {
    log::warning_once("'" + directory + part + "' is taken for a name that is there, '" +
                      by_letter.front().name + "', and not for the pattern that '" +
                      by_pattern.front().name + "' matches too");
  }
  return by_letter;
}

// A pattern on its way through the folders.
struct Match {
  FileSystem& files;
  const std::string& pattern;
  Literal literal;
  std::map<std::string, FileInfo>& found;
  Walk& walk;

  // What matches below `directory`, which ends with a slash or is empty, the rest of the pattern,
  // from `begin` on.
  void below(const std::string& directory, size_t begin) const {
    const size_t slash = pattern.find('/', begin);
    const bool last = slash == std::string::npos;
    const std::string part = pattern.substr(begin, last ? slash : slash - begin);
    if (!has_wildcard(part)) {
      return last ? add_if_there(files, directory + part, found)
                  : below(directory + part + "/", slash + 1);
    }
    walk.enter(0);
    Result<std::vector<DirectoryEntry>> entries =
        files.list_entries(directory.empty() ? "." : directory);
    if (!entries.ok()) {
      if (entries.error().kind() == ErrorKind::kNotFound) return;
      throw entries.error().with_context("no files of " + pattern + " can be listed");
    }
    for (const auto& [name, info] : meant(std::move(entries).value(), part, literal, directory)) {
      if (last) found.emplace(directory + name, info);
      if (!last && info.is_directory) below(directory + name + "/", slash + 1);
    }
  }
};

void add_below(FileSystem& files, const std::string& folder, size_t depth, Walk& walk,
               std::vector<FoundPath>& found) {
  walk.enter(depth);
  Result<std::vector<DirectoryEntry>> entries = files.list_entries(folder);
  if (!entries.ok()) throw entries.error();
  for (const auto& [name, info] : entries.value()) {
    if (const std::string fault = fault_of_name(name); !fault.empty()) {
      throw invalid_argument("'" + folder + "' holds objects whose names continue with '" +
                                 printable_beginning(name) + "', which " + fault,
                             "give such an object another name; in a folder of a disk it would lie "
                             "outside of it");
    }
    if (is_staging_name(name)) continue;
    const std::string path = join_path(folder, name);
    if (info.is_directory) {
      add_below(files, path, depth + 1, walk, found);
    } else {
      found.push_back({path, info});
    }
  }
}

}  // namespace

bool has_wildcard(std::string_view pattern) {
  std::string_view names = pattern.substr(root_size(pattern));
  // What stands after the question mark of a web address is not a file's name.
  if (const std::string_view scheme = scheme_of(pattern); scheme == "http" || scheme == "https")
    names = names.substr(0, names.find('?'));
  return names.find_first_of("*?[") != std::string_view::npos;
}

std::vector<FoundPath> find_paths(FileSystem& files, const std::string& pattern, Literal literal,
                                  const WalkLimits& limits) {
  std::map<std::string, FileInfo> found;
  size_t root = root_size(pattern);
  if (root < pattern.size() && pattern[root] == '/') ++root;
  if (has_wildcard(pattern)) {
    if (is_remote(pattern) && pattern.find("//", root_size(pattern)) != std::string::npos) {
      throw invalid_argument(
          "the pattern '" + pattern + "' has an empty part, '//'",
          "leave out one of the slashes; objects whose names have two are read by their names");
    }
    Walk walk(pattern, limits);
    Match{files, pattern, literal, found, walk}.below(pattern.substr(0, root), root);
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

std::vector<FoundPath> files_below(FileSystem& files, const std::string& folder,
                                   const WalkLimits& limits) {
  std::vector<FoundPath> found;
  Walk walk(folder, limits);
  add_below(files, folder, 0, walk, found);
  return found;
}

}  // namespace muster::inline v0_1
