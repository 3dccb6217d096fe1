#include "apps/muster/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <exception>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/local_path.h"
#include "muster/base/missing_file.h"
#include "muster/base/outside_name.h"
#include "muster/base/regular_file.h"
#include "muster/base/same_file.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/base/uri.h"
#include "muster/files/glob.h"

namespace muster::app {
namespace {

constexpr size_t kBuffer = size_t{8} << 20;  // bytes
constexpr size_t kLeastBuffer = size_t{64} << 10;
constexpr size_t kFilesAtATime = 4;

std::string modified_text(double seconds) {
  if (seconds <= 0) return "-";
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  localtime_r(&whole, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts));
}

Error nothing_at(FileSystem& files, const std::string& path) {
  if (has_wildcard(path)) return nothing_matches(files, path);
  // It names what is there instead.
  const auto reader = open_named_file(files, path);
  return reader.ok() ? not_found(fmt::format("there is nothing at {}", path)) : reader.error();
}

// Other commands take such a name for what comes in or goes out, where Muster has files alone.
Status check_is_no_stream(std::string_view path) {
  if (path != "-" && path != "/dev/stdin" && path != "/dev/stdout" && path != "/dev/stderr" &&
      !path.starts_with("/dev/fd/"))
    return {};
  return invalid_argument(
      fmt::format("not supported: '{}' for standard input or output", path),
      "to print a file, use muster cat FROM; to copy standard input, first save it: cat > FILE" +
          std::string(path == "-" ? "; a file of this name is ./-" : ""));
}

// What a path or a pattern means; at least one.
std::vector<FoundPath> matches(FileSystem& files, const std::string& path) {
  check_is_no_stream(path).value();
  const std::string_view name = without_trailing_slashes(path);
  std::vector<FoundPath> found;
  if (has_wildcard(name)) {
    found = find_paths(files, std::string(name), Literal::kAny);
  }
  // As in a shell, a pattern that matches nothing may be a name.
  if (found.empty()) {
    const Result<FileInfo> info = files.info(std::string(name));
    // Of a bucket that is not there, the store itself says most.
    if (!info.ok() && (info.error().kind() != ErrorKind::kNotFound ||
                       (is_remote(name) && root_size(name) == name.size()))) {
      throw info.error();
    }
    if (info.ok()) found.push_back({std::string(name), info.value()});
  }
  if (found.empty()) throw nothing_at(files, std::string(name));
  return found;
}

// What ls shows of one path, each with the name it is shown by.
std::vector<FoundPath> listed(FileSystem& files, const std::string& path, bool recursive) {
  std::vector<FoundPath> all;
  for (FoundPath& each : matches(files, path)) {
    if (!each.info.is_directory) {
      all.push_back(std::move(each));
    } else if (recursive) {
      for (FoundPath& below : files_below(files, each.path)) all.push_back(std::move(below));
    } else if (each.path != without_trailing_slashes(path)) {
      each.path += "/";
      all.push_back(std::move(each));
    } else {
      Result<std::vector<DirectoryEntry>> entries = files.list_entries(each.path);
      if (!entries.ok()) throw entries.error();
      for (const auto& [name, info] : entries.value())
        all.push_back({join_path(each.path, name) + (info.is_directory ? "/" : ""), info});
    }
  }
  return all;
}

// The name that a copy in a folder has. Empty for what has none: a whole bucket, "." and "..".
std::string name_of_copy(std::string_view path) {
  // What stands after the question mark of a web address may be a secret, and is not a name.
  if (const std::string_view scheme = scheme_of(path); scheme == "http" || scheme == "https")
    path = path.substr(0, path.find('?'));
  std::string name(base_name(path));
  return name == "." || name == ".." ? "" : name;
}

// Whether `path` is the folder or below it, by whatever names and links.
bool is_in_folder(const std::string& path, const std::string& folder) {
  if (path == folder || path.starts_with(join_path(folder, ""))) return true;
  const Result<std::string> first = local_path(path), second = local_path(folder);
  if (!first.ok() || !second.ok()) return false;
  std::error_code failed;
  // Links are followed as far as there is something.
  const auto real = [&](const std::string& name) {
    std::string text = std::filesystem::weakly_canonical(name, failed).string();
    while (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
  };
  const std::string inner = real(first.value()), outer = real(second.value());
  return !failed && (inner == outer || inner.starts_with(join_path(outer, "")));
}

struct Copy {
  FoundPath from;
  std::string to;
};

// Every file that is to be copied, and where to.
std::vector<Copy> plan_copies(FileSystem& files, const std::vector<std::string>& from,
                              const std::string& to, bool recursive) {
  check_is_no_stream(to).value();
  std::vector<FoundPath> sources;
  for (const std::string& each : from) {
    for (FoundPath& found : matches(files, each)) {
      if (found.info.is_directory && !recursive) {
        throw invalid_argument(fmt::format("{} is a folder", found.path),
                               "to copy a folder with its content, use muster cp -r");
      }
      sources.push_back(std::move(found));
    }
  }
  const std::string target(without_trailing_slashes(to));
  const Result<FileInfo> there = files.info(target);
  // One whose credentials may only write says Forbidden, and gets what it names.
  if (!there.ok() && (there.error().kind() == ErrorKind::kUnavailable ||
                      there.error().kind() == ErrorKind::kTimeout))
    throw there.error();
  const bool is_folder = there.ok() && there.value().is_directory;
  const bool into =
      is_folder || to.ends_with('/') || sources.size() > 1 || root_size(to) == to.size();
  const bool of_folder = std::ranges::any_of(
      sources, [](const FoundPath& source) { return source.info.is_directory; });
  if (there.ok() && !is_folder && (into || of_folder))
    throw invalid_argument(fmt::format("{} is a file", target), "name a folder as the target");
  std::vector<Copy> copies;
  std::set<std::string> targets;
  const auto add = [&](const FoundPath& source, const std::string& path) {
    if (is_same_file(source.path, path))
      throw invalid_argument(fmt::format("{} would be copied to itself", path),
                             "name another target");
    if (!is_remote(path)) check_is_no_special_file(local_path(path).value(), path).value();
    if (!targets.insert(path).second) {
      throw invalid_argument(fmt::format("two files would be copied to {}", path),
                             "copy them one after another, or under other names");
    }
    copies.push_back({source, path});
  };
  for (const FoundPath& source : sources) {
    const std::string name = name_of_copy(source.path);
    const std::string at = into && !name.empty() ? join_path(target, name) : target;
    if (!source.info.is_directory) {
      add(source, at);
      continue;
    }
    // It would never end, or leave a part of itself in itself.
    if (is_in_folder(at, source.path))
      throw invalid_argument(
          fmt::format("the folder {} would be copied into itself, to {}", source.path, at),
          "name a target outside of it");
    const size_t below = join_path(source.path, "").size();
    for (const FoundPath& file : files_below(files, source.path))
      add(file, path_inside(at, file.path.substr(below), "'" + source.path + "'").value());
  }
  return copies;
}

// Copies one file; `moved` is told the bytes as they are read.
void copy_file(FileSystem& files, const Copy& copy, const std::atomic<bool>& stop,
               const std::function<void(size_t)>& moved) {
  Result<std::unique_ptr<FileReader>> reader = files.open_reader(copy.from.path);
  if (!reader.ok()) throw reader.error();
  // In a store this does at most look whether the bucket is there.
  if (Status made = files.make_directories(directory_of(copy.to)); !made.ok()) throw made.error();
  Result<std::unique_ptr<StagedWriter>> writer = files.open_staged(copy.to);
  if (!writer.ok()) throw writer.error();
  std::string buffer(
      static_cast<size_t>(std::clamp<uint64_t>(copy.from.info.size, kLeastBuffer, kBuffer)), '\0');
  for (uint64_t offset = 0; !stop;) {
    const Result<size_t> got =
        reader.value()->read_at(offset, std::as_writable_bytes(std::span(buffer)));
    if (!got.ok()) throw got.error();
    if (got.value() == 0) {
      if (Status committed = writer.value()->commit(); !committed.ok()) throw committed.error();
      return;
    }
    const Bytes bytes = bytes_of(buffer).first(got.value());
    if (Status appended = writer.value()->append(bytes); !appended.ok()) throw appended.error();
    offset += got.value();
    moved(got.value());
  }
}

}  // namespace

std::string list_paths(FileSystem& files, const std::vector<std::string>& paths, bool recursive,
                       bool json) {
  std::vector<FoundPath> all;
  for (const std::string& path : paths) {
    for (FoundPath& each : listed(files, path, recursive)) all.push_back(std::move(each));
  }
  if (json) {
    nlohmann::json document = nlohmann::json::array();
    for (const FoundPath& each : all) {
      nlohmann::json entry{{"path", each.path}, {"is_directory", each.info.is_directory}};
      if (!each.info.is_directory) {
        entry["size"] = each.info.size;
        entry["modified_seconds"] = each.info.modified_seconds;
      }
      document.push_back(std::move(entry));
    }
    return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  TextTable table({">size", "modified", "name"});
  uint64_t bytes = 0;
  size_t count = 0;
  for (const FoundPath& each : all) {
    table.add({each.info.is_directory ? "-" : human_bytes(each.info.size),
               modified_text(each.info.modified_seconds), each.path});
    if (each.info.is_directory) continue;
    bytes += each.info.size;
    ++count;
  }
  if (all.empty()) return "the folder is empty\n";
  return table.text("") +
         fmt::format("{} file{}, {}\n", count, count == 1 ? "" : "s", human_bytes(bytes));
}

CopyProgress copy_paths(FileSystem& files, const std::vector<std::string>& from,
                        const std::string& to, bool recursive,
                        const std::function<void(const CopyProgress&)>& progress) {
  const std::vector<Copy> copies = plan_copies(files, from, to, recursive);
  CopyProgress at{.of_files = copies.size()};
  for (const Copy& copy : copies) at.of_bytes += copy.from.info.size;
  std::mutex mutex;
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i; !stop && (i = next++) < copies.size();) {
      try {
        copy_file(files, copies[i], stop, [&](size_t bytes) {
          const std::lock_guard lock(mutex);
          at.bytes += bytes;
          if (progress) progress(at);
        });
        const std::lock_guard lock(mutex);
        if (!stop) ++at.files;
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) {
          failure = std::make_exception_ptr(error.with_context(
              fmt::format("cannot copy {} to {}", copies[i].from.path, copies[i].to)));
        }
        stop = true;
      }
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(kFilesAtATime, copies.size()); ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (failure == nullptr) return at;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw error.with_detail(
        fmt::format("{} of {} files were copied before", at.files, at.of_files));
  }
}

void read_paths(FileSystem& files, const std::vector<std::string>& paths, uint64_t offset,
                std::optional<uint64_t> count, const std::function<void(Bytes)>& take) {
  std::vector<FoundPath> all;
  for (const std::string& path : paths) {
    for (FoundPath& each : matches(files, path)) all.push_back(std::move(each));
  }
  std::string buffer(kBuffer, '\0');
  for (const FoundPath& each : all) {
    const auto reader = open_named_file(files, each.path).value();
    uint64_t left = count.value_or(UINT64_MAX);
    for (uint64_t at = offset; left > 0;) {
      const auto want = static_cast<size_t>(std::min<uint64_t>(left, buffer.size()));
      const size_t got =
          reader->read_at(at, std::as_writable_bytes(std::span(buffer.data(), want))).value();
      if (got == 0) break;
      take(bytes_of(buffer).first(got));
      at += got;
      left -= got;
    }
  }
}

}  // namespace muster::app
