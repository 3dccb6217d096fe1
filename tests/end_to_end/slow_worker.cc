// Workers in step, of which worker 1 waits for its data: SLOW_MS milliseconds for each batch. The
// others compute COMPUTE_MS milliseconds longer than they must, if it is set, so that a person sees
// something on a screen. With EVALUATES a task of the cluster evaluates; STRATEGY is another
// strategy, WATCHDOG the seconds of RunConfig::watchdog. PROFILE_EVERY writes a
// profile each time after so many steps.
#include <muster/muster.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

using namespace muster;

namespace {

void stay(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(value)));
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("small", [] {
    return Sequential({Dense(64, {.activation = activations::relu}), Dense(1)});
  });
  Tensor y = model(features);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"y", y}});
  Tensor loss = losses::mean_squared_error(labels, y);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  stay("COMPUTE_MS");
  auto adam = context.optimizer(optim::adam({.learning_rate = 0.01}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

Dataset input(const InputContext& context) {
  const Tensor x = torch::linspace(-1, 1, 256 * 8).view({256, 8});
  const bool slow = context.input_pipeline_id == 1;
  return Dataset::from_tensor_slices(Element::tuple({x, x.sin().sum(1, true)}))
      .repeat()
      .batch(16)
      .map([slow](Tensor features, Tensor labels) {
        if (slow) stay("SLOW_MS");
        return std::tuple(features, labels);
      });
}

void program(const Flags& flags) {
  const char* strategy = std::getenv("STRATEGY");
  const double watchdog =
      std::getenv("WATCHDOG") != nullptr ? std::atof(std::getenv("WATCHDOG")) : 30;
  Estimator estimator(model_fn, {.model_dir = flags.model_dir,
                                 .random_seed = 3,
                                 .save_summary_steps = 5,
                                 .save_checkpoints_steps = flags.save_checkpoints_steps,
                                 .log_step_count_steps = 20,
                                 .train_distribute = distribute::strategy_by_name(
                                     strategy != nullptr ? strategy : "multi_worker"),
                                 .watchdog = Seconds(watchdog)});
  if (std::getenv("EVALUATES") == nullptr) {
    TrainOptions options{.max_steps = flags.max_steps};
    if (const char* every = std::getenv("PROFILE_EVERY"))
      options.hooks.push_back(hooks::profiler({.every = {.steps = std::stoi(every)}}));
    estimator.train(input, options);
    return;
  }
  train_and_evaluate(estimator, {.input_fn = input, .max_steps = flags.max_steps},
                     EvalSpec{.input_fn = input});
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.uses = {"model_dir", "max_steps", "save_checkpoints_steps"}});
}
