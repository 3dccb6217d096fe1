#include "muster/train/report_hooks.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/log.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1 {

ProgressHook::ProgressHook(const ProgressOptions& options, Clock& clock)
    : options_(options),
      clock_(clock),
      unicode_(terminal_reads_unicode()),
      lines_(options.every_steps) {}

void ProgressHook::begin(const RunInfo& info) {
  run_ = info;
  lines_ = StepTimer(options_.every_steps);
  last_due_ = last_refresh_ = clock_.now();
  last_step_ = info.start_step;
  steps_ = rows_ = 0;
}

void ProgressHook::after_step(const StepInfo& info) {
  // Workers at their own pace make steps in between.
  steps_ += info.global_step - std::exchange(last_step_, info.global_step);
  rows_ += info.rows;
  last_loss_ = info.loss;
  if (info.metrics) metrics_ = *info.metrics;
  const bool first = info.global_step == run_.start_step + 1;
  const bool due = lines_.due(info.global_step);
  if (!due && !options_.live) return;
  const TimePoint now = clock_.now();
  ProgressFacts facts{.step = info.global_step,
                      .last_step = run_.last_step,
                      .loss = info.loss,
                      .metrics = metrics_};
  // A rate of a few milliseconds says nothing: a moment after a line, that line's is shown.
  const double seconds = to_seconds(now - last_due_);
  if (!first && seconds > 0 &&
      (due || examples_per_second_ == 0 || seconds >= options_.refresh_seconds)) {
    examples_per_second_ = static_cast<double>(rows_) / seconds;
    steps_per_second_ = static_cast<double>(steps_) / seconds;
  }
  facts.examples_per_second = examples_per_second_;
  facts.steps_per_second = steps_per_second_;
  if (due) {
    nlohmann::json fields{{"global_step", facts.step}, {"loss", facts.loss}};
    if (facts.last_step > 0) fields["last_step"] = facts.last_step;
    if (!facts.metrics.empty()) fields["metrics"] = facts.metrics;
    if (facts.steps_per_second > 0) {
      fields["examples_per_second"] = facts.examples_per_second;
      fields["steps_per_second"] = facts.steps_per_second;
    }
    if (facts.seconds_left() >= 0) fields["seconds_left"] = facts.seconds_left();
    log::event("progress", fields, progress_line(facts));
    last_due_ = last_refresh_ = now;
    steps_ = rows_ = 0;
  } else if (options_.live && to_seconds(now - last_refresh_) >= options_.refresh_seconds) {
    log::status(progress_bar(facts, log::status_width(), unicode_));
    last_refresh_ = now;
  }
}

void ProgressHook::after_save(int64_t global_step, const std::string& prefix) {
  log::event("saved", {{"global_step", global_step}, {"checkpoint", prefix}}, "saved " + prefix);
}

void ProgressHook::after_pause(Seconds time) { last_due_ += from_seconds(time); }

void ProgressHook::end(int64_t global_step) {
  log::status("");
  const bool trained = global_step > run_.start_step && last_loss_;
  nlohmann::json fields{{"global_step", global_step}};
  if (trained) fields["loss"] = *last_loss_;
  log::event("training_is_over", fields,
             fmt::format("training is over at step {}{}", global_step,
                         trained ? ": loss of the last step " + value_text(*last_loss_) : ""));
}

WorkerStatusHook::WorkerStatusHook(Clock& clock, bool live, double refresh_seconds)
    : clock_(clock), live_(live), refresh_seconds_(refresh_seconds) {}

void WorkerStatusHook::begin(const RunInfo&) { last_refresh_ = clock_.now(); }

void WorkerStatusHook::after_step(const StepInfo& info) {
  if (!live_) return;
  ++steps_;
  reduction_ += info.reduction_time.count();
  const TimePoint now = clock_.now();
  const double seconds = to_seconds(now - last_refresh_);
  if (seconds < refresh_seconds_) return;
  log::status(fmt::format("step {}  {:.2f} ms a step, {:.0f}% in reduction", info.global_step,
                          seconds * 1000 / static_cast<double>(steps_),
                          reduction_ * 100 / seconds));
  last_refresh_ = now;
  steps_ = 0;
  reduction_ = 0;
}

