// The disk of a simulated machine, for tests: files in memory, a page cache that a loss of power
// forgets, operations that take simulated time, and faults. Thread safety: the threads of
// SimulatedThreads, which run one at a time.
//
// The rules are those of local_file_system() on a disk with a journal. Appended bytes are on the
// disk after a sync. The changes of names are on the disk after the next commit() or rename(),
// which sync the directory. After a loss of power a file that was not synced keeps any part of its
// new bytes, and of the changes of names that were not synced, the first ones remain.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/simulated_threads.h"

namespace muster::inline v0_1 {

class SimulatedDisk {
 public:
  // `simulated` outlives the disk. `note`, if any, hears each change of the files and each failure.
  explicit SimulatedDisk(SimulatedThreads& simulated,
                         std::function<void(const std::string& line)> note = {})
      : simulated_(simulated), note_(std::move(note)) {}

  class Mount;
  // The files as one process sees them. The mount outlives its readers and writers.
  std::unique_ptr<Mount> mount(SimulatedThreads::Process& process);

  // Until that time, operations that need space fail.
  void fill_until(TimePoint time) { full_until_ = time; }
  // Until that time, any operation may fail, and an append may write a part of its bytes.
  void fail_until(TimePoint time) { failing_until_ = time; }
  // Until that time, operations take so many times as long as usual: 0.2 to 2 ms.
  void slow_until(TimePoint time, double factor) {
    slow_until_ = time;
    factor_ = factor;
  }
  // The machine loses its power: the disk forgets what was not synced. Kill all mounts first.
  void cut_power();

  // The names in a folder, and the content of a file; for tests, without time and faults.
  std::vector<std::string> names(const std::string& directory) const;
  std::optional<std::string> content(const std::string& path) const;

 private:
  class Reader;
  class Writer;
  class Staged;
  struct File {
    std::string content{};
    size_t synced = 0;  // bytes that a loss of power leaves
    double modified_seconds = 0;
  };
  using FilePtr = std::shared_ptr<File>;

  void set_name(const std::string& path, FilePtr file);  // nullptr: removes it
  void sync_names();

  SimulatedThreads& simulated_;
  const std::function<void(const std::string&)> note_;
  std::map<std::string, FilePtr> names_;                  // as processes see them
  std::map<std::string, FilePtr> synced_names_;           // as a loss of power leaves them
  std::vector<std::pair<std::string, FilePtr>> changes_;  // of names_, since they were synced
  std::set<std::string> directories_;
  int64_t staged_ = 0;  // files so far
  TimePoint full_until_{}, failing_until_{}, slow_until_{};
  double factor_ = 1;
};

class SimulatedDisk::Mount : public FileSystem {
 public:
  Mount(SimulatedDisk& disk, SimulatedThreads::Process& process) : disk_(disk), process_(process) {}

  // The process is dead from now on: every operation fails.
  void kill() { killed_ = true; }
  // It dies at the n-th change from now on, which does not happen any more; 1 is the next one. A
  // commit counts as three changes: it syncs, renames, and syncs the directory.
  void kill_at(int64_t change) { kill_at_ = change; }
  bool killed() const { return killed_; }
  // The process does not reach the disk before that time: its operations wait, as those of a
  // network file system do.
  void cut_until(TimePoint time) { cut_until_ = time; }

  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override;
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override;
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override;
  Result<std::vector<std::string>> list_directory(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Status remove(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;

 private:
  friend class SimulatedDisk::Reader;
  friend class SimulatedDisk::Writer;
  friend class SimulatedDisk::Staged;
  enum class Kind { kRead, kChange, kGrow };  // kGrow needs space

  // Lets the operation's time pass. Returns why it fails.
  Status begin(Kind kind, const std::string& what);
  Status dead(const std::string& what) const;
  Status append(File& file, Bytes bytes, const std::string& path);
  void touch(File& file);
  // Tells the listener of the disk.
  void tell(const std::string& what) const;

  SimulatedDisk& disk_;
  SimulatedThreads::Process& process_;
  bool killed_ = false;
  int64_t kill_at_ = 0;  // 0: not planned
  TimePoint cut_until_{};
};

}  // namespace muster::inline v0_1
