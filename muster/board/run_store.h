// Finds the runs in some folders and follows them: every folder with event files is a run, at most
// eight folders below a given one. Threads of its own list the folders and read what is new; the
// runs that are small are there first, because the files are read in turns. Thread safety: any
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/board/run_data.h"

namespace muster::inline v0_1::board {

// How runs are found and followed.
struct RunStoreOptions {
  Duration poll_time = std::chrono::seconds(2);  // between two looks at the folders
  int threads = 2;                               // that read
  size_t most_runs = 2000;
};

// A run of a store. Its number is its place in the list of runs.
struct StoredRun {
  StoredRun(FileSystem& files, std::string name_given, const std::string& directory)
      : name(std::move(name_given)), data(files, directory) {}
  const std::string name;  // the path below the given folder, with that folder's name in front
                           // where several are given; "." for the folder itself
  mutable std::mutex mutex{};
  RunData data;  // under the mutex
};

class RunStore {
 public:
  // Lists and reads nothing yet. `files` must outlive the store.
  RunStore(std::vector<std::string> directories, FileSystem& files, RunStoreOptions options = {});
  ~RunStore();

  // Begins to follow the folders, until the store is destroyed.
  void start();
  // Lists the folders once, and reads all there is, in the calling thread.
  void read_all();

  // The runs, in the order in which they were found. A run stays when its folder goes.
  std::vector<std::shared_ptr<StoredRun>> runs() const;
  // Grows when anything changes.
  uint64_t version() const;
  // The errors of listing folders, a sentence each.
  std::vector<std::string> troubles() const;
  // The folders that hold a search, in the order in which they were found.
  std::vector<std::string> searches() const;
  // The folders in which tasks tell what they do, summary/live_status.h, in the order in which they
  // were found.
  std::vector<std::string> live_runs() const;
  // The profiles, profiles.h, in the order in which they were found; at most 500.
  std::vector<std::string> profiles() const;
  // The number of a tag for requests; the same for all runs.
  int tag_number(const std::string& tag);
  // The tag of a number. Throws NotFound for an unknown one.
  std::string tag_name(int number) const;
  const std::vector<std::string>& directories() const { return directories_; }

 private:
  void list();
  void list_folder(const std::string& path, const std::string& name, int depth,
                   std::vector<std::string>& troubles);
  // Notes a search, a profile, or a run that `muster run` started, if the folder `path` has its
  // file `name`.
  void note_file(const std::string& path, const std::string& name);
  // Notes the run that the folder `path`, which has these entries, tells of.
  void note_live_run(const std::string& path, const std::vector<DirectoryEntry>& entries);
  // Reads a slice of the next run that has more. Returns false if none has.
  bool read_next();
  void work();
  void follow();

  const std::vector<std::string> directories_;
  FileSystem& files_;
  const RunStoreOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<StoredRun>> runs_;
  std::map<std::string, size_t> run_of_;          // by directory
  std::deque<std::shared_ptr<StoredRun>> queue_;  // runs with more to read
  size_t refused_runs_ = 0;
  std::vector<std::string> troubles_;
  std::vector<std::string> searches_;
  std::vector<std::string> live_runs_;
  std::vector<std::string> profiles_;
  std::vector<std::string> tag_names_;
  std::map<std::string, int> tag_numbers_;
  uint64_t version_ = 1;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster::inline v0_1::board
