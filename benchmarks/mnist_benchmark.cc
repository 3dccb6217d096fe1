// Training examples a second on one core: the model of examples/mnist by an Estimator, beside the
// same model in PyTorch, eager, as one writes it and tuned by hand.
#include <fmt/format.h>

#include <cstdio>

#include "benchmarks/support/mnist_model.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

void run(Settings settings) {
  settings.momentum = 0.9;
  settings.way = kEstimator;
  std::vector<Contestant> contestants{contestant("Muster, Estimator::train", settings)};
  if (has_pytorch()) {
    contestants.push_back(peer("PyTorch, tuned by hand", {"mnist_torch.py", "--tuned"}, settings));
    contestants.push_back(peer("PyTorch, as one writes it", {"mnist_torch.py"}, settings));
  }
  const Plan plan = settings.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2} : Plan{};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("mnist", "One core: training the model of examples/mnist (batch 64, momentum 0.9)",
              results, results.size() > 1 ? 1 : 0, settings.json);
  for (size_t c = 1; c < results.size(); ++c) {
    const Estimate ratio = estimate_ratio(results[c].seconds, results[0].seconds);
    fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}){}.\n",
               results[c].contestant.name, ratio.median, ratio.low, ratio.high,
               c == 1 ? "; promised: 1.6" : "");
  }
  fmt::print("{} samples of {} steps. All of them with mimalloc and OpenBLAS (OpenMP build).\n",
             plan.samples(), plan.steps_per_sample());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  try {
    const auto settings = muster::bench::parse(argc, argv);
    if (!muster::bench::took_part(settings)) muster::bench::run(settings);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
