// Tells handwritten digits apart: a model function, an input function and a main().
#include <muster/muster.h>

using namespace muster;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("digits", [] {
    return Sequential({Flatten(), Dense(128, {.activation = activations::relu}), Dense(10)});
  });
  Tensor logits = model(features);  // [batch, 10]
  Tensor classes = logits.argmax(-1);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", classes}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  const Metric accuracy = metrics::accuracy(labels, classes);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {{"accuracy", accuracy}});
  auto adam = context.optimizer(optim::adam({.learning_rate = 1e-3}));
  return EstimatorSpec::train(loss, adam.minimize(loss), {{"accuracy", accuracy}});
}

// Converts images from bytes to numbers from 0 to 1.
std::tuple<Tensor, Tensor> scale(Tensor images, Tensor labels) {
  return {images.to(kFloat32).div(255), labels};
}

void program(const Flags& flags) {
  const Dataset train = data::mnist(flags.data_dir, "train")
                            .shuffle(60000)
                            .repeat(flags.max_steps ? -1 : flags.epochs);
  const Dataset test = data::mnist(flags.data_dir, "test");
  const InputFn train_input = [&] { return train.global_batch(flags.batch_size).map(scale); };
  const InputFn test_input = [&] { return test.batch(1000).map(scale); };

  Estimator classifier(model_fn, {.model_dir = flags.model_dir,
                                  .random_seed = flags.seed,
                                  .save_checkpoints_steps = flags.save_checkpoints_steps,
                                  .train_distribute = distribute::multi_worker_mirrored(),
                                  .trace = flags.trace});
  const auto result =
      train_and_evaluate(classifier, {.input_fn = train_input, .max_steps = flags.max_steps},
                         {.input_fn = test_input, .steps = std::nullopt});
  if (result) print_result(*result);  // only the chief has a result
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.uses = {"data_dir", "model_dir", "epochs", "max_steps", "batch_size", "seed",
                            "save_checkpoints_steps", "trace"}});
}
