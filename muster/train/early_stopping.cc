#include "muster/train/early_stopping.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "muster/base/better.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/train/evaluation_history.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::hooks {
namespace {

constexpr Every kEachMinute{.time = std::chrono::minutes(1)};

class EarlyStopping : public Hook {
 public:
  EarlyStopping(std::function<bool()> should_stop, const EarlyStoppingOptions& options)
      : should_stop_(std::move(should_stop)),
        timer_(options.every.or_else(kEachMinute), "hooks::make_early_stopping",
               clock_or_system(options.clock)) {}

  void begin(const RunInfo& info) override {
    decides_ = info.is_chief;
    control_ = info.control;
    timer_.reset();
    decide(info.start_step);
  }
  void after_step(const StepInfo& info) override {
    if (decides_ && timer_.due(info.global_step)) decide(info.global_step);
  }

 private:
  void decide(int64_t step) {
    if (!decides_ || control_.stop_requested() || !should_stop_()) return;
    log::info(fmt::format("early stopping at step {}: should_stop() returned true", step));
    control_.request_stop();
  }

  const std::function<bool()> should_stop_;
  SecondOrStepTimer timer_;
  bool decides_ = false;
  RunControl control_;
};

// Why values of a metric by step end a run; nothing when they do not.
using Judge = std::function<std::optional<std::string>(const std::map<int64_t, double>& values)>;

class StopIf : public Hook {
 public:
  StopIf(std::string metric, Judge judge, const StopIfOptions& options)
      : metric_(std::move(metric)),
        judge_(std::move(judge)),
        options_(options),
        timer_(options.every.or_else(kEachMinute), "early stopping",
               clock_or_system(options.clock)) {}

  void begin(const RunInfo& info) override {
    decides_ = info.is_chief;
    control_ = info.control;
    model_dir_ = info.model_dir;
    timer_.reset();
    if (!decides_) return;
    history_.emplace(options_.fs != nullptr ? *options_.fs : file_systems(),
                     options_.eval_dir.empty() ? dir_of("") : options_.eval_dir);
    history_->read();
    decide(info.start_step);
  }
  void after_step(const StepInfo& info) override {
    if (decides_ && timer_.due(info.global_step) && read_news()) decide(info.global_step);
  }
  // Not in after_save(), which may come some steps after the pause of its save.
  void before_save(int64_t) override {
    saving_ = true;
    named_.clear();
  }
  void after_evaluate(int64_t global_step, const std::string& name,
                      const std::map<std::string, double>& results) override {
    if (!decides_) return;
    if (name.empty()) {
      heard_unnamed_ = true;
    } else if (saving_) {
      named_ = name;
    } else if (!heard_unnamed_ && options_.eval_dir.empty()) {
      // An evaluator next to the run may make others yet.
      log::warning_once(fmt::format(
          "early stopping on \"{}\" reads the evaluation without a name, but so far there is only "
          "\"{}\": to use that, set .eval_dir = estimator.eval_dir(\"{}\")",
          metric_, name, name));
    }
    if (dir_of(name) != history_->eval_dir()) return;
    history_->add(global_step, results);
    decide(global_step);
  }
  // What was saved has been evaluated: if all evaluations have names, the folder of the one without
  // stays empty.
  void after_pause(Seconds) override {
    saving_ = false;
    if (named_.empty() || heard_unnamed_ || !options_.eval_dir.empty()) return;
    throw invalid_argument(
        fmt::format("early stopping on \"{}\" looks at the evaluation without a name, and this run "
                    "evaluates \"{}\"",
                    metric_, named_),
        fmt::format("set .eval_dir = estimator.eval_dir(\"{}\")", named_));
  }

 private:
  std::string dir_of(const std::string& name) const {
    return join_path(model_dir_, name.empty() ? "eval" : "eval_" + name);
  }

  // What cannot be read now may be read next time: training continues.
  bool read_news() {
    try {
      return history_->read();
    } catch (const Error& error) {
      log::warning_once("early stopping will retry later: " + error.message());
      return false;
    }
  }

  // A run may have come further before, and was lost since its last save: later steps do not count.
  void decide(int64_t step) {
    if (control_.stop_requested()) return;
    const auto why = judge_(history_->values(metric_, options_.min_steps, step));
    if (!why) return;
    log::info(fmt::format("early stopping at step {}: {} {}", step, metric_, *why));
    control_.request_stop();
  }

