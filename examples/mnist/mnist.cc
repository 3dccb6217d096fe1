// Handwritten digits: a small convolutional network, trained and evaluated by an Estimator on one
// process or several.
//
// Expected: 98 % accuracy on MNIST, 88 % on Fashion-MNIST after 3 epochs, on any number of workers.
#include <fmt/format.h>
#include <muster/muster.h>

#include <nlohmann/json.hpp>

using namespace muster;

namespace {

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("cnn", [] {
    return Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(), Flatten(),
                       Dense(64, {.activation = activations::relu}), Dense(10)});
  });
  Tensor logits = model(features["image"]);
  if (mode == Mode::kPredict) {
    return EstimatorSpec::predict(
        {{"class", logits.argmax(-1)}, {"probability", std::get<0>(logits.softmax(-1).max(-1))}});
  }
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  const Metric accuracy = metrics::accuracy(labels, logits.argmax(-1));
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {{"accuracy", accuracy}});
  auto optimizer = context.optimizer(
      optim::sgd({.learning_rate = context.param<double>("learning_rate"), .momentum = 0.9}));
  return EstimatorSpec::train(loss, optimizer.minimize(loss), {{"accuracy", accuracy}});
}

// Bytes to numbers in [0, 1], a batch at a time.
Element to_features(Tensor images, Tensor labels) {
  return Element::tuple({Element::dict({{"image", images.to(kFloat32).mul_(1.0f / 255)}}), labels});
}

void write_predictions(Estimator& classifier, const InputFn& input_fn, const std::string& path) {
  std::string table = "index,class,probability\n";
  Predictions predictions = classifier.predict(input_fn, {.yield_single_examples = false});
  int64_t index = 0;
  while (const auto batch = predictions.next()) {
    for (int64_t row = 0; row < batch->at("class").size(0); ++row) {
      table += fmt::format("{},{},{:.6g}\n", index++, batch->at("class")[row].item<int64_t>(),
                           batch->at("probability")[row].item<float>());
    }
  }
  file_systems().write_atomically(path, table).value();
}

void program(const Flags& flags, const distribute::StrategyPtr& strategy, bool audit) {
  const Dataset train = data::mnist(flags.data_dir, "train");
  const Dataset test = data::mnist(flags.data_dir, "test");
  const int64_t examples = train.cardinality();
  const int64_t steps_per_epoch = (examples + flags.batch_size - 1) / flags.batch_size;
  const int64_t max_steps =
      flags.max_steps.value_or((flags.epochs * examples + flags.batch_size - 1) / flags.batch_size);

  const InputFn train_input = [&] {
    return train.shuffle(examples)
        .repeat(flags.max_steps ? -1 : flags.epochs)
        .global_batch(flags.batch_size)
        .map(to_features);
  };
  const InputFn test_input = [&] { return test.batch(1000).map(to_features); };

  Estimator classifier(
      model_fn,
      {.model_dir = flags.model_dir,
       .random_seed = flags.seed,
       .save_checkpoints_steps = flags.save_checkpoints_steps.value_or(steps_per_epoch),
       .train_distribute = strategy,
       .eval_distribute = strategy,
       .trace = flags.trace,
       .audit = audit},
      {{"learning_rate", flags.learning_rate}});
  const auto result =
      train_and_evaluate(classifier, {.input_fn = train_input, .max_steps = max_steps},
                         {.input_fn = test_input, .steps = std::nullopt});
  if (!result) return;  // the chief speaks for all

  const std::string predictions = classifier.model_dir() + "/predictions.csv";
  write_predictions(classifier, test_input, predictions);
  log::info("checkpoints and TensorBoard events: " + classifier.model_dir() +
            "  (evaluation: " + classifier.eval_dir() + ")");
  log::info("predictions for the test images: " + predictions);
  print_result(*result);
}

}  // namespace

int main(int argc, char** argv) {
  std::string strategy = "multi_worker";
  bool audit = false;
  return run_main(
      argc, argv,
      [&](const Flags& flags) { program(flags, distribute::strategy_by_name(strategy), audit); },
      {.description =
           "Trains a small convolutional network on MNIST, or any data set in its format.",
       .examples = "Examples:\n"
                   "  mnist --data_dir=data/mnist --model_dir=model --epochs=3\n"
                   "  muster run --workers=2 -- mnist --data_dir=data/mnist --model_dir=model\n"
                   "  mnist --data_dir=data/mnist --model_dir=model --strategy=mirrored:2\n"
                   "  muster run --chief --workers=2 --ps=2 -- mnist --data_dir=data/mnist "
                   "--model_dir=model --strategy=parameter_server\n"
                   "The same command again continues; with all steps done it evaluates.\n"
                   "A checkpoint is saved, and evaluated, after every epoch.\n",
       .defaults = {.data_dir = "data/mnist",
                    .model_dir = "mnist_model",
                    .epochs = 3,
                    .batch_size = 64,
                    .learning_rate = 0.03},
       .flags = {
           {"strategy", &strategy, "one_device, mirrored:N, multi_worker or parameter_server"},
           {"audit", &audit, "Record which examples were used, for muster audit"}}});
}
