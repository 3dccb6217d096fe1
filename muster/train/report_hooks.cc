#include "muster/train/report_hooks.h"

#include <unistd.h>

#include <cstdio>

#include "muster/base/log.h"

namespace muster {
namespace {

// "0:07", "1:02:03"
std::string clock_text(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600)
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

}  // namespace

ProgressHook::ProgressHook(const ProgressOptions& options, Clock& clock)
    : options_(options), clock_(clock) {}

void ProgressHook::begin(const RunInfo& info) {
  run_ = info;
  first_step_ = info.start_step;
  last_line_ = last_refresh_ = clock_.now();
}

std::string ProgressHook::line(const StepInfo& info, double seconds) const {
  const double steps_per_second = seconds > 0 ? static_cast<double>(steps_) / seconds : 0;
  std::string text = run_.last_step > 0
                         ? fmt::format("step {}/{} ({}%)", info.global_step, run_.last_step,
                                       info.global_step * 100 / run_.last_step)
                         : fmt::format("step {}", info.global_step);
  text += fmt::format("  loss {:.4f}", info.loss);
  if (steps_per_second > 0) {
    text += fmt::format("  {:.0f} examples/s  {:.1f} steps/s", static_cast<double>(rows_) / seconds,
                        steps_per_second);
    if (run_.last_step > info.global_step) {
      text += fmt::format(
          "  {} left",
          clock_text(static_cast<double>(run_.last_step - info.global_step) / steps_per_second));
    }
  }
  return text;
}

void ProgressHook::clear_line() {
  if (!line_open_) return;
  std::fputs("\r\033[K", stderr);
  line_open_ = false;
}

void ProgressHook::after_step(const StepInfo& info) {
  ++steps_;
  rows_ += info.rows;
  last_loss_ = info.loss;
  const bool first = info.global_step == first_step_ + 1;
  const bool line_due =
      options_.every_steps > 0 && (first || info.global_step % options_.every_steps == 0);
  if (!line_due && !options_.terminal) return;
  const TimePoint now = clock_.now();
  if (line_due) {
    clear_line();
    log::info(line(info, first ? 0 : to_seconds(now - last_line_)));
    last_line_ = last_refresh_ = now;
    steps_ = rows_ = 0;
  } else if (to_seconds(now - last_refresh_) >= options_.refresh_seconds) {
    std::fprintf(stderr, "\r\033[K%s", line(info, to_seconds(now - last_line_)).c_str());
    std::fflush(stderr);
    line_open_ = true;
    last_refresh_ = now;
  }
}

void ProgressHook::after_save(int64_t, const std::string& prefix) {
  clear_line();
  log::info("saved " + prefix);
}

void ProgressHook::end(int64_t global_step) {
  clear_line();
  const bool trained = global_step > first_step_;
  log::info(fmt::format("training is over at step {}{}", global_step,
                        trained ? fmt::format(": loss of the last step {:.4f}", last_loss_) : ""));
}

SummaryHook::SummaryHook(std::shared_ptr<summary::EventWriter> writer, int64_t summary_steps,
                         int64_t rate_steps, Clock& clock)
    : writer_(std::move(writer)),
      summary_steps_(summary_steps),
      rate_steps_(rate_steps),
      clock_(clock) {}

void SummaryHook::begin(const RunInfo& info) {
  writer_->add_session_log(formats::SessionStatus::kStart, info.start_step);
  last_rate_ = info.start_step;
  last_rate_at_ = clock_.now();
}

void SummaryHook::after_step(const StepInfo& info) {
  rows_ += info.rows;
  if (summary_steps_ > 0 && (first_ || info.global_step >= last_summary_ + summary_steps_)) {
    writer_->add_scalar("loss", info.loss, info.global_step);
    last_summary_ = info.global_step;
    first_ = false;
  }
  if (rate_steps_ > 0 && info.global_step >= last_rate_ + rate_steps_) {
    const TimePoint now = clock_.now();
    const double seconds = to_seconds(now - last_rate_at_);
    if (seconds > 0) {
      writer_->add_scalars(
          {{"global_step/sec", static_cast<double>(info.global_step - last_rate_) / seconds},
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

void SummaryHook::end(int64_t) { writer_->flush(); }

}  // namespace muster