  const std::string metric_;
  const Judge judge_;
  const StopIfOptions options_;
  SecondOrStepTimer timer_;
  std::string model_dir_;
  std::optional<EvaluationHistory> history_;  // on the chief
  bool saving_ = false;                       // or evaluating what was saved
  bool heard_unnamed_ = false;                // of an evaluation without a name, at any time
  std::string named_;                         // one with a name, of what was saved last
  bool decides_ = false;
  RunControl control_;
};

std::shared_ptr<Hook> stop_if(const char* name, const std::string& metric, Judge judge,
                              const StopIfOptions& options) {
  if (metric.empty()) {
    throw invalid_argument(fmt::format("hooks::{} got an empty metric", name),
                           "name one of the model function's eval_metrics, or \"loss\"");
  }
  if (options.min_steps < 0) {
    throw invalid_argument(
        fmt::format("hooks::{} got min_steps = {}; it must be 0 or more", name, options.min_steps));
  }
  return std::make_shared<StopIf>(metric, std::move(judge), options);
}

// Values of events are float32, so what they are compared with is as well.
Judge beyond(double threshold, bool higher) {
  const double limit = static_cast<float>(threshold);
  return [=](const std::map<int64_t, double>& values) -> std::optional<std::string> {
    for (const auto& [step, value] : values) {
      if (!(higher ? value > limit : value < limit)) continue;
      return fmt::format("was {} at step {}, {} than {:g}", value_text(value), step,
                         higher ? "higher" : "lower", threshold);
    }
    return std::nullopt;
  };
}

Judge no_better(int64_t limit, bool higher) {
  return [=](const std::map<int64_t, double>& values) -> std::optional<std::string> {
    std::optional<std::pair<int64_t, double>> best;
    for (const auto& [step, value] : values) {
      if (!best && std::isnan(value)) continue;  // it would stay the best
      if (!best || (higher ? value > best->second : value < best->second)) {
        best = {step, value};
      } else if (step - best->first >= limit) {
        return fmt::format("did not {} in {} steps: it was {} at step {}, and {} at step {}",
                           higher ? "increase" : "decrease", step - best->first,
                           value_text(best->second), best->first, value_text(value), step);
      }
    }
    return std::nullopt;
  };
}

void require_steps(const char* name, const char* field, int64_t steps) {
  if (steps >= 1) return;
  throw invalid_argument(
      fmt::format("hooks::{} got {} = {}; it must be 1 or more", name, field, steps));
}

}  // namespace

std::shared_ptr<Hook> make_early_stopping(std::function<bool()> should_stop,
                                          const EarlyStoppingOptions& options) {
  if (!should_stop) throw invalid_argument("hooks::make_early_stopping got an empty function");
  return std::make_shared<EarlyStopping>(std::move(should_stop), options);
}

std::shared_ptr<Hook> stop_if_higher(const std::string& metric, double threshold,
                                     const StopIfOptions& options) {
  return stop_if("stop_if_higher", metric, beyond(threshold, true), options);
}

std::shared_ptr<Hook> stop_if_lower(const std::string& metric, double threshold,
                                    const StopIfOptions& options) {
  return stop_if("stop_if_lower", metric, beyond(threshold, false), options);
}

std::shared_ptr<Hook> stop_if_no_increase(const std::string& metric,
                                          int64_t max_steps_without_increase,
                                          const StopIfOptions& options) {
  constexpr const char* kName = "stop_if_no_increase";
  require_steps(kName, "max_steps_without_increase", max_steps_without_increase);
  warn_of_direction(kName, metric, Better::kHigher);
  return stop_if(kName, metric, no_better(max_steps_without_increase, true), options);
}

std::shared_ptr<Hook> stop_if_no_decrease(const std::string& metric,
                                          int64_t max_steps_without_decrease,
                                          const StopIfOptions& options) {
  constexpr const char* kName = "stop_if_no_decrease";
  require_steps(kName, "max_steps_without_decrease", max_steps_without_decrease);
  warn_of_direction(kName, metric, Better::kLower);
  return stop_if(kName, metric, no_better(max_steps_without_decrease, false), options);
}

}  // namespace muster::inline v0_1::hooks
