// Tells people who look at a run what this task does: a thread writes summary/live_status.h every
// second, and into a bucket every 15 seconds. The run does not notice it: what cannot be written is
// left out, and where the disk or the store does not answer, the thread is left alone at the end.
// Thread safety: tell() and end() belong to the thread of the process's first replica.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/distribute/replica_place.h"

namespace muster::inline v0_1::internal {

// By which activities() tells the replicas of a run's process from others.
std::string live_run_name(const std::string& model_dir, const distribute::ReplicaPlace& place);

struct LiveTaskOptions {
  std::string model_dir{};   // empty: nothing is written
  FileSystem* fs = nullptr;  // nullptr: that of the path
  Seconds every{1};          // 0: nothing is written
  // The least time between two files in a store, where each one is a request that costs money.
  Seconds every_in_store{15};
  int64_t last_step = -1;  // at which the run ends; below 0: unknown
  Seconds patience{2};     // of end()
  std::string run{};       // of the records that it shows; empty: live_run_name()
};

// Seconds that a variable of the environment says; the default where it is not set or empty. Throws
// InvalidArgument for another text than a number from 0 to a million.
double seconds_of(const char* variable, double default_seconds);
// Seconds between two files: MUSTER_LIVE_SECONDS; 1 by default.
inline Seconds live_seconds() { return Seconds(seconds_of("MUSTER_LIVE_SECONDS", 1)); }

class LiveTask {
 public:
  // The first file is written after `every`: a run that is over by then writes none.
  LiveTask(LiveTaskOptions options, const distribute::ReplicaPlace& place);
  // end() without an error, unless it was called.
  ~LiveTask();
  LiveTask(const LiveTask&) = delete;
  LiveTask& operator=(const LiveTask&) = delete;

  // Whether the thread has written since the last tell(), and would like to hear more.
  bool wants_news() const;
  struct News {
    int64_t last_step = -1;
    std::map<std::string, double> measures{};
  };
  void tell(News news);
  // Writes the last file, and ends the thread. Waits for it at most `patience`. `error` is nullptr
  // when the run ended well.
  void end(const Error* error) noexcept;
  // The same, where the run goes on with another group of replicas.
  void leave() noexcept;

 private:
  void finish(const char* word, const Error* error) noexcept;

  struct Shared;
  const std::shared_ptr<Shared> shared_;  // nullptr: nothing is written
};

}  // namespace muster::inline v0_1::internal
