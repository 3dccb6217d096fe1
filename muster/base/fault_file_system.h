// A FileSystem for tests that fails on purpose: a crash at the n-th change, or a full disk from it
// on. Thread safety: as FileSystem. It must outlive the readers and writers it handed out.
//
// Counted changes: open_writer, open_staged, append, sync, make_directories, remove, rename; a
// commit counts twice, so that a crash falls before it takes effect and after. A test loops:
//   for (int64_t at = 0;; ++at) { FaultFileSystem files(real, {.crash_at = at}); save(files);
//   check(real);
//                                 if (!files.crashed()) break; }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

struct FaultPlan {
  int64_t crash_at = -1;       // index of the change that does not happen any more; -1: never
  int64_t no_space_from = -1;  // from this change on, operations that need space fail with ENOSPC;
                               // -1: never
  // A crash drops the bytes that were appended to open_writer() files since their last sync. When
  // this is set, they are kept, and half of the append at which it crashed. Staged files stay
  // after while this object lives.
  bool keep_unsynced = false;
};

class FaultFileSystem : public FileSystem {
 public:
  explicit FaultFileSystem(FileSystem& base, FaultPlan plan = {});
  ~FaultFileSystem() override;

  // The number of changes attempted so far.
  int64_t operations() const;
  bool crashed() const;
  // Crashes now; every later call fails.
  void crash();
  // Sets a new plan; the count of changes starts again at 0.
  void set_plan(FaultPlan plan);

  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override;
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override;
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override;
  Result<std::vector<std::string>> list_directory(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Status remove(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;

 private:
  class Reader;
  class Writer;
  class Staged;
  enum class Verdict { kGo, kCrashed, kNoSpace };

  // Counts one change and decides whether it happens.
  Verdict admit(bool needs_space);
  Status refuse(Verdict verdict, const std::string& what) const;
  void crash_locked();
  bool keeps_unsynced() const;
  Status alive(const std::string& what) const;

  FileSystem& base_;
  mutable std::mutex mutex_;
  FaultPlan plan_;
  int64_t operations_ = 0;
  bool crashed_ = false;
  std::map<std::string, uint64_t> synced_;  // size known to be on the disk, per written file
  std::vector<std::unique_ptr<StagedWriter>>
      leftovers_;  // kept open so that nothing cleans up after a crash
};

}  // namespace muster::inline v0_1
