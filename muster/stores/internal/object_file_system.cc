#include "muster/stores/internal/object_file_system.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/stores/internal/growing_object.h"
#include "muster/stores/internal/listing.h"
#include "muster/stores/internal/object_reader.h"
#include "muster/stores/internal/staged_object.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// The bytes that the request which opens a reader fetches: small files are read with it.
constexpr size_t kBeginning = size_t{256} << 10;
// Services remove this many objects in one request.
constexpr size_t kKeysAtOnce = 1000;
constexpr size_t kMostPagesToRemove = 100'000;

Error nothing_at(const ObjectName& name) {
  if (name.has_empty_part())
    return not_found("there is nothing at '" + name.uri() + "'", name.empty_part_hint());
  return not_found("there is nothing at '" + name.uri() + "'",
                   "look for the name with: muster ls " +
                       name.with_key(name.key.find('/') == std::string::npos
                                         ? ""
                                         : name.key.substr(0, name.key.rfind('/')))
                           .uri());
}

// A service would answer a mere look with an error.
Error too_long(const ObjectName& name) {
  return not_found("there is nothing at '" + printable_beginning(name.uri()) +
                   "': no object's name is longer than " + std::to_string(kMostKey) + " bytes");
}

bool is_not_found(const Error& error) { return error.kind() == ErrorKind::kNotFound; }

}  // namespace

ObjectFileSystem::ObjectFileSystem(std::unique_ptr<ObjectService> service,
                                   const StoreOptions& limits)
    : service_(*service), transfers_(std::make_shared<Transfers>(std::move(service), limits)) {}

Result<ObjectName> ObjectFileSystem::any_name(const std::string& path) const {
  return parse_object_name(service_.scheme(), path);
}

Result<ObjectName> ObjectFileSystem::file_name(const std::string& path) const {
  Result<ObjectName> name = any_name(path);
  if (name.ok() && name.value().key.empty()) {
    return invalid_argument("'" + path + "' is a bucket, not a file",
                            "write " + name.value().uri() + "/KEY");
  }
  return name;
}

Result<ObjectFileSystem::Below> ObjectFileSystem::below(const ObjectName& directory) {
  const std::string prefix = directory.directory_prefix();
  Result<ListPage> page = first_page(service_, directory, false, 2, *transfers_->limits.clock);
  if (!page.ok()) return page.error();
  if (page.value().keys.empty() && page.value().prefixes.empty())
    return prefix.empty() ? Below::kMarker : Below::kNothing;
  const bool marker_alone = page.value().prefixes.empty() && page.value().keys.size() == 1 &&
                            page.value().keys[0] == prefix;
  return marker_alone ? Below::kMarker : Below::kSomething;
}

Result<FileInfo> ObjectFileSystem::info(const std::string& path) {
  Result<ObjectName> name = any_name(path);
  if (!name.ok()) return name.error();
  if (name.value().key.size() > kMostKey) return too_long(name.value());
  if (!name.value().key.empty() && !path.ends_with('/')) {
    Result<ObjectInfo> found = service_.look(name.value());
    if (found.ok()) {
      return FileInfo{.size = found.value().size,
                      .modified_seconds = found.value().modified_seconds};
    }
    if (!is_not_found(found.error())) return found.error();
  }
  Result<Below> inside = below(name.value());
  if (!inside.ok()) return inside.error();
  if (inside.value() == Below::kNothing) return nothing_at(name.value());
  return FileInfo{.is_directory = true};
}

