#include "muster/keras/internal/fit_progress.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "muster/base/log.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::keras::internal {
namespace {

constexpr std::chrono::milliseconds kRefresh(200);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

FitProgress::FitProgress(Verbose verbose, bool speaks, int64_t epochs, Clock& clock)
    : lines_(speaks && verbose != Verbose::kSilent),
      live_(lines_ && verbose == Verbose::kAuto && log::shows_status()),
      epochs_(epochs),
      clock_(clock),
      unicode_(terminal_reads_unicode()) {}

void FitProgress::begin_epoch(int64_t epoch, int64_t steps, int64_t done) {
  epoch_ = epoch;
  steps_ = steps;
  done_ = done;
  made_ = rows_ = 0;
  begun_ = shown_ = trained_ = clock_.now();
}

void FitProgress::step(int64_t rows, const std::function<Logs()>& logs) {
  ++made_;
  rows_ += rows;
  if (!live_) return;
  const TimePoint now = clock_.now();
  if (now - shown_ < kRefresh) return;
  shown_ = now;
  ProgressFacts facts{.step = done_ + made_, .last_step = steps_};
  for (const auto& [name, value] : logs()) {
    if (name == "loss") {
      facts.loss = value;
    } else {
      facts.metrics[name] = value;
    }
  }
  const double passed = seconds(now - begun_);
  facts.steps_per_second = static_cast<double>(made_) / passed;
  facts.examples_per_second = static_cast<double>(rows_) / passed;
  const std::string front = fmt::format("epoch {}/{}  ", epoch_ + 1, epochs_);
  log::status(front +
              progress_bar(facts, log::status_width() - static_cast<int>(front.size()), unicode_));
}

void FitProgress::end_training() { trained_ = clock_.now(); }

void FitProgress::end_epoch(const Logs& logs) {
  if (live_) log::status("");
  if (!lines_) return;
  const double passed = seconds(trained_ - begun_);
  std::string text = fmt::format("epoch {}/{}  {} steps", epoch_ + 1, epochs_, done_ + made_);
  nlohmann::json fields{{"epoch", epoch_ + 1}, {"epochs", epochs_}, {"steps", done_ + made_}};
  // First what was trained, then what was validated.
  for (const bool validated : {false, true}) {
    for (const auto& [name, value] : logs) {
      if (name.starts_with("val_") != validated) continue;
      text += fmt::format("  {} {}", name, value_text(value));
      fields[name] = value;
    }
  }
  if (passed > 0 && rows_ > 0) {
    const double rate = static_cast<double>(rows_) / passed;
    text += fmt::format("  {:.{}f} examples/s", rate, rate < 100 ? 1 : 0);
    fields["examples_per_second"] = rate;
  }
  log::event("epoch", fields, text + fmt::format("  {:.1f} s", seconds(clock_.now() - begun_)));
}

}  // namespace muster::inline v0_1::keras::internal
