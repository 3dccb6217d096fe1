// The hooks that report values and rates of a run.
#include <fmt/format.h>

#include <optional>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/files/file_systems.h"
#include "muster/summary/event_writer.h"
#include "muster/train/hooks.h"
#include "muster/train/progress_line.h"

namespace muster::inline v0_1::hooks {
namespace {

constexpr Every kHundredSteps{.steps = 100};

class LoggingTensor : public Hook {
 public:
  explicit LoggingTensor(const LoggingTensorOptions& options)
      : options_(options), clock_(clock_or_system(options.clock)) {
    if (options.at_end && options.every.unset()) return;
    timer_.emplace(options.every.or_else(kHundredSteps), "hooks::logging_tensor", clock_);
  }

  void begin(const RunInfo&) override {
    if (timer_) timer_->reset();
    last_time_.reset();
    values_.clear();
    steps_ = told_ = 0;
  }
  void after_step(const StepInfo& info) override {
    if (info.metrics) {
      for (const auto& [name, value] : *info.metrics) values_[name] = value;
    }
    values_["loss"] = info.loss;
    values_["global_step"] = static_cast<double>(info.global_step);
    ++steps_;  // counted here: in evaluation the global step stays
    if (timer_ && timer_->due(steps_)) tell();
  }
  void end(int64_t) override {
    if (options_.at_end && !values_.empty() && told_ != steps_) tell();
  }

 private:
  void tell() {
    const TimePoint now = clock_.now();
    const std::map<std::string, double> wanted = wanted_values();
    std::string line;
    if (options_.formatter) {
      line = options_.formatter(wanted);
    } else {
      std::vector<std::string> parts;
      for (const auto& [name, value] : wanted) {
        parts.push_back(name == "global_step" ? fmt::format("{} = {:.0f}", name, value)
                                              : fmt::format("{} = {}", name, value_text(value)));
      }
      line = join(parts, ", ");
      if (last_time_) line += fmt::format(" ({:.3f} s)", to_seconds(now - *last_time_));
    }
    log::info(line);
    last_time_ = now;
    told_ = steps_;
  }

  std::map<std::string, double> wanted_values() const {
    if (options_.names.empty()) return values_;
    std::map<std::string, double> wanted;
    for (const std::string& name : options_.names) {
      const auto found = values_.find(name);
      if (found != values_.end()) {
        wanted.insert(*found);
        continue;
      }
      std::vector<std::string> names;
      for (const auto& [known, value] : values_) names.push_back(known);
      throw unknown_name("a step of this run", "value", name, names,
                         "the model function gives values by name in EstimatorSpec.train_metrics");
    }
    return wanted;
  }

  const LoggingTensorOptions options_;
  Clock& clock_;
  std::optional<SecondOrStepTimer> timer_;
  std::map<std::string, double> values_;
  std::optional<TimePoint> last_time_;
  int64_t steps_ = 0;
  int64_t told_ = 0;  // steps_ of the last line
};

class StepCounter : public Hook {
 public:
  explicit StepCounter(const StepCounterOptions& options)
      : clock_(clock_or_system(options.clock)),
        timer_(options.every.or_else(kHundredSteps), "hooks::step_counter", clock_) {
    if (options.output_dir.empty()) return;
    writer_ = std::make_unique<summary::EventWriter>(
        options.output_dir, options.fs != nullptr ? *options.fs : file_systems(), clock_);
  }

  void begin(const RunInfo&) override {
    timer_.reset();
    begun_ = false;
    steps_ = all_ = 0;
  }
  void after_step(const StepInfo& info) override {
    ++steps_;
    // Counted here: in evaluation the global step stays.
    if (!timer_.due(++all_)) return;
    const TimePoint now = clock_.now();
    const double seconds = to_seconds(now - last_time_);
    // The first step only begins the time.
    if (begun_ && seconds > 0) tell(info.global_step, static_cast<double>(steps_) / seconds);
    begun_ = true;
    steps_ = 0;
    last_time_ = now;
  }
  void after_pause(Seconds time) override { last_time_ += from_seconds(time); }
  void end(int64_t) override {
    if (writer_) writer_->flush();
  }
  void on_error(const Error&) override {
    if (writer_) writer_->flush();
  }

 private:
  void tell(int64_t global_step, double rate) {
    log::info(fmt::format("step {}: global_step/sec = {:.4g}", global_step, rate));
    if (writer_) writer_->add_scalars({{"global_step/sec", rate}}, global_step);
  }

  Clock& clock_;
  SecondOrStepTimer timer_;
  std::unique_ptr<summary::EventWriter> writer_;
  bool begun_ = false;
  int64_t steps_ = 0;  // since the last line
  int64_t all_ = 0;
  TimePoint last_time_;
};

}  // namespace

std::shared_ptr<Hook> logging_tensor(const LoggingTensorOptions& options) {
  return std::make_shared<LoggingTensor>(options);
}

std::shared_ptr<Hook> step_counter(const StepCounterOptions& options) {
  return std::make_shared<StepCounter>(options);
}

}  // namespace muster::inline v0_1::hooks
