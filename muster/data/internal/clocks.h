// The time of an input pipeline, stage by stage. Thread safety: any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "muster/data/iterator.h"

namespace muster::inline v0_1::data::internal {

struct StageClock {
  std::string pipeline{};  // up to the stage; equal data sets share a clock
  std::string name{};
  std::atomic<int64_t> nanoseconds{0};
  std::atomic<int64_t> elements{0};
};

class Clocks {
 public:
  // The clock of a stage, whose address is stable.
  StageClock& of(const std::string& pipeline, const std::string& name) {
    const std::lock_guard lock(mutex_);
    for (StageClock& stage : stages_) {
      if (stage.pipeline == pipeline) return stage;
    }
    StageClock& stage = stages_.emplace_back();
    stage.pipeline = pipeline;
    stage.name = name;
    return stage;
  }
  // From the source on, in the order the stages were opened.
  std::vector<StageTime> times() const {
    const std::lock_guard lock(mutex_);
    std::vector<StageTime> times;
    for (const StageClock& stage : stages_) {
      times.push_back({stage.name, Duration(stage.nanoseconds), stage.elements});
    }
    return times;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<StageClock> stages_;
};

// While one lives, time counts for its stage, except the time of stages called meanwhile on the
// same thread.
class Timed {
 public:
  explicit Timed(StageClock& stage)
      : stage_(stage), outer_inner_(inner_), start_(std::chrono::steady_clock::now()) {
    inner_ = 0;
  }
  ~Timed() {
    const int64_t all = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::steady_clock::now() - start_)
                            .count();
    stage_.nanoseconds.fetch_add(all - inner_, std::memory_order_relaxed);
    inner_ = outer_inner_ + all;
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  void count(int64_t elements) { stage_.elements.fetch_add(elements, std::memory_order_relaxed); }

 private:
  static inline thread_local int64_t inner_ = 0;  // the time of its inner stages
  StageClock& stage_;
  const int64_t outer_inner_;
  const std::chrono::steady_clock::time_point start_;
};

}  // namespace muster::inline v0_1::data::internal
