// Training examples a second with the model of examples/mnist. On one core: an Estimator compared
// with a loop over LibTorch alone and with PyTorch, eager, as one usually writes it and tuned by
// hand. On two workers: an Estimator compared with DistributedDataParallel over Gloo.
#include <fmt/format.h>

#include <cstdio>

#include "benchmarks/support/mnist_model.h"
#include "muster/base/cpu_features.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

void compare_with_first(const std::vector<Result>& results, const char* promise) {
  for (size_t c = 1; c < results.size(); ++c) {
    const Estimate ratio = estimate_ratio(results[c].seconds, results[0].seconds);
    fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}){}.\n",
               results[c].contestant.name, ratio.median, ratio.low, ratio.high,
               c == 1 ? promise : "");
  }
}

void run_one_core(Settings settings, bool pytorch) {
  settings.way = kEstimator;
  std::vector<Contestant> contestants{contestant("Muster, Estimator::train", settings)};
  if (pytorch) {
    contestants.push_back(peer("PyTorch, tuned by hand", {"mnist_torch.py", "--tuned"}, settings));
    contestants.push_back(peer("PyTorch, as one writes it", {"mnist_torch.py"}, settings));
  }
  settings.way = kLibTorch;
  contestants.push_back(contestant("LibTorch alone, tuned by hand", settings));
  if (!settings.beside.empty()) contestants.push_back(other_build(contestants[0], settings));
  if (cpu_features().multiplies_bfloat16()) {
    settings.way = kEstimator;
    settings.precision = "bfloat16";
    contestants.push_back(contestant("Muster, mixed_precision(\"bfloat16\")", settings));
  }
  const Plan plan = settings.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2} : Plan{};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("mnist", "One core: training the model of examples/mnist (batch 64, momentum 0.9)",
              results, 1, settings.json);
  compare_with_first(results, pytorch ? "; promised: 1.6" : "");
  if (!cpu_features().multiplies_bfloat16()) {
    fmt::print("bfloat16 is not supported here: the processor has {}.\n", describe(cpu_features()));
  }
  fmt::print("{} samples of {} steps. All of them with mimalloc and OpenBLAS (OpenMP build).\n",
             plan.samples(), plan.steps_per_sample());
}

void run_two_workers(Settings settings) {
  settings.way = kEstimator;
  std::vector<Contestant> contestants{
      contestant("Muster, Estimator::train", settings),
      peer("PyTorch tuned by hand, DDP over Gloo", {"mnist_ddp.py"}, settings)};
  if (!settings.beside.empty()) contestants.push_back(other_build(contestants[0], settings));
  for (Contestant& contestant : contestants) {
    contestant.workers = 2;
    contestant.rows = 2 * settings.batch;
  }
  const Plan plan = settings.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2}
                                   : Plan{.launches = 3, .pairs = 7};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("mnist_two_workers", "Two workers of one thread: the same, 64 examples each", results,
              1, settings.json);
  compare_with_first(results, "");
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

void run(Settings settings) {
  settings.momentum = 0.9;
  const bool pytorch = has_pytorch();
  run_one_core(settings, pytorch);
  if (pytorch) run_two_workers(settings);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run);
}