void WorkerStatusHook::end(int64_t global_step) {
  if (live_) log::status("");
  log::event("training_is_over", {{"global_step", global_step}},
             fmt::format("training is over at step {}: this worker is done", global_step));
}

SummaryHook::SummaryHook(std::shared_ptr<summary::EventWriter> writer, int64_t summary_steps,
                         int64_t rate_steps, Clock& clock,
                         std::map<std::string, formats::HParam> hparams)
    : writer_(std::move(writer)),
      writes_(summary_steps > 0),
      hparams_(std::move(hparams)),
      rates_(rate_steps),
      clock_(clock) {}

void SummaryHook::begin(const RunInfo& info) {
  skipped_steps_ = roll_backs_ = 0;
  // Events of the step from which the run continues stay.
  writer_->add_session_log(formats::SessionStatus::kStart, info.start_step + 1);
  if (!writes_) return;
  if (info.graph != nullptr && !info.graph->nodes.empty())
    writer_->add_graph(*info.graph, info.start_step);
  if (hparams_.empty()) return;
  writer_->add_values({formats::hparams_session_start(hparams_, "", clock_.wall_seconds())},
                      info.start_step);
}

void SummaryHook::write_non_finite(const StepInfo& info) {
  if (info.skipped_steps == skipped_steps_ && info.roll_backs == roll_backs_) return;
  // This is the first step after the run has gone back.
  if (info.roll_backs != roll_backs_) {
    writer_->add_session_log(formats::SessionStatus::kStart, info.global_step);
    last_rate_.reset();
  }
  skipped_steps_ = info.skipped_steps;
  roll_backs_ = info.roll_backs;
  if (!writes_) return;
  writer_->add_scalars({{"non_finite/skipped_steps", static_cast<double>(skipped_steps_)},
                        {"non_finite/roll_backs", static_cast<double>(roll_backs_)}},
                       info.global_step);
}

void SummaryHook::after_step(const StepInfo& info) {
  write_non_finite(info);
  rows_ += info.rows;
  // Whether a step is due was decided before it was made. Workers that train at their own pace have
  // counted on since then, so a decision by the new number would find more steps due.
  if (writes_ && info.summaries != nullptr) {
    std::vector<formats::SummaryValue> values = *info.summaries;
    const auto is_loss = [](const formats::SummaryValue& value) { return value.tag == "loss"; };
    if (std::ranges::none_of(values, is_loss))
      values.push_back({"loss", static_cast<float>(info.loss)});
    writer_->add_values(std::move(values), info.global_step);
  }
  if (writes_ && info.metrics && !info.metrics->empty()) {
    writer_->add_scalars({info.metrics->begin(), info.metrics->end()}, info.global_step);
  }
  if (rates_.due(info.global_step)) {
    const TimePoint now = clock_.now();
    const double seconds = to_seconds(now - last_rate_at_);
    // The first step only begins the time.
    if (last_rate_ && seconds > 0) {
      writer_->add_scalars(
          {{"global_step/sec", static_cast<double>(info.global_step - *last_rate_) / seconds},
           {"examples/sec", static_cast<double>(rows_) / seconds}},
          info.global_step);
    }
    last_rate_ = info.global_step;
    last_rate_at_ = now;
    rows_ = 0;
  }
}

void SummaryHook::after_save(int64_t global_step, const std::string& prefix) {
  writer_->add_session_log(formats::SessionStatus::kCheckpoint, global_step, prefix);
  writer_->flush();
}

void SummaryHook::after_pause(Seconds time) { last_rate_at_ += from_seconds(time); }

void SummaryHook::end(int64_t global_step) {
  if (writes_ && !hparams_.empty()) {
    writer_->add_values(
        {formats::hparams_session_end(formats::SessionResult::kSuccess, clock_.wall_seconds())},
        global_step);
  }
  writer_->flush();
}

}  // namespace muster::inline v0_1
