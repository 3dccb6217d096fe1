// Ends the current work of a task that was asked to stop and cannot: a collective that waits for a
// peer which makes no progress, a model function that does not return. Thread safety: any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "muster/base/error.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::distribute {

class StopWatch {
 public:
  // `asked()` says whether the task was asked to stop. When it then makes no progress for
  // `grace_seconds`, `give_up` is called once, with Cancelled.
  StopWatch(std::function<bool()> asked, double grace_seconds,
            std::function<void(const Error&)> give_up);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

  // The task has reached another step or phase. While it saves it is not ended.
  void note_progress(plan::Phase phase);

 private:
  void watch();

  const std::function<bool()> asked_;
  const std::chrono::duration<double> grace_;
  const std::function<void(const Error&)> give_up_;
  std::mutex mutex_;
  std::condition_variable closed_;
  bool closing_ = false;
  bool saving_ = false;
  std::chrono::steady_clock::time_point last_progress_;
  std::thread thread_;
};

}  // namespace muster::inline v0_1::distribute
