// How much of the reduction of gradients runs during backward: two workers on two hosts, the
// network namespaces of benchmarks/network.sh, with a link of 1 Gbit/s between them. The same
// network of like layers is trained three times: by workers that exchange nothing, by an Estimator
// that reduces all gradients at once when backward is over, and by one that reduces each as soon as
// it is there. The second takes as much longer than the first as the reduction costs; the third
// wins back what it hides.
//
// What can be hidden is what is there before backward ends: all but the gradient of the first
// layer, and at most backward lasts, two thirds of a step that exchanges nothing (it
// multiplies twice as much as forward).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "benchmarks/support/mnist_model.h"

namespace muster::bench {
namespace {

constexpr double kFirstLayer = 784 * 1024 + 1024;
constexpr double kWeights = kFirstLayer + 9 * (1024 * 1024 + 1024) + 1024 * 10 + 10;

void run(Settings settings, bool pytorch) {
  settings.model = "tower";
  settings.momentum = 0.9;
  const std::vector<Host> hosts = {
      {"10.7.7.1", "here", {}},
      {"10.7.7.2", "there", {"/usr/bin/env", "ip", "netns", "exec", "other"}}};
  std::vector<Contestant> contestants;
  const auto add = [&](Contestant made) {
    made.workers = static_cast<int>(hosts.size());
    made.rows = made.workers * settings.batch;
    made.hosts = hosts;
    contestants.push_back(std::move(made));
    return contestants.size() - 1;
  };
  settings.way = kLayers;
  const size_t nothing = add(contestant("Muster's layers, a barrier only", settings));
  settings.way = kEstimator;
  settings.transport = "tcp";
  settings.overlap = false;
  const size_t after = add(contestant("Estimator, gradients reduced after backward", settings));
  settings.overlap = true;
  const size_t during = add(contestant("Estimator, gradients reduced as they come", settings));
  contestants[after].same = contestants[during].same = "exchanged";
  if (pytorch) {
    add(peer("PyTorch tuned, a barrier only", {"mnist_ddp.py", "--barrier"}, settings));
    add(peer("PyTorch tuned, DDP over Gloo", {"mnist_ddp.py"}, settings));
  }
  const Plan plan = settings.quick
                        ? Plan{.launches = 1, .pairs = 3, .turns = 1, .steps = 3, .warm_up = 5}
                        : Plan{.launches = 1, .pairs = 7, .turns = 1, .steps = 6, .warm_up = 10};
  const std::vector<Result> results = compare(contestants, plan);
  print_table(fmt::format("overlap_{}", settings.batch),
              fmt::format("Two workers on two hosts, a link of 1 Gbit/s, {} examples a step each, "
                          "{:.1f} million weights",
                          settings.batch, 1e-6 * kWeights),
              results, nothing, settings.json);

  std::vector<double> reductions, hidden;
  for (size_t i = 0; i < results[nothing].seconds.size(); ++i) {
    const double alone = results[nothing].seconds[i];
    const double reduction = results[after].seconds[i] - alone;
    const double won = results[after].seconds[i] - results[during].seconds[i];
    reductions.push_back(1e3 * reduction);
    hidden.push_back(1e3 * won);
  }
  const Estimate cost = estimate(reductions), won = estimate(hidden);
  const double alone = quantile(results[nothing].seconds, 0.5);
  const double possible = std::min(1e3 * alone * 2 / 3, cost.median * (1 - kFirstLayer / kWeights));
  fmt::print(
      "The reduction costs {:.0f} ms a step ({:.0f} to {:.0f}), of which {:.0f} ms are "
      "hidden ({:.0f} to {:.0f}), {:.0f} % of the {:.0f} ms that can be; promised: 80 %.\n",
      cost.median, cost.low, cost.high, won.median, won.low, won.high, 100 * won.median / possible,
      possible);
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
  std::fflush(stdout);
}

// Backward is shorter than the reduction, about as long, and longer.
void run_all(Settings settings) {
  const bool pytorch = has_pytorch();
  for (const int64_t batch : {512, 1024, 2048}) {
    settings.batch = batch;
    run(settings, pytorch && batch == 512);
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run_all);
}
