// Handwritten digits by a cluster coordinator: the chief schedules steps and evaluations, workers
// make them, parameter servers hold the weights. A worker may come and go at any time.
//
// Expected: 99 % accuracy on the digits of `muster data digits` after 3 epochs, on any number of
// workers, and without a cluster in this process alone.
#include <muster/muster.h>

#include <cstdio>

using namespace muster;

namespace {

// Bytes to numbers in [0, 1], a batch at a time.
std::tuple<Tensor, Tensor> to_numbers(Tensor images, Tensor labels) {
  return {images.to(kFloat32).mul_(1.0f / 255), labels};
}

void program(const Flags& flags) {
  distribute::ClusterCoordinator coordinator(distribute::parameter_server(),
                                             {.seed = flags.seed, .model_dir = flags.model_dir});

  // Every task describes the same; the chief decides which worker computes what.
  const Layer model =
      Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(), Flatten(),
                  Dense(64, {.activation = activations::relu}), Dense(10)});
  const auto adam = optim::adam({.learning_rate = flags.learning_rate});
  const auto images = coordinator.create_per_worker_dataset("train", [&](const InputContext&) {
    const Dataset train = data::mnist(flags.data_dir, "train");
    return train.shuffle(train.cardinality()).repeat().batch(flags.batch_size).map(to_numbers);
  });
  const auto step =
      coordinator.define("step",
                         [&](const distribute::RemoteCall& call) -> std::vector<Tensor> {
                           const Tensor logits = model(call.batch().features);
                           const Tensor loss = losses::sparse_categorical_crossentropy(
                               call.batch().labels, logits, {.from_logits = true});
                           adam.minimize(loss);
                           return {loss};
                         },
                         {.training = true, .data = images});
  // How many of the test images [from, to) it gets right.
  const auto correct =
      coordinator.define("correct", [&](const distribute::RemoteCall& call) -> std::vector<Tensor> {
        const auto from = call.arguments()[0].item<int64_t>();
        const auto count = call.arguments()[1].item<int64_t>();
        auto test = data::mnist(flags.data_dir, "test").skip(from).take(count).batch(count);
        const auto element = test.map(to_numbers).iterator()->next();
        if (!element) return {torch::zeros({})};
        const Batch batch = to_batch(*element);
        const Tensor& labels = batch.labels;
        return {model(batch.features).argmax(-1).eq(labels).sum()};
      });
  if (coordinator.serve()) return;  // a worker or a server: until the chief is through

  const int64_t examples = data::mnist(flags.data_dir, "train").cardinality();
  const int64_t steps_per_epoch = (examples + flags.batch_size - 1) / flags.batch_size;
  for (int64_t epoch = coordinator.step() / steps_per_epoch; epoch < flags.epochs; ++epoch) {
    std::vector<distribute::RemoteValue> losses;
    for (int64_t made = coordinator.step(); made < (epoch + 1) * steps_per_epoch; ++made)
      losses.push_back(coordinator.schedule(step));
    coordinator.join();
    double sum = 0;
    for (const auto& loss : losses) sum += coordinator.fetch(loss).at(0).item<double>();
    std::printf("epoch %d  loss %.4f\n", static_cast<int>(epoch + 1),
                sum / static_cast<double>(losses.size()));
    std::fflush(stdout);
    coordinator.save({.asynchronous = epoch + 1 < flags.epochs});
  }

  // The test images in parts, which workers see at the same time.
  const int64_t tests = data::mnist(flags.data_dir, "test").cardinality(), part = 100;
  std::vector<distribute::RemoteValue> parts;
  for (int64_t from = 0; from < tests; from += part)
    parts.push_back(coordinator.schedule(correct, {torch::tensor(from), torch::tensor(part)}));
  double right = 0;
  for (const auto& value : parts) right += coordinator.fetch(value).at(0).item<double>();
  print_result({{"global_step", static_cast<double>(coordinator.step())},
                {"accuracy", right / static_cast<double>(tests)}});
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(
      argc, argv, program,
      {.description = "Digits by a chief that schedules steps, and workers that make them.",
       .examples = "Examples:\n"
                   "  scheduled_digits --data_dir=digits\n"
                   "  muster run --chief --workers=2 --ps=1 --restart=3 -- scheduled_digits "
                   "--data_dir=digits --model_dir=model\n",
       .defaults = {.data_dir = "data/mnist",
                    .model_dir = "scheduled_digits_model",
                    .epochs = 3,
                    .batch_size = 64,
                    .learning_rate = 0.002},
       .uses = {"data_dir", "model_dir", "epochs", "batch_size", "learning_rate", "seed"}});
}
