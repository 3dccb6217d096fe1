#include "muster/files/file_systems.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/outside_name.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1 {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_scheme(const std::string& text) {
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

// Whether a program that links muster::stores has the scheme.
bool is_scheme_of_stores(const std::string& scheme) {
  return scheme == "s3" || scheme == "gs" || scheme == "http" || scheme == "https";
}

class FileSystems final : public FileSystem {
 public:
  void add(const std::string& scheme, FileSystemFactory make) {
    if (!is_scheme(scheme) || scheme == "file") {
      throw invalid_argument(
          "register_file_system: '" + scheme + "' cannot be a scheme of a program's own",
          scheme == "file" ? "file:// is the files of this machine"
                           : "take letters, digits, '+', '-' and '.', and a letter first");
    }
    if (!make) throw invalid_argument("register_file_system: '" + scheme + "' has no function");
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[scheme];
    if (entry.made != nullptr) {
      throw invalid_argument("register_file_system: '" + scheme + "' is in use already",
                             "register a scheme once, before the first path of it is asked for");
    }
    entry.make = std::move(make);
  }

  std::vector<std::string> path_schemes() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names = {"file"};
    for (const auto& [name, entry] : entries_) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }

  Result<FileInfo> info(const std::string& path) override {
    return with<FileInfo>(path, [&](FileSystem& files) { return files.info(path); });
  }
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
    return with<std::unique_ptr<FileReader>>(
        path, [&](FileSystem& files) { return files.open_reader(path); });
  }
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    return with<std::unique_ptr<FileWriter>>(
        path, [&](FileSystem& files) { return files.open_writer(path); });
  }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    return with<std::unique_ptr<StagedWriter>>(
        path, [&](FileSystem& files) { return files.open_staged(path); });
  }
  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    auto names = with<std::vector<std::string>>(
        path, [&](FileSystem& files) { return files.list_directory(path); });
    if (!names.ok() || !is_remote(path)) return names;
    for (const std::string& name : names.value()) {
      if (std::optional<Error> wrong = wrong_name(path, name)) return *wrong;
    }
    return names;
  }
  Result<std::vector<DirectoryEntry>> list_entries(const std::string& path) override {
    auto entries = with<std::vector<DirectoryEntry>>(
        path, [&](FileSystem& files) { return files.list_entries(path); });
    if (!entries.ok() || !is_remote(path)) return entries;
    for (const DirectoryEntry& entry : entries.value()) {
      if (std::optional<Error> wrong = wrong_name(path, entry.name)) return *wrong;
    }
    return entries;
  }
  Status make_directories(const std::string& path) override {
    return done(path, [&](FileSystem& files) { return files.make_directories(path); });
  }
  Status remove(const std::string& path) override {
    return done(path, [&](FileSystem& files) { return files.remove(path); });
  }
  Status remove_tree(const std::string& path) override {
    return done(path, [&](FileSystem& files) { return files.remove_tree(path); });
  }
  Status rename(const std::string& from, const std::string& to) override {
    const auto scheme = [](const std::string& path) {
      const std::string_view its = scheme_of(path);
      return its.empty() ? std::string_view("file") : its;
    };
    if (scheme(from) != scheme(to)) {
      return invalid_argument(
          "cannot rename '" + from + "' to '" + to + "': they lie in two stores",
          "copy the file and remove the first: muster cp FROM TO");
    }
    return done(from, [&](FileSystem& files) { return files.rename(from, to); });
  }

 private:
  struct Entry {
    FileSystemFactory make;
    std::mutex making;  // one thread makes it, without holding up paths of other schemes
    std::unique_ptr<FileSystem> made;
  };

  template <typename T, typename Fn>
  Result<T> with(const std::string& path, const Fn& call) {
    Result<FileSystem*> files = of(path);
    if (!files.ok()) return files.error();
    return call(*files.value());
  }
  template <typename Fn>
  Status done(const std::string& path, const Fn& call) {
    Result<FileSystem*> files = of(path);
    if (!files.ok()) return files.error();
    return call(*files.value());
  }

  Result<FileSystem*> of(const std::string& path) {
    const std::string scheme(scheme_of(path));
    if (scheme.empty()) {
      if (std::optional<Error> slip = lacks_slash(path)) return *slip;
      return &local_file_system();
    }
    if (scheme == "file") return &local_file_system();
    Entry* entry = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(scheme);
      if (found != entries_.end()) entry = &found->second;
      if (entry != nullptr && entry->made != nullptr) return entry->made.get();
    }
    if (entry == nullptr) return unknown(scheme, path);
    const std::lock_guard one(entry->making);
    FileSystemFactory make;
    {
      const std::lock_guard lock(mutex_);
      if (entry->made != nullptr) return entry->made.get();
      make = entry->make;
    }
    std::unique_ptr<FileSystem> made;
    try {
      made = make();
    } catch (const Error& error) {
      return error.with_detail("'" + path + "' cannot be reached");
    }
    if (made == nullptr)
      return internal_error("the scheme '" + scheme +
                            "' was registered with a function that gives "
                            "no file system");
    const std::lock_guard lock(mutex_);
    entry->made = std::move(made);
    return entry->made.get();
  }

  // An entry in a folder of a store has a name of one part. That part may be "..", which a store
  // takes for a name like any other: code that copies it to a disk refuses it.
  static std::optional<Error> wrong_name(const std::string& path, const std::string& name) {
    const std::string fault = name == "." || name == ".." ? "" : fault_of_name(name);
    if (fault.empty()) return std::nullopt;
    return corrupt(
        "the list of '" + path + "' names '" + printable_beginning(name) + "', which " + fault,
        "the file system of this scheme is at fault: a name in its lists has no slash");
  }

  // "s3:/bucket/key" is hardly a folder "s3:" of this machine.
  std::optional<Error> lacks_slash(const std::string& path) {
    const size_t mark = path.find(":/");
    if (mark == std::string::npos) return std::nullopt;
    const std::string scheme = path.substr(0, mark);
    if (scheme != "file" && !is_scheme_of_stores(scheme)) {
      const std::lock_guard lock(mutex_);
      if (!entries_.contains(scheme)) return std::nullopt;
    }
    const std::string rest = path.substr(mark + 2);
    return invalid_argument("'" + path + "' has one slash behind '" + scheme + ":', not two",
                            "write " + scheme + (scheme == "file" ? ":///" : "://") + rest +
                                ", or ./" + path + " for a file of this machine");
  }

  Error unknown(const std::string& scheme, const std::string& path) {
    if (is_scheme_of_stores(scheme)) {
      return invalid_argument(
          "'" + path + "' lies in a store, and this program is not linked with Muster's stores",
          "link the part: find_package(muster COMPONENTS stores) and target_link_libraries(... "
          "muster::stores)");
    }
    const std::vector<std::string> known = path_schemes();
    const std::optional<std::string> near = nearest(scheme, known);
    return invalid_argument("there is no file system for the scheme '" + scheme + "' of '" + path +
                                "'; there are " + join_quoted(known),
                            near ? "did you mean " + *near + "://?"
                                 : "use one of these, or a plain path for a file of this machine");
  }

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // none is ever removed
};

FileSystems& instance() {
  static FileSystems* const all = new FileSystems();
  return *all;
}

}  // namespace

FileSystem& file_systems() { return instance(); }

void register_file_system(const std::string& scheme, FileSystemFactory make) {
  instance().add(scheme, std::move(make));
}

std::vector<std::string> path_schemes() { return instance().path_schemes(); }

}  // namespace muster::inline v0_1
