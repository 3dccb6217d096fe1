// A model without layers: it learns one image for each digit. The nearest image is the prediction.
#include <muster/muster.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

using namespace muster;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const Tensor& prototypes = context.variable(
      {.name = "prototypes", .shape = {10, 784}, .initializer = initializers::zeros()});
  const Tensor images = features["image"].flatten(1);                             // [batch, 784]
  const Tensor distances = (images.unsqueeze(1) - prototypes).square().mean(-1);  // [batch, 10]
  const Tensor nearest = distances.argmin(-1);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", nearest}});
  Tensor loss =
      losses::sparse_categorical_crossentropy(labels, distances.mul(-100), {.from_logits = true});
  if (mode == Mode::kEval) {
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, nearest)}});
  }
  const auto learning_rate = context.param<double>("learning_rate");
  auto adam = context.optimizer(optim::adam({.learning_rate = learning_rate}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Converts images to numbers, as the feature "image".
Element named(Tensor images, Tensor labels) {
  return Element::tuple({Element::dict({{"image", images.to(kFloat32) / 255}}), labels});
}

// Makes a batch a little lighter or darker. The same key makes the same change.
Element relit(const Features& batch, Tensor labels, RandomKey key) {
  Random random(key);
  const Tensor changed = batch["image"] + 0.05 * random.normal();
  return Element::tuple({Element::dict({{"image", changed}}), labels});
}

// Ends training when the average loss of about 50 steps is below `bound`.
class StopWhenGood : public Hook {
 public:
  explicit StopWhenGood(double bound) : bound_(bound) {}
  void after_step(const StepInfo& step) override {
    average_ = 0.98 * average_ + 0.02 * step.loss;
    if (average_ < bound_) step.control.request_stop();
  }

 private:
  double bound_;
  double average_ = 1;
};

void program(const Flags& flags) {
  const Dataset train = data::mnist(flags.data_dir, "train");
  const Dataset test = data::mnist(flags.data_dir, "test");
  const InputFn train_input = [&] {
    return train.shuffle(60000)
        .repeat(flags.epochs)
        .global_batch(flags.batch_size)
        .map(named)
        .map(relit);
  };
  Estimator classifier(
      model_fn,
      {.model_dir = flags.model_dir, .train_distribute = distribute::multi_worker_mirrored()},
      {{"learning_rate", flags.learning_rate}});
  const auto result = train_and_evaluate(
      classifier, {.input_fn = train_input, .hooks = {std::make_shared<StopWhenGood>(0.4)}},
      {.input_fn = [&] { return test.batch(1000).map(named); }, .steps = std::nullopt});
  if (result) print_result(*result);
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.uses = {"data_dir", "model_dir", "epochs", "batch_size", "learning_rate"}});
}
