// Training examples a second with the model of examples/mnist on one core: by an Estimator,
// compared with TensorFlow's own Estimator, Keras 2.15 and 3, and PyTorch of today, eager and
// compiled. The peers are what ./dev peers makes; one that is not there is left out, with a line.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "benchmarks/support/mnist_model.h"
#include "benchmarks/support/python_peer.h"

namespace muster::bench {
namespace {

struct Peer {
  std::string name, environment;
  std::vector<std::string> arguments;
  std::string keras_backend = "";
};

const std::vector<Peer> kPeers = {
    {"tf.estimator 2.15", "tensorflow", {"tensorflow_peer.py", "--task=mnist", "--api=estimator"}},
    {"Keras 2.15", "tensorflow", {"tensorflow_peer.py", "--task=mnist", "--api=keras"}},
    {"Keras 3 on TensorFlow", "today", {"mnist_keras.py"}, "tensorflow"},
    {"Keras 3 on JAX", "today", {"mnist_keras.py"}, "jax"},
    {"Keras 3 on PyTorch", "today", {"mnist_keras.py"}, "torch"},
    {"PyTorch 2.15, eager, tuned", "today", {"mnist_torch.py", "--tuned"}},
    {"PyTorch 2.15, compiled", "today", {"mnist_torch.py", "--compile"}},
    {"PyTorch 2.15, tuned, compiled", "today", {"mnist_torch.py", "--tuned", "--compile"}},
};

void run_batch(Settings settings) {
  settings.way = kEstimator;
  std::vector<Contestant> contestants{contestant("Muster, Estimator::train", settings)};
  for (const Peer& each : kPeers) {
    Contestant other = peer(each.name, each.arguments, settings);
    if (!in_environment(each.environment, &other)) continue;
    if (!each.keras_backend.empty())
      other.environment.emplace_back("KERAS_BACKEND", each.keras_backend);
    contestants.push_back(std::move(other));
  }
  const Plan plan = settings.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2}
                                   : Plan{.launches = 2, .pairs = 8, .turns = 2};
  const std::vector<Result> results = compare(contestants, plan);
  print_table(
      fmt::format("originals_{}", settings.batch),
      fmt::format("One core: training the model of examples/mnist, batch {}", settings.batch),
      results, 0, settings.json);
  for (size_t c = 1; c < results.size(); ++c) {
    const Estimate ratio = estimate_ratio(results[c].seconds, results[0].seconds);
    fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}).\n",
               results[c].contestant.name, ratio.median, ratio.low, ratio.high);
  }
  print_memory(fmt::format("originals_{}", settings.batch), "Peak memory", results, 0,
               settings.json);
}

void run(Settings settings) {
  settings.momentum = 0.9;
  for (const int64_t batch : {64, 256}) {
    settings.batch = batch;
    run_batch(settings);
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run);
}
