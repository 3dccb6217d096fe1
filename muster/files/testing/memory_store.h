// An object store in memory, for tests: objects that are written whole, no rename, no append, and
// folders only as common prefixes of names, as in buckets. It fails when a test wants it to, and
// counts its requests. Thread safety: as FileSystem.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// Which requests fail, by their number since the plan was set, from 0 on. A failed request changes
// nothing in the store, unless the plan says so.
struct StorePlan {
  int64_t fail_at = -1;    // this one; -1: none
  int64_t fail_from = -1;  // this one and all later ones; -1: none
  // Whether only requests that write or remove are counted and fail.
  bool writes_only = true;
  // Which paths it is about; unset: all.
  std::function<bool(const std::string& path)> only = {};
  ErrorKind kind = ErrorKind::kUnavailable;  // of the error
  bool loses_answers = false;                // whether failed writes are done anyway
};

class MemoryStore final : public FileSystem {
 public:
  // `clock` gives the times of objects, and outlives the store.
  explicit MemoryStore(Clock& clock = system_clock());
  ~MemoryStore() override;

  // Sets a new plan; the count of requests starts again at 0.
  void set_plan(StorePlan plan);
  // Called at the begin of each request that the plan counts, with its number and path, outside of
  // any lock: a test kills, waits or changes the plan there. Unset: nothing.
  void on_request(std::function<void(int64_t number, const std::string& path)> call);
  // Requests since the plan was set that it counts.
  int64_t requests() const;
  // The names of all objects, sorted.
  std::vector<std::string> objects() const;
  // Forgets all objects, the plan and on_request().
  void clear();

  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override;
  // Refused, as an object cannot grow.
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override;
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override;
  // NotFound if no object's name begins with the folder's.
  Result<std::vector<std::string>> list_directory(const std::string& path) override;
  // One request, because a store's own listing contains sizes and times.
  Result<std::vector<DirectoryEntry>> list_entries(const std::string& path) override;
  // Does nothing: a folder exists if it has content.
  Status make_directories(const std::string& path) override;
  Status remove(const std::string& path) override;
  // Refused.
  Status rename(const std::string& from, const std::string& to) override;

 private:
  class Staged;
  struct Object {
    std::shared_ptr<const std::string> content{};
    double modified_seconds = 0;
  };

  // Counts a request, and returns why it fails.
  Status admit(const std::string& path, bool writes);
  Status put(const std::string& path, std::string content);

  Clock& clock_;
  mutable std::mutex mutex_;
  StorePlan plan_;
  int64_t requests_ = 0;
  std::function<void(int64_t, const std::string&)> on_request_;
  std::map<std::string, Object> objects_;  // by path
};

// The store of paths "mem://bucket/...", registered with file_systems() when this is first called.
// Tests of one program share it: each takes a bucket of its own.
MemoryStore& memory_store();

}  // namespace muster::inline v0_1
