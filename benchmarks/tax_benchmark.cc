// What an Estimator costs on one worker: Estimator::train compared with the loop it replaces, over
// the same model and the same data set. Once with the same layers, which isolates the Estimator,
// and once with LibTorch alone, which is what a user would write.
#include <fmt/format.h>

#include <cstdio>

#include "benchmarks/support/mnist_model.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

void run(Settings settings) {
  const auto way = [&](const char* name, const char* which) {
    settings.way = which;
    Contestant made = contestant(name, settings);
    made.same = "mnist";
    return made;
  };
  std::vector<Contestant> contestants{
      way("loop by hand, Muster's layers", kLayers),
      way("Estimator::train", kEstimator),
      way("loop by hand, LibTorch alone", kLibTorch),
  };
  if (!settings.beside.empty()) contestants.push_back(other_build(contestants[1], settings));
  // What a process keeps from its start to its end, such as the place of its memory, may change its
  // speed by as much as the tax: each sample is of new processes, so that samples are independent.
  const Plan plan = settings.quick ? Plan{.launches = 6, .pairs = 1, .turns = 2}
                                   : Plan{.launches = 40, .pairs = 1, .turns = 8};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("tax", "One worker: what the Estimator costs (batch 64, plain SGD)", results, 0,
              settings.json);
  const auto tax = [&](const char* clock, const Estimate& e) {
    fmt::print(
        "Tax by {}: {:+.2f} % (95 % interval {:+.2f} to {:+.2f} %); promised: below 0.5 %.\n",
        clock, 100 * (e.median - 1), 100 * (e.low - 1), 100 * (e.high - 1));
  };
  tax("wall clock", estimate_ratio(results[1].seconds, results[0].seconds));
  tax("CPU time", estimate_ratio(results[1].cpu, results[0].cpu));
  if (!settings.beside.empty()) print_speed_against(results[1], results[3]);
  fmt::print("{} pairs of {} steps, plain SGD in all of them.\n", plan.samples(),
             plan.steps_per_sample());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run);
}
