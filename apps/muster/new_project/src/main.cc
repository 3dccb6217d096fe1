// my_project: trains a classifier, on one process or on several that keep in step.
#include <muster/muster.h>

#include <cstdio>

#include "input.h"
#include "model.h"

using namespace muster;

namespace {

void train(const Flags& flags, const ModelOptions& options) {
  const Dataset training = training_data();
  const Dataset test = test_data();
  const InputFn train_input = [&] {
    return training.shuffle(training.cardinality())
        .repeat(flags.max_steps ? -1 : flags.epochs)
        .global_batch(flags.batch_size);
  };
  const InputFn test_input = [&] { return test.batch(500); };

  Estimator classifier(make_model_fn(options),
                       {.model_dir = flags.model_dir,
                        .random_seed = flags.seed,
                        .save_checkpoints_steps = flags.save_checkpoints_steps,
                        .train_distribute = distribute::multi_worker_mirrored(),
                        .trace = flags.trace});
  const auto result =
      train_and_evaluate(classifier, {.input_fn = train_input, .max_steps = flags.max_steps},
                         {.input_fn = test_input, .steps = std::nullopt});
  if (!result) return;  // the chief speaks for all

  // The trained model's predictions for one example.
  Predictions predictions = classifier.predict([&] { return test.take(1).batch(1); });
  const auto first = predictions.next();
  std::printf("the first test point is of class %d (probability %.2f)\n",
              static_cast<int>(first->at("class").item<int64_t>()),
              first->at("probability").item<double>());
  print_result(*result);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t hidden_units = 64;
  ProgramOptions options;
  options.description = "Trains a classifier of points.";
  options.examples =
      "Examples:\n"
      "  build/my_project --epochs=20\n"
      "  muster run --workers=2 -- build/my_project --model_dir=two\n"
      "The same command again continues where the last run stopped.";
  options.defaults = {.model_dir = "model",
                      .epochs = 20,
                      .batch_size = 100,
                      .learning_rate = 0.01,
                      .save_checkpoints_steps = 500};
  options.uses = {"model_dir",
                  "epochs",
                  "max_steps",
                  "batch_size",
                  "learning_rate",
                  "seed",
                  "save_checkpoints_steps",
                  "trace"};
  options.flags = {{"hidden_units", &hidden_units, "Width of the hidden layers", {.more_than = 0}}};
  return run_main(
      argc, argv,
      [&](const Flags& flags) {
        train(flags, {.hidden_units = hidden_units, .learning_rate = flags.learning_rate});
      },
      options);
}
