// The time of a step: seconds by part, added up over a run; and spans of it, while a profile is
// made. Thread safety: one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "muster/distribute/span_recorder.h"
#include "muster/distribute/step.h"

namespace muster::inline v0_1 {

class StepTrace {
 public:
  // The parts of a step.
  enum Part {
    kInput,
    kForward,
    kBackward,
    kReduction,
    kUpdate,
    kHooks,
    kSaving,
    kEvaluating,
    kParts
  };

  // The clock runs from here for the next lap().
  void start() { last_ = std::chrono::steady_clock::now(); }
  // When start() or lap() was called last.
  std::chrono::steady_clock::time_point last() const { return last_; }
  // Adds the time since start() or the last lap() to `part`.
  void lap(Part part);
  // The same for a train_step(), whose parts the replica measured; the rest counts as update.
  void lap(const distribute::StepTimes& times);
  // Notes each lap() of a part in `recorder` too, which outlives its use; nullptr: nowhere, as from
  // the start. The replica itself notes the parts of a train_step().
  void record_into(distribute::SpanRecorder* recorder) { recorder_ = recorder; }
  // Once a step: report() divides by it.
  void count_step() { ++steps_; }

  // The sums, of one part and of all.
  double seconds(Part part) const { return seconds_[part]; }
  double total() const;

  // A table: milliseconds a step and the share, by part. "reduction" is the part that backward did
  // not hide.
  std::string report() const;

 private:
  double since_last();

  std::chrono::steady_clock::time_point last_;
  std::array<double, kParts> seconds_{};
  int64_t steps_ = 0;
  distribute::SpanRecorder* recorder_ = nullptr;
};

}  // namespace muster::inline v0_1
