#include "muster/keras/progbar_logger.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "muster/base/log.h"
#include "muster/keras/model.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::keras {
namespace {

constexpr std::chrono::milliseconds kRefresh(200);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

ProgbarLogger::ProgbarLogger(Verbose verbose, Clock& clock) : verbose_(verbose), clock_(clock) {}

void ProgbarLogger::on_train_begin(const FitInfo& info) {
  lines_ = verbose_ != Verbose::kSilent && model().is_chief();
  live_ = lines_ && verbose_ == Verbose::kAuto && log::shows_status();
  unicode_ = terminal_reads_unicode();
  epochs_ = info.epochs;
  steps_ = info.steps;
  done_ = made_ = 0;
}

void ProgbarLogger::on_epoch_begin(int64_t epoch) {
  epoch_ = epoch;
  made_ = rows_ = 0;
  begun_ = shown_ = trained_ = clock_.now();
}

void ProgbarLogger::on_train_batch_end(const BatchInfo& info) {
  ++made_;
  rows_ += info.rows;
  trained_ = clock_.now();
  if (!live_ || trained_ - shown_ < kRefresh) return;
  shown_ = trained_;
  ProgressFacts facts{.step = done_ + made_, .last_step = steps_};
  for (const auto& [name, value] : info.logs()) {
    if (name == "loss") {
      facts.loss = value;
    } else {
      facts.metrics[name] = value;
    }
  }
  const double passed = seconds(trained_ - begun_);
  facts.steps_per_second = static_cast<double>(made_) / passed;
  facts.examples_per_second = static_cast<double>(rows_) / passed;
  const std::string front = fmt::format("epoch {}/{}  ", epoch_ + 1, epochs_);
  log::status(front +
              progress_bar(facts, log::status_width() - static_cast<int>(front.size()), unicode_));
}

void ProgbarLogger::on_epoch_end(int64_t /*epoch*/, Logs& logs) {
  const int64_t steps = done_ + made_, rows = rows_;
  done_ = made_ = rows_ = 0;
  if (live_) log::status("");
  if (!lines_) return;
  const double passed = seconds(trained_ - begun_);
  std::string text =
      fmt::format("epoch {}/{}  {} step{}", epoch_ + 1, epochs_, steps, steps == 1 ? "" : "s");
  nlohmann::json fields{{"epoch", epoch_ + 1}, {"epochs", epochs_}, {"steps", steps}};
  // First the training metrics, then the validation metrics.
  for (const bool validated : {false, true}) {
    for (const auto& [name, value] : logs) {
      if (name.starts_with("val_") != validated) continue;
      text += fmt::format("  {} {}", name, value_text(value));
      fields[name] = value;
    }
  }
  if (passed > 0 && rows > 0) {
    const double rate = static_cast<double>(rows) / passed;
    text += fmt::format("  {:.{}f} examples/s", rate, rate < 100 ? 1 : 0);
    fields["examples_per_second"] = rate;
  }
  log::event("epoch", fields, text + fmt::format("  {:.1f} s", seconds(clock_.now() - begun_)));
}

nlohmann::json ProgbarLogger::state() const { return {{"done", done_ + made_}}; }

void ProgbarLogger::restore(const nlohmann::json& state) {
  done_ = state.at("done").get<int64_t>();
}

}  // namespace muster::inline v0_1::keras
