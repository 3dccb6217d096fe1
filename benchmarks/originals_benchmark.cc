// The model of examples/mnist on one core, by an Estimator, compared with TensorFlow's own
// Estimator, Keras 2.15 and 3, and PyTorch of today, eager and compiled: training examples a
// second, evaluations over 10,000 images, and predictions one by one. ./dev peers makes the peers;
// a missing one is left out, with a line.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "benchmarks/support/mnist_model.h"
#include "benchmarks/support/python_peer.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

struct Peer {
  std::string name, environment;
  std::vector<std::string> arguments;
  std::string keras_backend = "";
};

const std::vector<Peer> kPeers = {
    {"tf.estimator 2.15", "tensorflow", {"tensorflow_peer.py", "--task=mnist"}},
    {"Keras 2.15", "tensorflow", {"mnist_keras.py"}},
    {"Keras 3 on TensorFlow", "today", {"mnist_keras.py"}, "tensorflow"},
    {"Keras 3 on JAX", "today", {"mnist_keras.py"}, "jax"},
    {"Keras 3 on PyTorch", "today", {"mnist_keras.py"}, "torch"},
    {"PyTorch 2.15, eager, tuned", "today", {"mnist_torch.py", "--tuned"}},
    {"PyTorch 2.15, compiled", "today", {"mnist_torch.py", "--compile"}},
    {"PyTorch 2.15, tuned, compiled", "today", {"mnist_torch.py", "--tuned", "--compile"}},
};

// One comparison: what all of them do in a step.
struct Part {
  std::string name, way, way_of_peers, contestant, title;
  int64_t batch;  // of training
  int64_t rows;   // examples of a step
  Plan plan, quick;
};

const std::array kParts = {
    Part{"64",
         kEstimator,
         "train",
         "Muster, Estimator::train",
         "training the model of examples/mnist, batch 64",
         64,
         64,
         {.launches = 2, .pairs = 8, .turns = 2},
         {.launches = 1, .pairs = 6, .turns = 2}},
    Part{"256",
         kEstimator,
         "train",
         "Muster, Estimator::train",
         "training the model of examples/mnist, batch 256",
         256,
         256,
         {.launches = 2, .pairs = 8, .turns = 2},
         {.launches = 1, .pairs = 6, .turns = 1}},
    Part{"evaluate",
         kEvaluate,
         "evaluate",
         "Muster, Estimator::evaluate",
         "evaluating the model of examples/mnist over 10,000 images",
         64,
         10'000,
         {.launches = 2, .pairs = 8, .turns = 1, .steps = 5, .warm_up = 1, .lead_in = 1},
         {.launches = 1, .pairs = 6, .turns = 1, .steps = 2, .warm_up = 1, .lead_in = 1}},
    Part{"predict",
         kPredict,
         "predict",
         "Muster, Predictor",
         "one image at a time to its class, the model of examples/mnist",
         64,
         1,
         {.launches = 2, .pairs = 8, .turns = 2, .steps = 1000, .warm_up = 500},
         {.launches = 1, .pairs = 6, .turns = 2, .steps = 500, .warm_up = 500}}};

void measure(const Part& part, Settings settings) {
  settings.momentum = 0.9;
  settings.batch = part.batch;
  settings.way = part.way;
  std::vector<Contestant> contestants{contestant(part.contestant, settings)};
  for (const Peer& each : kPeers) {
    Contestant other = peer(each.name, each.arguments, settings);
    if (!in_environment(each.environment, &other)) continue;
    other.argv.push_back("--way=" + part.way_of_peers);
    if (!each.keras_backend.empty())
      other.environment.emplace_back("KERAS_BACKEND", each.keras_backend);
    contestants.push_back(std::move(other));
  }
  for (Contestant& each : contestants) each.rows = part.rows;
  compare_with_first("originals_" + part.name, part.title, contestants,
                     settings.quick ? part.quick : part.plan, settings.json);
}

void run(const Settings& settings) {
  bool known = settings.only.empty();
  for (const Part& part : kParts) {
    if (!settings.only.empty() && settings.only != part.name) continue;
    known = true;
    measure(part, settings);
  }
  if (!known)
    throw invalid_argument("--only=" + settings.only, "take 64, 256, evaluate or predict");
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run);
}
