#include "muster/estimator/train_and_evaluate.h"

#include <functional>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/estimator/internal/estimator_impl.h"

namespace muster::inline v0_1 {
namespace {

// An input function that the replicas of this process call once for each evaluation, together.
class SharedInput {
 public:
  explicit SharedInput(InputFn input_fn) : input_fn_(std::move(input_fn)) {}
  // The input of the evaluation of `step`. All replicas end one evaluation before any begins the
  // next.
  InputFn at(int64_t step) {
    const std::lock_guard lock(mutex_);
    if (!shared_ || step_ != step) shared_ = called_once(input_fn_);
    step_ = step;
    return shared_;
  }

 private:
  const InputFn input_fn_;
  std::mutex mutex_;
  int64_t step_ = 0;
  InputFn shared_;
};

void validate(const Estimator& estimator, const TrainSpec& train_spec, const EvalSpec& eval_spec) {
  if (!train_spec.input_fn) throw invalid_argument("TrainSpec.input_fn is empty");
  if (!eval_spec.input_fn) throw invalid_argument("EvalSpec.input_fn is empty");
  const auto positive = [](const char* field, const std::optional<int64_t>& value) {
    if (value && *value <= 0) {
      throw invalid_argument(fmt::format("{} is {}; it must be more than 0", field, *value),
                             "leave it unset for no limit");
    }
  };
  positive("TrainSpec.max_steps", train_spec.max_steps);
  positive("EvalSpec.steps", eval_spec.steps);
  for (const auto& [field, value] : {std::pair{"throttle_secs", eval_spec.throttle_secs},
                                     std::pair{"start_delay_secs", eval_spec.start_delay_secs}}) {
    if (!(value >= 0))
      throw invalid_argument(fmt::format("EvalSpec.{} is {}; it must be 0 or more", field, value));
  }
  const RunConfig& config = estimator.config();
  if (config.save_checkpoints_steps.value_or(1) == 0 ||
      config.save_checkpoints_secs.value_or(1) == 0) {
    throw invalid_argument("train_and_evaluate evaluates checkpoints, and RunConfig disables them",
                           "set save_checkpoints_steps or save_checkpoints_secs to more than 0");
  }
}

// The evaluations of one run: when they are due, who makes them, and what the last one said. The
// replicas of this process call it from their threads; only the chief's touches what is remembered.
class Evaluations {
 public:
  // Evaluates on all replicas, each of which makes the call.
  using EvaluateTogether =
      std::function<EvalResult(const InputFn&, const EvaluateOptions&, distribute::Replica&)>;

  Evaluations(Estimator& estimator, const EvalSpec& spec, EvaluateTogether evaluate_together)
      : estimator_(estimator),
        spec_(spec),
        evaluate_together_(std::move(evaluate_together)),
        clock_(estimator.config().clock != nullptr ? *estimator.config().clock : system_clock()),
        input_(spec.input_fn) {}

  void after_save(int64_t step, distribute::Replica& replica) {
    evaluate_if(step, replica, [&] {
      const double since =
          evaluated_at_ ? to_seconds(clock_.now() - *evaluated_at_) : spec_.throttle_secs;
      if (since >= spec_.throttle_secs) return true;
      log::info(
          fmt::format("step {} is not evaluated: throttle_secs is {:g}, the next evaluation is "
                      "due in {:.0f} s",
                      step, spec_.throttle_secs, spec_.throttle_secs - since));
      return false;
    });
  }

  // `trained` says whether this run made steps.
  void at_end(int64_t step, bool trained, distribute::Replica& replica) {
    evaluate_if(step, replica, [&] {
      if (evaluated_step_ == step) return false;
      if (!trained) log::info(fmt::format("evaluating the checkpoint of step {} there is", step));
      return true;
    });
  }

  const std::optional<EvalResult>& result() const { return result_; }

 private:
  // Evaluates where the strategy says; `due` is asked on the chief, which decides for all.
  void evaluate_if(int64_t step, distribute::Replica& replica, const std::function<bool()>& due) {
    const bool chief = replica.is_chief();
    const auto& strategy = estimator_.config().eval_distribute;
    const bool together =
        strategy && strategy->multi_worker() && replica.num_replicas_in_sync() > 1;
    if (together) {
      const std::string answer = chief ? (due() ? "yes" : "no") : "";
      if (replica.group().gather_text("evaluate_now", answer)[0] == "yes")
        evaluate(step, replica, true);
    } else if (chief && due()) {
      evaluate(step, replica, false);
    }
    // The others wait here, where nothing times out as long as the chief is alive, and not in a
    // collective.
    replica.group().barrier("evaluated");
  }

  void evaluate(int64_t step, distribute::Replica& replica, bool together) {
    replica.group().report(distribute::Phase::kEvaluating, step);
    if (replica.is_chief()) {
      evaluated_at_ = clock_.now();
      evaluated_step_ = step;
    }
    const EvaluateOptions options{
        .steps = spec_.steps, .name = spec_.name, .use_ema = spec_.use_ema};
    const EvalResult evaluated = together ? evaluate_together_(input_.at(step), options, replica)
                                          : estimator_.evaluate(spec_.input_fn, options);
    if (replica.is_chief()) result_ = evaluated;
  }

  Estimator& estimator_;
  const EvalSpec& spec_;
  const EvaluateTogether evaluate_together_;
  Clock& clock_;
  SharedInput input_;
  std::optional<EvalResult> result_;
  std::optional<int64_t> evaluated_step_;
  std::optional<TimePoint> evaluated_at_;
};

}  // namespace

std::optional<EvalResult> train_and_evaluate(Estimator& estimator, const TrainSpec& train_spec,
                                             const EvalSpec& eval_spec) {
  validate(estimator, train_spec, eval_spec);
  Evaluations evaluations(
      estimator, eval_spec,
      [&](const InputFn& input_fn, const EvaluateOptions& options, distribute::Replica& replica) {
        return estimator.impl_->evaluate_on(input_fn, options, replica);
      });
  TrainCallbacks callbacks;
  callbacks.after_save = [&](int64_t step, const std::string&, distribute::Replica& replica) {
    evaluations.after_save(step, replica);
  };
  callbacks.at_end = [&](int64_t step, bool trained, distribute::Replica& replica) {
    evaluations.at_end(step, trained, replica);
  };
  estimator.impl_->train(train_spec.input_fn,
                         {.max_steps = train_spec.max_steps, .hooks = train_spec.hooks}, callbacks);
  return evaluations.result();
}

}  // namespace muster::inline v0_1
