#include "muster/estimator/in_memory_evaluator.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

class InMemoryEvaluator : public Hook {
 public:
  InMemoryEvaluator(Estimator& estimator, InputFn input_fn,
                    const hooks::InMemoryEvaluatorOptions& options)
      : estimator_(estimator), input_fn_(std::move(input_fn)), options_(options) {}

  void begin(const RunInfo& info) override {
    if (info.mode != Mode::kTrain || info.num_replicas > 1) {
      throw invalid_argument(
          fmt::format("hooks::in_memory_evaluator evaluates what one replica trains; this is mode "
                      "{} on {}",
                      describe(info.mode), info.num_replicas),
          "train_and_evaluate() evaluates checkpoints, whatever trains");
    }
    state_ = info.state;
    evaluate(info.start_step);
  }
  void after_step(const StepInfo& info) override {
    // A roll back took the step back.
    if (info.global_step < evaluated_) evaluated_ = info.global_step;
    if (info.global_step >= evaluated_ + options_.every_n_iter)
      evaluate_unless_asked(info.global_step);
  }
  void end(int64_t global_step) override {
    if (evaluated_ != global_step) evaluate_unless_asked(global_step);
    state_ = nullptr;
  }
  void on_error(const Error&) override { state_ = nullptr; }

 private:
  // A signal ends the evaluation, and the run after it, which then saves.
  void evaluate_unless_asked(int64_t global_step) {
    try {
      evaluate(global_step);
    } catch (const Error& error) {
      const bool asked = stop_signal() != 0 || estimator_.impl_->was_asked_to_stop(error);
      if (error.kind() != ErrorKind::kCancelled || !asked) throw;
    }
  }

  void evaluate(int64_t global_step) {
    const Checkpoint now = state_();
    Estimator::Impl& impl = *estimator_.impl_;
    const EvaluateOptions options{
        .steps = options_.steps, .hooks = options_.hooks, .name = options_.name};
    const Device device = impl.strategy()->device();
    const distribute::StrategyPtr alone = distribute::one_device(device.str());
    struct Threads {
      const int before = num_threads();
      ~Threads() {
        if (num_threads() != before) set_threads(before);
      }
    } threads;
    impl.evaluate_by(
        [&](const EvaluateLoop& loop) {
          return muster::evaluate(impl.eval_runners, *alone,
                                  impl.start_options({}, "InMemoryEvaluatorHook"), loop);
        },
        input_fn_, options, {.in_memory = &now}, /*is_chief=*/true);
    evaluated_ = global_step;
  }

  Estimator& estimator_;
  const InputFn input_fn_;
  const hooks::InMemoryEvaluatorOptions options_;
  std::function<Checkpoint()> state_;
  int64_t evaluated_ = -1;
};

namespace hooks {

std::shared_ptr<Hook> in_memory_evaluator(Estimator& estimator, const InputFn& input_fn,
                                          const InMemoryEvaluatorOptions& options) {
  if (!input_fn) throw invalid_argument("hooks::in_memory_evaluator needs an input function");
  const std::pair<const char*, int64_t> numbers[] = {{"every_n_iter", options.every_n_iter},
                                                     {"steps", options.steps.value_or(1)}};
  for (const auto& [name, value] : numbers) {
    if (value >= 1) continue;
    throw invalid_argument(
        fmt::format("hooks::in_memory_evaluator got {} = {}; it must be 1 or more", name, value));
  }
  check_hooks(options.hooks, "InMemoryEvaluatorOptions.hooks");
  return std::make_shared<InMemoryEvaluator>(estimator, input_fn, options);
}

}  // namespace hooks
}  // namespace muster::inline v0_1
