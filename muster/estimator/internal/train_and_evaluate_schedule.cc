#include "muster/estimator/internal/train_and_evaluate_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/log.h"
#include "muster/estimator/internal/estimator_impl.h"

namespace muster::inline v0_1::internal {

using nlohmann::json;

TrainAndEvaluateSchedule::TrainAndEvaluateSchedule(Estimator& estimator,
                                                   const std::vector<EvalSpec>& specs,
                                                   std::optional<int64_t> max_steps, Ways ways,
                                                   EvaluatorLink* link)
    : estimator_(estimator),
      max_steps_(max_steps),
      ways_(std::move(ways)),
      clock_(EstimatorAccess::impl(estimator).clock()),
      link_(link) {
  for (const EvalSpec& spec : specs)
    courses_.push_back(std::make_unique<EvaluationCourse>(estimator, spec));
}

// When there will be another checkpoint, for the log.
std::string TrainAndEvaluateSchedule::next_checkpoint() const {
  const RunConfig& config = estimator_.config();
  if (config.save_checkpoints_steps)
    return fmt::format("in {} steps", *config.save_checkpoints_steps);
  return fmt::format("in {:g} s", config.save_checkpoints_secs.value_or(Seconds(600)).count());
}

bool TrainAndEvaluateSchedule::due_after_save(const EvaluationCourse& course, int64_t step) {
  const double throttle = course.spec().throttle_secs.count();
  const std::string which = course.in_brackets();
  const auto put_off = put_off_.find(course.spec().name);
  const bool told = put_off != put_off_.end();
  if (throttle == 0 || !course.begun()) {
    const std::string line =
        fmt::format("evaluating step {}{}: {}; the next checkpoint comes {}", step, which,
                    throttle == 0 ? "every checkpoint is evaluated" : "it is the first evaluation",
                    next_checkpoint());
    throttle == 0 ? log::debug(line) : log::info(line);
    return true;
  }
  const double since = to_seconds(clock_.now() - *course.begun());
  if (since >= throttle) {
    if (told) put_off_.erase(put_off);
    log::info(
        fmt::format("evaluating step {}{}: the evaluation before it began {:.0f} s ago, "
                    "throttle_secs is {:g}; the next one is due in {:g} s",
                    step, which, since, throttle, throttle));
    return true;
  }
  const std::string line = fmt::format(
      "step {}{} is not evaluated now: throttle_secs is {:g}, the next evaluation is "
      "due in {:.0f} s, or when training ends",
      step, which, throttle, throttle - since);
  // Once says it for all until then.
  told ? log::debug(line) : log::info(line);
  put_off_.insert(course.spec().name);
  return false;
}

bool TrainAndEvaluateSchedule::due_at_end(const EvaluationCourse& course, int64_t step,
                                          bool trained) {
  const std::string which = course.in_brackets();
  if (link_ != nullptr && link_->finished(course.spec().name, step)) {
    log::info(fmt::format("the evaluator has evaluated the last step, {}{}", step, which));
    elsewhere_.insert(course.spec().name);
    return false;
  }
  if (course.step() == step) {
    log::debug(fmt::format("the last step, {}{}, is evaluated already", step, which));
    return false;
  }
  if (!trained) {
    log::info(fmt::format("evaluating the existing checkpoint of step {}{}", step, which));
  } else {
    log::debug(fmt::format("evaluating step {}{}: it is the last one", step, which));
  }
  return true;
}

void TrainAndEvaluateSchedule::after_save(int64_t step, const Saved& saved,
                                          distribute::Replica& replica) {
  const bool is_final = max_steps_ && step >= *max_steps_;
  evaluate_those(
      [&](const EvaluationCourse& course) { return is_final || due_after_save(course, step); },
      {.step = step,
       .prefix = saved.prefix,
       .await = saved.await,
       .is_final = is_final,
       .left_to_evaluator = replica.is_chief() && link_ != nullptr && link_->evaluator_works()},
      replica);
}

// Exit code 0 of the chief ends the job, under many a scheduler, with all that still runs.
bool TrainAndEvaluateSchedule::evaluator_has_last(int64_t step, distribute::Replica& replica) {
  if (!replica.is_chief() || link_ == nullptr || !link_->hand_over(step)) return false;
  std::vector<std::string> names;
  for (const auto& course : courses_) names.push_back(course->spec().name);
  replica.group().report(distribute::Phase::kEvaluating, step);
  return link_->await_last(names, step, [&](bool news) {
    replica.group().check_failure();
    if (news) replica.group().report(distribute::Phase::kEvaluating, step);
  });
}

void TrainAndEvaluateSchedule::at_end(int64_t step, bool trained, distribute::Replica& replica) {
  evaluate_those(
      [&](const EvaluationCourse& course) { return due_at_end(course, step, trained); },
      {.step = step, .is_final = true, .left_to_evaluator = evaluator_has_last(step, replica)},
      replica);
}

void TrainAndEvaluateSchedule::evaluate_those(
    const std::function<bool(const EvaluationCourse&)>& due, Checkpoint checkpoint,
    distribute::Replica& replica) {
  const bool chief = replica.is_chief();
  const auto& strategy = estimator_.config().eval_distribute;
  const bool several = replica.num_replicas_in_sync() > 1;
  // The one worker that is left of an elastic run evaluates in its group too: another group would
  // need the other workers.
  const bool together = strategy && strategy->multi_worker() &&
                        (several || EstimatorAccess::impl(estimator_).resolve().distributed());
  json now = json::array();
  if (chief) {
    for (const auto& course : courses_)
      now.push_back(!checkpoint.left_to_evaluator && due(*course));
    const bool any = std::ranges::any_of(now, [](const json& each) { return each.get<bool>(); });
    if (any && checkpoint.await) {
      checkpoint.prefix = checkpoint.await();
      // The save has failed, which it may: there is nothing to evaluate.
      if (checkpoint.prefix.empty()) now = json(courses_.size(), false);
    }
  }
  if (together) now = json::parse(replica.group().gather_text("evaluate_now", now.dump())[0]);
  for (size_t i = 0; i < courses_.size() && !now.empty(); ++i) {
    EvaluationCourse& course = *courses_[i];
    const bool evaluates = now[i].get<bool>();
    try {
      if (evaluates) evaluate(course, checkpoint, together, replica);
    } catch (const Error& error) {
      // The program asked the run to stop: it ends with its next step, where all learn of it.
      if ((together && several) || !EstimatorAccess::impl(estimator_).was_asked_to_stop(error))
        throw;
      log::info(fmt::format("stopped by its program: {}", error.message()));
      break;
    }
    if (!chief) continue;
    const std::string& name = course.spec().name;
    if (checkpoint.left_to_evaluator) elsewhere_.insert(name);
    if (evaluates) elsewhere_.erase(name);
    if (course.step() == checkpoint.step && !elsewhere_.contains(name))
      tell(course, checkpoint.is_final, evaluates);
  }
  // The others wait here, where nothing times out as long as the chief is alive, and not in a
  // collective.
  replica.group().barrier("evaluated");
}

void TrainAndEvaluateSchedule::evaluate(EvaluationCourse& course, const Checkpoint& checkpoint,
                                        bool together, distribute::Replica& replica) {
  replica.group().report(distribute::Phase::kEvaluating, checkpoint.step);
  // The checkpoint that was just saved, and not one that another program may have saved since.
  const EvaluateOptions options = course.options(checkpoint.prefix);
  const TimePoint begun = clock_.now();
  Evaluated evaluated = together
                            ? ways_.together(course.input_at(checkpoint.step), options, replica)
                            : ways_.alone(course.spec().input_fn, options);
  if (replica.is_chief()) course.note(checkpoint.step, begun, std::move(evaluated));
}

void TrainAndEvaluateSchedule::tell(EvaluationCourse& course, bool is_final, bool evaluated_now) {
  const bool told_before = course.told_final();
  course.call_exporters(is_final, &exports_);
  // A call of the exporters with the last checkpoint is noted too; without exporters, it was
  // evaluated once and is listed once.
  const bool told_now = course.told_final() != told_before && !course.spec().exporters.empty();
  if (link_ != nullptr && (evaluated_now || told_now)) link_->note(course.entry());
}

TrainAndEvaluateResult TrainAndEvaluateSchedule::result(const TrainResult& training) const {
  TrainAndEvaluateResult result{.training = training, .exports = exports_};
  for (const auto& course : courses_) {
    if (course->step() && !elsewhere_.contains(course->spec().name))
      result.evaluations[course->spec().name] = course->last().result;
  }
  return result;
}

}  // namespace muster::inline v0_1::internal
