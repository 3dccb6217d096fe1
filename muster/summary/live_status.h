// What a task tells people who look at its run: a small file in the folder "live" of model_dir,
// which it replaces every second; every 15 seconds in a bucket. `muster board` and `muster top`
// read them.
// Thread safety: values and free functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/plan/activity.h"

namespace muster::inline v0_1::summary {

// The version of Muster, as files of a run name it.
std::string_view own_version();

// The folder of these files in a model_dir.
inline constexpr const char* kLiveFolder = "live";

struct LiveStatus {
  // A line of the task's log.
  struct Line {
    double time = 0;  // Unix time
    std::string level{};
    std::string text{};
    bool operator==(const Line&) const = default;
  };
  std::string task{};        // "worker 1"; "process" of a run without a cluster
  int64_t process = 0;       // among those that train, from 0; -1: it does not train
  int64_t processes = 1;     // of the run that train
  bool at_own_pace = false;  // its steps wait for no other task
  std::string host{};        // its name
  int64_t pid = 0;
  std::vector<std::string> command{};  // that started it
  std::string version{};               // of Muster
  double started = 0, written = 0;     // Unix time of the run's start, and of this file
  double every = 1;                    // seconds between two files
  // Starts of the task before this one whose seconds are in ActivityNow::whole: those since a start
  // that ended well.
  int64_t earlier_starts = 0;
  int64_t last_step = -1;  // at which the run ends; below 0: when its data ends
  std::vector<plan::ActivityNow> replicas{};
  std::string collective{};       // that it waits for: "all_reduce #17 of 250 float32"
  double collective_seconds = 0;  // since its call
  int64_t saving = -1;            // step of the checkpoint that a thread writes; below 0: none
  int64_t memory = 0;             // bytes of it that are in the machine's memory
  int64_t device_memory = 0;      // bytes of tensors on its devices; 0: none, or unknown
  // Bytes of GPUs that LibTorch's allocator holds; of devices of a library, all that they have.
  int64_t device_reserved = 0;
  std::map<std::string, double> measures{};  // by name: "staleness/worker_1/mean"
  std::vector<Line> log{};                   // the last lines, the oldest first
  std::string end{};      // "" while it runs; then "ended", "stopped" or "failed"
  std::string error{};    // why it failed or was stopped
  int64_t exit_code = 0;  // that the error asks for

  // False for a parameter server and an evaluator.
  bool trains() const { return process >= 0; }
};

// As JSON, and back. Corrupt for other text, naming `path`.
MUSTER_PART_EXPORT std::string encode_live_status(const LiveStatus& status);
MUSTER_PART_EXPORT Result<LiveStatus> parse_live_status(std::string_view text,
                                                        const std::string& path);

// The file of a task: model_dir/live/worker-1.json.
std::string live_path(const std::string& model_dir, const std::string& task);
// Reads one. Corrupt for what is no such file, and errors of the file system.
Result<LiveStatus> read_live_status(FileSystem& files, const std::string& path);

// Replaces the file. Readers see a whole one, except after a crash of the machine: nothing waits
// for the disk. `may_make_dir`: model_dir is made if it is not there.
Status write_live_status(FileSystem& files, const std::string& model_dir, const LiveStatus& status,
                         bool may_make_dir = true);

// The files of all tasks of the last run in model_dir, by process, and then those of the tasks that
// do not train; without those of an earlier run, and without files that cannot be read.
MUSTER_PART_EXPORT std::vector<LiveStatus> read_live_statuses(FileSystem& files,
                                                              const std::string& model_dir);

}  // namespace muster::inline v0_1::summary
