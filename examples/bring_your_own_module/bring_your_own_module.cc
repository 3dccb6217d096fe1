// A net written for LibTorch, as it was, trained by an Estimator on one process or several.
//
// Expected: 99 % accuracy on the digits of `muster data digits` after one epoch, on any number of
// workers.
#include <muster/muster.h>
#include <muster/torch.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

using namespace muster;

// Nothing of Muster in here: images are [batch, channel, height, width], as LibTorch has them.
struct Net : torch::nn::Module {
  explicit Net(double dropout)
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 16, 3))),
        norm(register_module("norm", torch::nn::BatchNorm2d(16))),
        conv2(register_module("conv2", torch::nn::Conv2d(16, 32, 3))),
        drop(register_module("drop", torch::nn::Dropout(dropout))),
        fc(register_module("fc", torch::nn::Linear(32 * 5 * 5, 10))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return fc(drop(x.flatten(1)));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm;
  torch::nn::Conv2d conv2;
  torch::nn::Dropout drop;
  torch::nn::Linear fc;
};

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto net = torch_module<Net>(context, "net", /*dropout=*/0.25);
  Tensor logits = net->forward(features);
  Tensor classes = logits.argmax(-1);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", classes}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  const Metric accuracy = metrics::accuracy(labels, classes);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {{"accuracy", accuracy}});
  const auto learning_rate = context.param<double>("learning_rate");
  auto adam = context.optimizer(optim::adam({.learning_rate = learning_rate}));
  return EstimatorSpec::train(loss, adam.minimize(loss), {{"accuracy", accuracy}});
}

// Bytes [batch, 28, 28, 1] to numbers [batch, 1, 28, 28] from 0 to 1.
std::tuple<Tensor, Tensor> to_nchw(Tensor images, Tensor labels) {
  return {images.permute({0, 3, 1, 2}).to(kFloat32).div(255), labels};
}

void program(const Flags& flags) {
  const Dataset train = data::mnist(flags.data_dir, "train")
                            .shuffle(60000)
                            .repeat(flags.max_steps ? -1 : flags.epochs);
  const Dataset test = data::mnist(flags.data_dir, "test");
  const InputFn train_input = [&] { return train.global_batch(flags.batch_size).map(to_nchw); };
  const InputFn test_input = [&] { return test.batch(1000).map(to_nchw); };

  Estimator classifier(model_fn,
                       {.model_dir = flags.model_dir,
                        .random_seed = flags.seed,
                        .save_checkpoints_steps = flags.save_checkpoints_steps,
                        .train_distribute = distribute::multi_worker_mirrored(),
                        .trace = flags.trace},
                       {{"learning_rate", flags.learning_rate}});
  const auto result =
      train_and_evaluate(classifier, {.input_fn = train_input, .max_steps = flags.max_steps},
                         {.input_fn = test_input, .steps = std::nullopt});
  if (result) print_result(*result);  // only the chief has a result
}

int main(int argc, char** argv) {
  return run_main(
      argc, argv, program,
      {.description = "Trains a module of LibTorch on MNIST, or any data set in its format.",
       .examples = "Examples:\n"
                   "  muster data digits --out digits\n"
                   "  bring_your_own_module --data_dir=digits --model_dir=model\n"
                   "  muster run --workers=2 -- bring_your_own_module "
                   "--data_dir=digits --model_dir=model\n",
       .defaults = {.data_dir = "digits",
                    .model_dir = "own_module_model",
                    .batch_size = 64,
                    .learning_rate = 1e-3}});
}
