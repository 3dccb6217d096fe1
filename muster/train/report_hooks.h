// The chief's reports while it trains: lines on the terminal, and events for TensorBoard. Thread
// safety: as Hook.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/formats/hparams.h"
#include "muster/summary/event_writer.h"
#include "muster/train/hook.h"
#include "muster/train/step_timer.h"

namespace muster::inline v0_1 {

// How often to speak.
struct ProgressOptions {
  int64_t every_steps = 100;     // a permanent line: for the first step, and then every
                                 // `every_steps`
  bool live = false;             // also a status line (log::status)
  double refresh_seconds = 0.2;  // of the status line
};

// "step 200/1406 (14%)  loss 0.3121  24310 examples/s  190.0 steps/s  0:06 left" as event
// "progress". Rates are of the training time since the last line was due.
class ProgressHook : public Hook {
 public:
  ProgressHook(const ProgressOptions& options, Clock& clock);
  void begin(const RunInfo& info) override;
  void after_step(const StepInfo& info) override;
  void after_save(int64_t global_step, const std::string& prefix) override;
  void after_pause(Seconds time) override;
  void end(int64_t global_step) override;

 private:
  ProgressOptions options_;
  Clock& clock_;
  RunInfo run_;
  bool unicode_;
  StepTimer lines_;
  TimePoint last_due_;
  TimePoint last_refresh_;
  int64_t last_step_ = 0;
  int64_t steps_ = 0;  // since the last line was due
  int64_t rows_ = 0;
  double examples_per_second_ = 0;
  double steps_per_second_ = 0;
  std::optional<double> last_loss_;        // of a step this task made
  std::map<std::string, double> metrics_;  // the last there were
};

// The report of a worker that is not the chief: when training is over; and before, if a status line
// is shown (`live`), "step 200  1.24 ms a step, 12% in reduction". A worker that the others wait
// for spends little time there.
class WorkerStatusHook : public Hook {
 public:
  WorkerStatusHook(Clock& clock, bool live, double refresh_seconds = 0.2);
  void begin(const RunInfo& info) override;
  void after_step(const StepInfo& info) override;
  void end(int64_t global_step) override;

 private:
  Clock& clock_;
  const bool live_;
  double refresh_seconds_;
  TimePoint last_refresh_;
  int64_t steps_ = 0;  // since then
  double reduction_ = 0;
};

// "loss" of each step with summaries (StepSummaries decides which have some: the first one, and
// then every `summary_steps`; with 0 none is written), with the values that the model function gave
// to ModelContext::summary() (if these contain a "loss", it is that one), the model's own metrics
// if a step has some, the counts of RunConfig::non_finite ("non_finite/skipped_steps" and
// "non_finite/roll_backs", when one grew), "global_step/sec" and "examples/sec" every `rate_steps`
// from the first step on; 0 writes none. The graph of the model and `hparams`, if there are any,
// come first.
class SummaryHook : public Hook {
 public:
  SummaryHook(std::shared_ptr<summary::EventWriter> writer, int64_t summary_steps,
              int64_t rate_steps, Clock& clock,
              std::map<std::string, formats::HParam> hparams = {});
  void begin(const RunInfo& info) override;
  void after_step(const StepInfo& info) override;
  void after_save(int64_t global_step, const std::string& prefix) override;
  void after_pause(Seconds time) override;
  void end(int64_t global_step) override;

 private:
  void write_non_finite(const StepInfo& info);

  std::shared_ptr<summary::EventWriter> writer_;
  const bool writes_;  // summaries
  const std::map<std::string, formats::HParam> hparams_;
  StepTimer rates_;
  Clock& clock_;
  std::optional<int64_t> last_rate_;
  int64_t rows_ = 0;
  TimePoint last_rate_at_;
  int64_t skipped_steps_ = 0;
  int64_t roll_backs_ = 0;
};

}  // namespace muster::inline v0_1
