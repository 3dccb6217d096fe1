// A training loop written by hand, on one replica, on several of this process, or on the workers of
// a cluster: linear regression with one dense unit and Adam. The data set is described once, in
// batches over all replicas; each gets its share. So the numbers are the same on all of them,
// except for rounding. On parameter servers each worker goes through its share at its own pace, and
// each batch belongs to one worker.
//
// Expected: the weights 3 and -2 and the bias 1 from which the data was made, to a tenth.
#include <muster/muster.h>
#include <torch/types.h>

#include <cstdio>
#include <nlohmann/json.hpp>

using namespace muster;

namespace {

// y = 3 x0 - 2 x1 + 1, and a little noise.
Dataset points(int64_t count, uint64_t seed) {
  Tensor x = torch::empty({count, 2}), y = torch::empty({count, 1});
  auto in = x.accessor<float, 2>();
  auto out = y.accessor<float, 2>();
  Random random(derive_key(seed, {id_of("points")}));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < 2; ++j) in[i][j] = static_cast<float>(random.normal());
    out[i][0] = 3 * in[i][0] - 2 * in[i][1] + 1 + static_cast<float>(0.1 * random.normal());
  }
  return Dataset::from_tensor_slices(Element::tuple({x, y}));
}

void train(const Flags& flags, const std::string& name) {
  const auto strategy = distribute::strategy_by_name(name);
  const auto scope = strategy->scope({.seed = flags.seed});
  const Layer model = Dense(1);
  const auto adam = optim::adam({.learning_rate = flags.learning_rate});

  // The work of every replica with its part of a batch.
  const auto step = [&](const Features& x, const Labels& y) {
    adam.minimize(losses::mean_squared_error(y, model(x)));
  };
  const auto squared_error = [&](const Features& x, const Labels& y) {
    const Tensor& expected = y;
    return metrics::mean((model(x) - expected).square());
  };

  if (scope.serve(step)) return;  // a parameter server: until the run is over
  auto training = strategy->distribute(points(1000, 1).shuffle(1000).batch(flags.batch_size));
  // With a model_dir, the same command continues, on any number of replicas.
  if (!flags.model_dir.empty()) scope.restore(flags.model_dir);
  while (training.completed_passes() < flags.epochs) {
    double loss = 0;
    int64_t rows = 0;
    for (const auto& batch : training) {
      strategy->run(step, batch);
      loss += scope.last_step().loss * static_cast<double>(scope.last_step().rows);
      rows += scope.last_step().rows;
      if (scope.should_stop()) {  // Ctrl-C or SIGTERM, in any task
        if (!flags.model_dir.empty()) scope.save(flags.model_dir);
        scope.stop();
      }
    }
    if (scope.is_chief() && rows > 0)
      std::printf("epoch %2d  loss %.6f\n", static_cast<int>(training.completed_passes()),
                  loss / static_cast<double>(rows));
    if (!flags.model_dir.empty()) scope.save(flags.model_dir);
  }
  scope.end_training();  // on parameter servers others may still be at it

  // Each replica measures its share; together they have seen every row once. (On
  // parameter servers this is the chief's share.)
  Metric error = metrics::mean(torch::zeros({0}));
  for (const auto& batch : strategy->distribute(points(500, 2).batch(100))) {
    error.merge(strategy->reduce(strategy->run({.training = false}, squared_error, batch)));
  }
  if (!scope.is_chief()) return;
  const Tensor weights = scope.variable("dense/kernel");
  std::printf("y = %.3f x0 %+.3f x1 %+.3f\n", weights[0].item<double>(), weights[1].item<double>(),
              scope.variable("dense/bias").item<double>());
  print_result({{"global_step", static_cast<double>(scope.step())}, {"loss", error.result()}});
}

}  // namespace

int main(int argc, char** argv) {
  std::string strategy = "one_device";
  return run_main(argc, argv, [&](const Flags& flags) { train(flags, strategy); },
                  {.description = "Linear regression in a loop written by hand.",
                   .examples = "Examples:\n"
                               "  custom_loop\n"
                               "  custom_loop --strategy=mirrored:2 --model_dir=loop\n"
                               "  muster run --workers=2 -- custom_loop --strategy=multi_worker\n"
                               "  muster run --chief --workers=1 --ps=1 --restart=3 -- custom_loop "
                               "--strategy=parameter_server --model_dir=loop\n",
                   .defaults = {.epochs = 10, .batch_size = 50, .learning_rate = 0.05},
                   .uses = {"epochs", "batch_size", "learning_rate", "seed", "model_dir"},
                   .flags = {{"strategy", &strategy,
                              "one_device, mirrored:N, multi_worker or parameter_server"}}});
}
