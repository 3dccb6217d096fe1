// Requests of a program, without a signal, that its runs end.
// Thread safety: any thread may call these at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Asks the runs of this process that are under way to end: train(), train_and_evaluate(), fit(),
// and loops, where should_stop() becomes true. Each makes the step that it is in, saves if it saves
// checkpoints, and returns; so do its runs on all other workers, after the same step. A run that
// waits for other tasks, or for another program that uses its model_dir, stops waiting. Runs that
// begin later are not asked; RunConfig::cancelled asks one run. Any thread may call it, but no
// signal handler.
MUSTER_EXPORT void request_stop();

// What one run watches: requests since this was made.
class MUSTER_PART_EXPORT StopRequest {
 public:
  // `cancelled` is RunConfig::cancelled, and may be empty.
  explicit StopRequest(std::function<bool()> cancelled = {});
  // Forgets earlier calls of request_stop(), for a run that begins now.
  void begin();
  // Whether the program asks this run to stop.
  bool asked() const;
  // The same, or whether a signal asks this process to stop: both end waits.
  bool asked_or_signalled() const;

 private:
  const std::function<bool()> cancelled_;
  std::atomic<int64_t> requests_before_;
};

}  // namespace muster::inline v0_1
