// The cost of summaries: Estimator::train with 20 scalars of the model function every 10 steps,
// compared with the same training without any.
#include <fmt/format.h>

#include <cstdio>

#include "benchmarks/support/mnist_model.h"

namespace muster::bench {
namespace {

void run(Settings settings) {
  const auto with = [&](const char* name, int64_t scalars) {
    settings.way = kEstimator;
    settings.scalars = scalars;
    Contestant made = contestant(name, settings);
    made.same = "mnist";
    return made;
  };
  const std::vector<Contestant> contestants{with("no summaries", 0),
                                            with("20 scalars every 10 steps", 20)};
  const Plan plan =
      settings.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2} : Plan{.launches = 4};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("summaries", "One worker: what summaries cost (batch 64, plain SGD)", results, 0,
              settings.json);
  const auto cost = [&](const char* clock, const Estimate& e) {
    fmt::print(
        "Summaries by {}: {:+.2f} % (95 % interval {:+.2f} to {:+.2f} %); promised: below 1 %.\n",
        clock, 100 * (e.median - 1), 100 * (e.low - 1), 100 * (e.high - 1));
  };
  cost("wall clock", estimate_ratio(results[1].seconds, results[0].seconds));
  cost("CPU time", estimate_ratio(results[1].cpu, results[0].cpu));
  fmt::print("{} pairs of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run);
}