Result<std::unique_ptr<FileReader>> ObjectFileSystem::open_reader(const std::string& path) {
  Result<ObjectName> name = file_name(path);
  if (!name.ok()) return name.error();
  if (name.value().key.size() > kMostKey) return too_long(name.value());
  std::string beginning(std::min(kBeginning, transfers_->limits.block_bytes), '\0');
  Result<RangeRead> read =
      service_.read(name.value(), "", 0, std::as_writable_bytes(std::span(beginning)), nullptr);
  if (!read.ok()) {
    // A caller that takes a directory for a file should get that error.
    if (is_not_found(read.error())) {
      const Result<Below> inside = below(name.value());
      if (inside.ok() && inside.value() != Below::kNothing)
        return invalid_argument("'" + path + "' is a directory, not a file");
    }
    return read.error();
  }
  beginning.resize(read.value().bytes);
  beginning.shrink_to_fit();
  return std::unique_ptr<FileReader>(
      std::make_unique<ObjectReader>(transfers_, std::move(name).value(), path,
                                     std::move(read.value().info), std::move(beginning)));
}

Result<std::unique_ptr<FileWriter>> ObjectFileSystem::open_writer(const std::string& path) {
  Result<ObjectName> name = file_name(path);
  if (!name.ok()) return name.error();
  ObjectInfo base;
  std::string content;
  Result<ObjectInfo> found = service_.look(name.value());
  if (found.ok()) {
    base = found.value();
    if (base.size > 0 && base.size <= GrowingObject::kSmall) {
      content.resize(base.size);
      Status read = read_block(service_, name.value(), base, 0,
                               std::as_writable_bytes(std::span(content)), nullptr);
      if (!read.ok()) return read.error();
    }
  } else if (!is_not_found(found.error())) {
    return found.error();
  } else {
    // A new file exists at once, as on a disk; this also finds out whether we may write.
    Result<ObjectInfo> made = service_.put(name.value(), Bytes());
    if (!made.ok()) return made.error();
    base = std::move(made).value();
  }
  return std::unique_ptr<FileWriter>(std::make_unique<GrowingObject>(
      transfers_, service_, std::move(name).value(), std::move(base), std::move(content)));
}

Result<std::unique_ptr<StagedWriter>> ObjectFileSystem::open_staged(const std::string& path) {
  Result<ObjectName> name = file_name(path);
  if (!name.ok()) return name.error();
  return std::unique_ptr<StagedWriter>(
      std::make_unique<StagedObject>(transfers_, service_, std::move(name).value()));
}

Result<std::vector<std::string>> ObjectFileSystem::list_directory(const std::string& path) {
  Result<std::vector<DirectoryEntry>> entries = list_entries(path);
  if (!entries.ok()) return entries.error();
  std::vector<std::string> names;
  for (DirectoryEntry& entry : entries.value()) names.push_back(std::move(entry.name));
  return names;
}

Result<std::vector<DirectoryEntry>> ObjectFileSystem::list_entries(const std::string& path) {
  Result<ObjectName> name = any_name(path);
  if (!name.ok()) return name.error();
  const std::string prefix = name.value().directory_prefix();
  std::map<std::string, FileInfo> entries;
  bool found = prefix.empty();  // a bucket that answers exists
  std::string hidden;           // objects that no path names
  const auto take = [&](ListPage& page) {
    const size_t before = entries.size();
    found = found || !page.keys.empty() || !page.prefixes.empty();
    for (size_t i = 0; i < page.keys.size(); ++i) {
      const std::string& key = page.keys[i];
      // A key that ends with a slash marks the directory.
      if (key.size() > prefix.size()) entries[key.substr(prefix.size())] = page.infos[i];
    }
    for (const std::string& inside : page.prefixes) {
      const std::string below = inside.substr(prefix.size(), inside.size() - prefix.size() - 1);
      const auto there = entries.try_emplace(below, FileInfo{.is_directory = true}).first;
      // A key may be an object and the directory of others; info() gives the object.
      if (below.empty() || !there->second.is_directory) hidden = inside;
    }
    return entries.size() > before ? Seen::kSomethingNew : Seen::kNothingNew;
  };
  const Status listed =
      list_pages(service_, name.value(), false, 0, *transfers_->limits.clock, take);
  if (!listed.ok()) return listed.error();
  entries.erase("");
  if (!found) return nothing_at(name.value());
  if (!hidden.empty()) {
    log::warning_once("objects whose names begin with '" + name.value().with_key("").uri() + "/" +
                      hidden +
                      "' are left out: folders have no empty names, and no file is a folder too; "
                      "each can be named by itself");
  }
  std::vector<DirectoryEntry> names;
  for (auto& [below, info] : entries) names.push_back({below, info});
  return names;
}

