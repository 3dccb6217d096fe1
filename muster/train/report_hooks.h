// What the chief tells while it trains: lines on the terminal, and events for TensorBoard.
// Thread safety: as Hook.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/base/clock.h"
#include "muster/summary/event_writer.h"
#include "muster/train/hook.h"

namespace muster {

struct ProgressOptions {
  int64_t every_steps = 100;  // a line that stays
  bool terminal = false;      // between two of them, one line that is rewritten
  double refresh_seconds = 0.2;
};

// "step 200/1406 (14%)  loss 0.3121  24310 examples/s  190.0 steps/s  0:06 left". Rates are of the
// time since the last line.
class ProgressHook : public Hook {
 public:
  ProgressHook(const ProgressOptions& options, Clock& clock);
  void begin(const RunInfo& info) override;
  void after_step(const StepInfo& info) override;
  void after_save(int64_t global_step, const std::string& prefix) override;
  void end(int64_t global_step) override;

 private:
  std::string line(const StepInfo& info, double seconds) const;
  void clear_line();

  ProgressOptions options_;
  Clock& clock_;
  RunInfo run_;
  TimePoint last_line_;
  TimePoint last_refresh_;
  int64_t steps_ = 0;  // since the last line
  int64_t rows_ = 0;
  double last_loss_ = 0;
  int64_t first_step_ = 0;
  bool line_open_ = false;
};

// "loss" every `summary_steps`, "global_step/sec" and "examples/sec" every `rate_steps`; 0 writes
// none.
class SummaryHook : public Hook {
 public:
  SummaryHook(std::shared_ptr<summary::EventWriter> writer, int64_t summary_steps,
              int64_t rate_steps, Clock& clock);
  void begin(const RunInfo& info) override;
  void after_step(const StepInfo& info) override;
  void after_save(int64_t global_step, const std::string& prefix) override;
  void end(int64_t global_step) override;

 private:
  std::shared_ptr<summary::EventWriter> writer_;
  int64_t summary_steps_;
  int64_t rate_steps_;
  Clock& clock_;
  bool first_ = true;
  int64_t last_summary_ = 0;
  int64_t last_rate_ = 0;
  int64_t rows_ = 0;
  TimePoint last_rate_at_;
};

}  // namespace muster
