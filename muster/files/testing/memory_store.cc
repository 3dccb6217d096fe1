#include "muster/files/testing/memory_store.h"

#include <algorithm>
#include <utility>

#include "muster/base/uri.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1 {
namespace {

std::string key_of(const std::string& path) { return std::string(without_trailing_slashes(path)); }

Error nothing_at(const std::string& path) {
  return not_found("cannot open '" + path + "': there is no such object");
}

// Sees the object as it was when it was opened, whatever is written in its place.
class Reader final : public FileReader {
 public:
  Reader(std::shared_ptr<const std::string> content, std::string name)
      : content_(std::move(content)), name_(std::move(name)) {}
  Result<uint64_t> size() override { return static_cast<uint64_t>(content_->size()); }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    if (offset >= content_->size()) return size_t{0};
    const size_t count = std::min<size_t>(out.size(), content_->size() - offset);
    const Bytes all = bytes_of(*content_);
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(offset), count, out.begin());
    return count;
  }
  const std::string& name() const override { return name_; }

 private:
  const std::shared_ptr<const std::string> content_;
  const std::string name_;
};

}  // namespace

class MemoryStore::Staged final : public StagedWriter {
 public:
  Staged(MemoryStore& store, std::string path) : store_(store), path_(std::move(path)) {}

  Status append(Bytes bytes) override {
    if (finished_) return finished();
    content_.append(text_of(bytes));
    return {};
  }
  Status sync() override { return finished_ ? finished() : Status(); }
  Status commit() override {
    if (std::exchange(finished_, true)) return finished();
    return store_.put(path_, std::move(content_));
  }
  Status discard() override {
    finished_ = true;
    return {};
  }

 private:
  Status finished() const {
    return internal_error("'" + path_ + "' was written to after it was committed or discarded");
  }

  MemoryStore& store_;
  const std::string path_;
  std::string content_;
  bool finished_ = false;
};

MemoryStore::MemoryStore(Clock& clock) : clock_(clock) {}
MemoryStore::~MemoryStore() = default;

void MemoryStore::set_plan(StorePlan plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  requests_ = 0;
}

void MemoryStore::on_request(std::function<void(int64_t, const std::string&)> call) {
  const std::lock_guard lock(mutex_);
  on_request_ = std::move(call);
}

int64_t MemoryStore::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::vector<std::string> MemoryStore::objects() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, object] : objects_) names.push_back(name);
  return names;
}

void MemoryStore::clear() {
  const std::lock_guard lock(mutex_);
  objects_.clear();
  plan_ = {};
  requests_ = 0;
  on_request_ = nullptr;
}

Status MemoryStore::admit(const std::string& path, bool writes) {
  std::function<void(int64_t, const std::string&)> call;
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if ((plan_.writes_only && !writes) || (plan_.only && !plan_.only(path))) return {};
    number = requests_++;
    call = on_request_;
  }
  if (call) call(number, path);
  const std::lock_guard lock(mutex_);
  const bool fails = number == plan_.fail_at || (plan_.fail_from >= 0 && number >= plan_.fail_from);
  if (!fails) return {};
  return Error(plan_.kind, "the store answers a request for '" + path + "' with 503 Slow Down",
               "try again later");
}

Status MemoryStore::put(const std::string& path, std::string content) {
  Status admitted = admit(path, /*writes=*/true);
  const std::lock_guard lock(mutex_);
  if (!admitted.ok() && !plan_.loses_answers) return admitted;
  objects_[key_of(path)] = {std::make_shared<const std::string>(std::move(content)),
                            clock_.wall_seconds()};
  return admitted;
}

Result<FileInfo> MemoryStore::info(const std::string& path) {
  if (Status admitted = admit(path, /*writes=*/false); !admitted.ok()) return admitted.error();
  const std::string key = key_of(path);
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  if (found != objects_.end()) {
    return FileInfo{.size = found->second.content->size(),
                    .modified_seconds = found->second.modified_seconds};
  }
  const auto inside = objects_.lower_bound(key + "/");
  if (inside != objects_.end() && inside->first.starts_with(key + "/"))
    return FileInfo{.is_directory = true};
  return nothing_at(path);
}

Result<std::unique_ptr<FileReader>> MemoryStore::open_reader(const std::string& path) {
  if (Status admitted = admit(path, /*writes=*/false); !admitted.ok()) return admitted.error();
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(key_of(path));
  if (found == objects_.end()) return nothing_at(path);
  return std::unique_ptr<FileReader>(std::make_unique<Reader>(found->second.content, path));
}

Result<std::unique_ptr<FileWriter>> MemoryStore::open_writer(const std::string& path) {
  return invalid_argument("'" + path + "' cannot grow: an object is written whole",
                          "write it with open_staged() or write_atomically()");
}

Result<std::unique_ptr<StagedWriter>> MemoryStore::open_staged(const std::string& path) {
  return std::unique_ptr<StagedWriter>(std::make_unique<Staged>(*this, path));
}

Result<std::vector<std::string>> MemoryStore::list_directory(const std::string& path) {
  Result<std::vector<DirectoryEntry>> entries = list_entries(path);
  if (!entries.ok()) return entries.error();
  std::vector<std::string> names;
  for (DirectoryEntry& entry : entries.value()) names.push_back(std::move(entry.name));
  return names;
}

Result<std::vector<DirectoryEntry>> MemoryStore::list_entries(const std::string& path) {
  if (Status admitted = admit(path, /*writes=*/false); !admitted.ok()) return admitted.error();
  const std::string prefix = key_of(path) + "/";
  const std::lock_guard lock(mutex_);
  std::map<std::string, FileInfo> found;
  for (auto each = objects_.lower_bound(prefix);
       each != objects_.end() && each->first.starts_with(prefix); ++each) {
    const std::string rest = each->first.substr(prefix.size());
    const size_t slash = rest.find('/');
    // A name that is an object and a folder is reported as an object, as info() does.
    if (slash == std::string::npos) {
      found[rest] = {.size = each->second.content->size(),
                     .modified_seconds = each->second.modified_seconds};
    } else {
      found.try_emplace(rest.substr(0, slash), FileInfo{.is_directory = true});
    }
  }
  if (found.empty()) return nothing_at(path);
  std::vector<DirectoryEntry> entries;
  for (auto& [name, info] : found) entries.push_back({name, info});
  return entries;
}

Status MemoryStore::make_directories(const std::string&) { return {}; }

Status MemoryStore::remove(const std::string& path) {
  Status admitted = admit(path, /*writes=*/true);
  const std::string key = key_of(path);
  const std::lock_guard lock(mutex_);
  if (!admitted.ok() && !plan_.loses_answers) return admitted;
  if (objects_.erase(key) > 0) return admitted;
  // The folder disappeared with its last object, which the removal of the tree has removed.
  return nothing_at(path);
}

Status MemoryStore::rename(const std::string& from, const std::string& to) {
  return invalid_argument("cannot rename '" + from + "' to '" + to + "' in a store",
                          "write the object under its name");
}

MemoryStore& memory_store() {
  static MemoryStore* const store = [] {
    // The registry takes it at the first path, and keeps it for good.
    auto owned = std::make_shared<std::unique_ptr<MemoryStore>>(std::make_unique<MemoryStore>());
    MemoryStore* const made = owned->get();
    register_file_system("mem", [owned] { return std::move(*owned); });
    return made;
  }();
  return *store;
}

}  // namespace muster::inline v0_1