Status ObjectFileSystem::make_directories(const std::string& path) {
  Result<ObjectName> name = any_name(path);
  if (!name.ok()) return name.error();
  {
    std::lock_guard lock(mutex_);
    if (known_buckets_.contains(name.value().bucket)) return {};
  }
  Result<ListPage> page =
      service_.list(name.value(), name.value().directory_prefix(), false, "", 1);
  if (!page.ok()) return page.error();
  std::lock_guard lock(mutex_);
  known_buckets_.insert(name.value().bucket);
  return {};
}

Status ObjectFileSystem::remove(const std::string& path) {
  Result<ObjectName> name = file_name(path);
  if (!name.ok()) return name.error();
  Result<ObjectInfo> found = service_.look(name.value());
  if (found.ok()) return service_.remove(name.value());
  if (!is_not_found(found.error())) return found.error();
  Result<Below> inside = below(name.value());
  if (!inside.ok()) return inside.error();
  switch (inside.value()) {
    case Below::kNothing:
      return nothing_at(name.value());
    case Below::kMarker:
      return service_.remove(name.value().with_key(name.value().directory_prefix()));
    case Below::kSomething:
      break;
  }
  return invalid_argument("'" + path + "' is a directory that is not empty",
                          "remove what it holds first");
}

Status ObjectFileSystem::rename(const std::string& from, const std::string& to) {
  Result<ObjectName> source = file_name(from);
  if (!source.ok()) return source.error();
  Result<ObjectName> target = file_name(to);
  if (!target.ok()) return target.error();
  Result<ObjectInfo> found = service_.look(source.value());
  if (!found.ok())
    return is_not_found(found.error()) ? Status(nothing_at(source.value())) : found.error();
  if (source.value().uri() == target.value().uri()) return {};
  if (Status copied = service_.copy(source.value(), found.value(), target.value()); !copied.ok())
    return copied;
  return service_.remove(source.value());
}

Status ObjectFileSystem::remove_tree(const std::string& path) {
  Result<ObjectName> name = any_name(path);
  if (!name.ok()) return name.error();
  if (name.value().key.empty()) {
    return invalid_argument("'" + path + "' is a whole bucket, which is not emptied at a word",
                            "name a directory in it, or empty it with the tools of its service");
  }
  Result<ObjectInfo> found = service_.look(name.value());
  if (found.ok()) {
    if (Status removed = service_.remove(name.value()); !removed.ok()) return removed;
  } else if (!is_not_found(found.error())) {
    return found.error();
  }
  std::string first;  // of the last page
  for (size_t pages = 0; pages < kMostPagesToRemove; ++pages) {
    // From the beginning each time: listed objects are gone by then.
    Result<ListPage> page =
        first_page(service_, name.value(), true, kKeysAtOnce, *transfers_->limits.clock);
    if (!page.ok()) return page.error();
    if (page.value().keys.empty()) return {};
    if (page.value().keys[0] == first) {
      return Error(ErrorKind::kUnavailable,
                   "'" + name.value().with_key(first).uri() + "' is still there behind its removal",
                   "somebody writes it anew, or the bucket holds on to what it has");
    }
    if (Status removed = service_.remove_all(name.value(), page.value().keys); !removed.ok())
      return removed;
    if (page.value().next.empty()) return {};
    first = page.value().keys[0];
  }
  return corrupt("'" + name.value().uri() + "' still holds something behind the removal of " +
                     std::to_string(kMostPagesToRemove * kKeysAtOnce) + " objects",
                 "somebody writes there, or the service is at fault: look with its own tools");
}

}  // namespace muster::inline v0_1::stores::internal
