#include "muster/estimator/internal/evaluations.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/estimator/exporter.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1::internal {
namespace {

using nlohmann::json;

// " (validation)" behind a step; nothing for an evaluation without a name.
std::string in_brackets(const std::string& name) {
  return name.empty() ? std::string() : fmt::format(" ({})", name);
}

}  // namespace

InputFn SharedInput::at(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (!shared_ || step_ != step) shared_ = called_once(input_fn_);
  step_ = step;
  return shared_;
}

Evaluations::Evaluations(Estimator& estimator, const std::vector<EvalSpec>& specs,
                         std::optional<int64_t> max_steps, Ways ways)
    : estimator_(estimator),
      max_steps_(max_steps),
      ways_(std::move(ways)),
      clock_(estimator.config().clock != nullptr ? *estimator.config().clock : system_clock()) {
  for (const EvalSpec& spec : specs) courses_.push_back(std::make_unique<Course>(spec));
}

// When there will be another checkpoint, for the log.
std::string Evaluations::next_checkpoint() const {
  const RunConfig& config = estimator_.config();
  if (config.save_checkpoints_steps)
    return fmt::format("in {} steps", *config.save_checkpoints_steps);
  return fmt::format("in {:g} s", config.save_checkpoints_secs.value_or(600));
}

bool Evaluations::due_after_save(const Course& course, int64_t step) const {
  const double throttle = course.spec->throttle_secs;
  const std::string which = in_brackets(course.spec->name);
  if (throttle == 0 || !course.begun) {
    const std::string line =
        fmt::format("evaluating step {}{}: {}; the next checkpoint comes {}", step, which,
                    throttle == 0 ? "every checkpoint is evaluated" : "it is the first evaluation",
                    next_checkpoint());
    throttle == 0 ? log::debug(line) : log::info(line);
    return true;
  }
  const double since = to_seconds(clock_.now() - *course.begun);
  if (since >= throttle) {
    log::info(
        fmt::format("evaluating step {}{}: the evaluation before it began {:.0f} s ago, "
                    "throttle_secs is {:g}; the next one is due in {:g} s",
                    step, which, since, throttle, throttle));
    return true;
  }
  log::info(
      fmt::format("step {}{} is not evaluated now: throttle_secs is {:g}, the next evaluation is "
                  "due in {:.0f} s, or when training ends",
                  step, which, throttle, throttle - since));
  return false;
}

bool Evaluations::due_at_end(const Course& course, int64_t step, bool trained) const {
  const std::string which = in_brackets(course.spec->name);
  if (course.step == step) {
    log::debug(fmt::format("step {}{}, the last one, is evaluated already", step, which));
    return false;
  }
  if (!trained) {
    log::info(fmt::format("evaluating the checkpoint of step {} there is{}", step, which));
  } else {
    log::debug(fmt::format("evaluating step {}{}: it is the last one", step, which));
  }
  return true;
}

void Evaluations::after_save(int64_t step, const std::string& prefix,
                             distribute::Replica& replica) {
  const bool is_final = max_steps_ && step >= *max_steps_;
  evaluate_those([&](const Course& course) { return is_final || due_after_save(course, step); },
                 step, prefix, is_final, replica);
}

void Evaluations::at_end(int64_t step, bool trained, distribute::Replica& replica) {
  evaluate_those([&](const Course& course) { return due_at_end(course, step, trained); }, step, "",
                 true, replica);
}

void Evaluations::evaluate_those(const std::function<bool(const Course&)>& due, int64_t step,
                                 const std::string& prefix, bool is_final,
                                 distribute::Replica& replica) {
  const bool chief = replica.is_chief();
  const auto& strategy = estimator_.config().eval_distribute;
  const bool together = strategy && strategy->multi_worker() && replica.num_replicas_in_sync() > 1;
  json now = json::array();
  if (chief) {
    for (const auto& course : courses_) now.push_back(due(*course));
  }
  if (together) now = json::parse(replica.group().gather_text("evaluate_now", now.dump())[0]);
  for (size_t i = 0; i < courses_.size() && !now.empty(); ++i) {
    Course& course = *courses_[i];
    if (now[i].get<bool>()) evaluate(course, step, prefix, together, replica);
    if (chief && course.step == step) call_exporters(course, is_final);
  }
  // The others wait here, where nothing times out as long as the chief is alive, and not in a
  // collective.
  replica.group().barrier("evaluated");
}

void Evaluations::evaluate(Course& course, int64_t step, const std::string& prefix, bool together,
                           distribute::Replica& replica) {
  replica.group().report(distribute::Phase::kEvaluating, step);
  const EvalSpec& spec = *course.spec;
  EvaluateOptions options{
      .steps = spec.steps, .name = spec.name, .use_ema = spec.use_ema, .hooks = spec.hooks};
  // What was just saved, and not what another program may have saved since.
  if (!prefix.empty()) options.checkpoint_path = prefix;
  const TimePoint begun = clock_.now();
  Evaluated evaluated = together ? ways_.together(course.input.at(step), options, replica)
                                 : ways_.alone(spec.input_fn, options);
  if (!replica.is_chief()) return;
  course.step = step;
  course.begun = begun;
  course.last = std::move(evaluated);
  course.exported.assign(spec.exporters.size(), false);
  course.told_final = false;
  if (auto& best = estimator_.impl_->best)
    best->note(spec.name, course.last.checkpoint, course.last.result);
}

void Evaluations::call_exporters(Course& course, bool is_final) {
  if (course.told_final) return;
  course.told_final = is_final;
  for (size_t e = 0; e < course.spec->exporters.size(); ++e) {
    if (course.exported[e]) continue;
    Exporter& exporter = *course.spec->exporters[e];
    const std::string folder =
        join_path(join_path(estimator_.model_dir(), "export"), exporter.name());
    std::optional<std::string> written;
    try {
      written = exporter.export_model(estimator_, folder, course.last.checkpoint,
                                      course.last.result, is_final);
    } catch (...) {
      rethrow_with_place(
          "an exporter",
          fmt::format("in exporter \"{}\" at step {}", exporter.name(), *course.step),
          [](const std::string&) { return std::string(); });
    }
    if (!written) continue;
    course.exported[e] = true;
    exports_[exporter.name()].push_back(*written);
    log::event("exported",
               {{"exporter", exporter.name()},
                {"folder", *written},
                {"global_step", *course.step},
                {"final", is_final}},
               fmt::format("exporter \"{}\" exported step {} to {}", exporter.name(), *course.step,
                           *written));
  }
}

TrainAndEvaluateResult Evaluations::result(const TrainResult& training) const {
  TrainAndEvaluateResult result{.training = training, .exports = exports_};
  for (const auto& course : courses_) {
    if (course->step) result.evaluations[course->spec->name] = course->last.result;
  }
  return result;
}

}  // namespace muster::inline v0_1::internal
