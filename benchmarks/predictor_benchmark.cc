// One example at a time: a Predictor, of an exported model and of a checkpoint, compared with a
// bare forward() of the same TorchScript module; one thread, taking turns in one process. Prints
// the middle and the slowest hundredth of the answers in microseconds, and their ratios, which are
// taken round by round.
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/predictor.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/model_context.h"

namespace muster {
namespace {

constexpr int64_t kFeatures = 64;
constexpr int kRounds = 30, kRequests = 2000;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const Tensor logits = context.model("net", [] {
    return Sequential({Dense(256, {.activation = activations::relu}),
                       Dense(256, {.activation = activations::relu}), Dense(10)});
  })(features["x"]);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
}

Dataset rows() {
  Tensor x = torch::empty({64, kFeatures});
  Random random(derive_key(1, {id_of("rows")}));
  for (int64_t i = 0; i < x.numel(); ++i) x.data_ptr<float>()[i] = random.uniform_float();
  return Dataset::from_tensor_slices(
      Element::tuple({Element::dict({{"x", x}}), torch::arange(64).remainder(10)}));
}

struct Contestant {
  std::string name;
  std::function<Tensor()> ask;
  std::vector<double> middle{}, slow{};  // microseconds, one of each round
};

double quantile(std::vector<double>& values, double q) {
  const auto place = values.begin() + static_cast<int64_t>(q * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

void ask(Contestant& contestant) {
  std::vector<double> times;
  times.reserve(kRequests);
  for (int i = 0; i < kRequests + 50; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Tensor answer = contestant.ask();
    const auto end = std::chrono::steady_clock::now();
    if (i >= 50) times.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  contestant.middle.push_back(quantile(times, 0.5));
  contestant.slow.push_back(quantile(times, 0.99));
}

// The middle of a[i] / b[i].
double ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return quantile(ratios, 0.5);
}

void run() {
  set_threads(1);
  const TempDirectory directory;
  Estimator estimator(model_fn, {.model_dir = directory / "model", .progress_line = false});
  estimator.train([] { return rows().batch(32); });
  const std::string folder =
      estimator
          .export_model(directory / "export",
                        raw_serving_input_receiver({{"x", {kFloat32, {kFeatures}}}}))
          .value();
  const Predictor exported(folder), checkpoint(estimator);
  torch::jit::Module module = torch::jit::load(folder + "/model.pt");
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::rand({1, kFeatures});
  std::vector<Contestant> contestants(3);
  contestants[0] = {"TorchScript, bare forward()", [&] {
                      const c10::IValue given = module.forward({x});
                      return given.toGenericDict().at("logits").toTensor();
                    }};
  contestants[1] = {"Predictor of an exported model", [&] {
                      return exported.predict_batch({{"x", x}}).at("logits");
                    }};
  contestants[2] = {"Predictor of a checkpoint", [&] {
                      return checkpoint.predict_batch({{"x", x}}).at("logits");
                    }};
  for (const Contestant& each : contestants) {
    if (!each.ask().allclose(contestants[0].ask(), 1e-4, 1e-5))
      throw internal_error(each.name + " computes something else");
  }
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i)
      ask(contestants[(i + static_cast<size_t>(round)) % contestants.size()]);
  }
  fmt::print("### One example of {} features through two layers of 256\n\n", kFeatures);
  fmt::print("| | p50, us | p99, us | p50 ratio | p99 ratio |\n|---|---|---|---|---|\n");
  for (Contestant& each : contestants) {
    const double middle = ratio(each.middle, contestants[0].middle);
    const double slow = ratio(each.slow, contestants[0].slow);
    fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} | {:.2f} |\n", each.name,
               quantile(each.middle, 0.5), quantile(each.slow, 0.5), middle, slow);
  }
  fmt::print("\n{} rounds of {} requests.\n", kRounds, kRequests);
}

}  // namespace
}  // namespace muster

int main() {
  try {
    muster::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
