// Two workers of one thread each: an Estimator with MultiWorkerMirrored, against two processes that
// train the same model and only meet at a barrier in shared memory after every step. They exchange
// nothing, so no pair that does can be faster by much: the ratio is the efficiency. The Estimator's
// own choice of transport on one machine is shared memory. PyTorch's DistributedDataParallel and
// TensorFlow's MultiWorkerMirroredStrategy are each compared with a bound of their own.
#include <fmt/format.h>

#include <cstdio>

#include "benchmarks/support/mnist_model.h"
#include "benchmarks/support/python_peer.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

constexpr int kWorkers = 2;

void run(Settings settings, bool pytorch) {
  settings.momentum = 0.9;
  std::vector<Contestant> contestants;
  std::vector<std::pair<size_t, size_t>> against;  // contestant and its bound
  const auto add = [&](Contestant made) {
    made.workers = kWorkers;
    made.rows = kWorkers * settings.batch;
    contestants.push_back(std::move(made));
    return contestants.size() - 1;
  };
  settings.way = kLayers;
  const size_t bound = add(contestant("Muster's layers, a barrier only", settings));
  settings.way = kEstimator;
  for (const auto& [transport, name] :
       {std::pair{"tcp", "Estimator, over TCP"}, std::pair{"auto", "Estimator, its own choice"}}) {
    settings.transport = transport;
    Contestant estimator = contestant(name, settings);
    estimator.same = "exchanged";
    against.emplace_back(add(std::move(estimator)), bound);
  }
  const size_t own = contestants.size() - 1;
  std::vector<std::pair<size_t, size_t>> builds;  // contestant, and the same of another build
  for (size_t i = 0; i < against.size() && !settings.beside.empty(); ++i) {
    const size_t who = against[i].first;
    builds.emplace_back(who, add(other_build(contestants[who], settings)));
  }
  // A peer that exchanges gradients, and its own bound.
  const auto add_with_bound = [&](const std::string& environment, const std::string& name,
                                  const std::vector<std::string>& silent,
                                  const std::string& exchanging_name,
                                  const std::vector<std::string>& exchanging) {
    Contestant limit = peer(name + ", a barrier only", silent, settings);
    if (!environment.empty() && !in_environment(environment, &limit)) return;
    Contestant who = peer(name + ", " + exchanging_name, exchanging, settings);
    if (!environment.empty() && !in_environment(environment, &who)) return;
    const size_t peer_bound = add(std::move(limit));
    against.emplace_back(add(std::move(who)), peer_bound);
  };
  const std::vector<std::string> silent{"mnist_ddp.py", "--barrier"}, ddp{"mnist_ddp.py"};
  if (pytorch) add_with_bound("", "PyTorch tuned", silent, "DDP over Gloo", ddp);
  add_with_bound("today", "PyTorch 2.15 tuned", silent, "DDP over Gloo", ddp);
  if (settings.model == "cnn") {
    add_with_bound("tensorflow", "tf.estimator 2.15", {"tensorflow_cluster.py", "--way=barrier"},
                   "MultiWorkerMirroredStrategy", {"tensorflow_cluster.py", "--way=mirrored"});
  }
  // Steps of larger batches and models take longer; the samples are to last as long.
  const bool mlp = settings.model == "mlp";
  const int steps = mlp ? 4 : settings.batch > 64 ? 15 : 50;
  // Where memory happens to lie is worth some percent between two builds: many launches, few
  // samples of each.
  Plan plan = settings.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = steps}
                             : Plan{.launches = 7, .pairs = 3, .steps = steps};
  if (mlp) plan = {.launches = 1, .pairs = 7, .turns = 2, .steps = steps, .warm_up = 10};
  const double promised = mlp ? 95 : 98;
  const std::vector<Result> results = compare(contestants, plan);
  print_table(fmt::format("workers_{}_{}", settings.model, settings.batch),
              fmt::format("Two workers of one thread, {} examples a step each{}", settings.batch,
                          mlp ? ", a network of 25 million weights" : ""),
              results, bound, settings.json);
  for (const auto& [who, limit] : against) {
    const Estimate e = estimate_ratio(results[limit].seconds, results[who].seconds);
    fmt::print("{}: {:.1f} % of \"{}\" (95 % interval {:.1f} to {:.1f} %){}.\n",
               results[who].contestant.name, 100 * e.median, results[limit].contestant.name,
               100 * e.low, 100 * e.high,
               limit == bound ? fmt::format("; promised: {:g} %", promised) : "");
  }
  for (const auto& [who, limit] : against) {
    if (limit != bound) print_speed_against(results[own], results[who]);
  }
  for (const auto& [who, other] : builds) print_speed_against(results[who], results[other]);
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
  std::fflush(stdout);
}

void run_all(Settings settings) {
  const bool pytorch = has_pytorch();
  const auto wanted = [&](const char* part) {
    return settings.only.empty() || settings.only == part;
  };
  if (!wanted("64") && !wanted("256") && !wanted("mlp"))
    throw invalid_argument("--only=" + settings.only, "take 64, 256 or mlp");
  for (const int64_t batch : {64, 256}) {
    settings.batch = batch;
    if (wanted(batch == 64 ? "64" : "256")) run(settings, pytorch);
  }
  settings.model = "mlp";
  settings.batch = 64;
  if (wanted("mlp")) run(settings, pytorch);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run_all);
}
