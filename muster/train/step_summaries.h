// The summaries of a training run: for its first step and then at a fixed interval. Thread safety:
// belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/formats/summary_value.h"
#include "muster/train/step_timer.h"
#include "muster/train/summaries.h"
#include "muster/train/summary_calls.h"

namespace muster::inline v0_1 {

class StepSummaries {
 public:
  // `summaries` outlives it; `every_steps` is the same on all replicas, and 0 means never; `first`:
  // this is the first replica of all.
  StepSummaries(Summaries& summaries, int64_t every_steps, bool first)
      : summaries_(summaries), timer_(every_steps), first_(first) {}

  // Before the model function is called on batch `batch` (0, 1, ...) of step `step` (1, 2, ...).
  void begin_batch(int64_t step, int64_t batch, int64_t rows) {
    if (step != asked_) due_ = timer_.due(step);
    asked_ = step;
    // A step that was dropped may have left some.
    if (batch == 0) summaries_.clear();
    summaries_.begin({.due = due_, .first = first_, .batch = batch, .rows = rows});
  }

  // The summaries of the step over all replicas, which call it together after its last batch;
  // nullptr if none were due. They live until the next call.
  const std::vector<formats::SummaryValue>* merge(distribute::Exchange& exchange) {
    if (!due_) return nullptr;
    values_ = summaries_.take(exchange);
    return &values_;
  }

 private:
  internal::SummaryCalls summaries_;
  StepTimer timer_;
  const bool first_;
  int64_t asked_ = -1;
  bool due_ = false;
  std::vector<formats::SummaryValue> values_;
};

}  // namespace muster::inline v0_1
