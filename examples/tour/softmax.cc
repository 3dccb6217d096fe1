// Learns handwritten digits on one process or on several: the program of README.md.
#include <muster/muster.h>

using namespace muster;

EstimatorSpec model_fn(const Features& images, const Labels& labels, Mode, ModelContext& context) {
  auto model = context.model("digits", [] {
    return Sequential({Rescaling(1.0 / 255), Flatten(), Dense(10)});
  });
  Tensor loss =
      losses::sparse_categorical_crossentropy(labels, model(images), {.from_logits = true});
  auto adam = context.optimizer(optim::adam({.learning_rate = 1e-3}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

void program(const Flags& flags) {
  const Dataset digits = data::mnist(flags.data_dir, "train").shuffle(60000).repeat();
  Estimator classifier(model_fn, {.model_dir = flags.model_dir,
                                  .train_distribute = distribute::multi_worker_mirrored()});
  classifier.train([&] { return digits.global_batch(64); }, {.max_steps = 1000});
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program, {.uses = {"data_dir", "model_dir"}});
}
