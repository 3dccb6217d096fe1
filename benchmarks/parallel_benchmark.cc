// A loop over LibTorch's own modules through data_parallel(). On one worker it is compared with the
// same loop alone. On two it is compared with two processes that train the same and only meet at a
// barrier in shared memory after every step, and with DistributedDataParallel of today's PyTorch
// over Gloo, which has a bound of its own. --only=hosts is for benchmarks/network.sh: two hosts
// with a link of 1 Gbit/s between them, where backward hides a part of the reduction.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "benchmarks/support/mnist_model.h"
#include "benchmarks/support/python_peer.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

constexpr double kTowerFirstLayer = 784 * 1024 + 1024;
constexpr double kTowerWeights = kTowerFirstLayer + 9 * (1024 * 1024 + 1024) + 1024 * 10 + 10;

std::string title_of(const Settings& settings) {
  const char* model = settings.model == "mlp"     ? "a network of 25 million weights"
                      : settings.model == "tower" ? "a network of 10 million weights"
                                                  : "the model of examples/mnist";
  return fmt::format("a loop of LibTorch, {}, {} examples a step each", model, settings.batch);
}

class Contest {
 public:
  explicit Contest(Settings settings) : settings_(std::move(settings)) {}

  size_t add(const std::string& name, const std::string& way, int workers, bool overlap = true,
             const std::string& same = "") {
    settings_.way = way;
    settings_.overlap = overlap;
    Contestant made = contestant(name, settings_);
    made.same = same;
    return add(std::move(made), workers);
  }
  // DistributedDataParallel of today's PyTorch, and its own barrier; false without its environment.
  bool add_ddp(int workers) {
    Contestant ddp = peer("PyTorch 2.15 tuned, DDP over Gloo", {"mnist_ddp.py"}, settings_);
    Contestant silent =
        peer("PyTorch 2.15 tuned, a barrier only", {"mnist_ddp.py", "--barrier"}, settings_);
    if (!in_environment("today", &ddp) || !in_environment("today", &silent)) return false;
    add(std::move(ddp), workers);
    add(std::move(silent), workers);
    return true;
  }
  void set_hosts(std::vector<Host> hosts) { hosts_ = std::move(hosts); }

  // The table; speed is against contestant `reference`.
  const std::vector<Result>& compare_all(const std::string& name, const std::string& title,
                                         const Plan& plan, size_t reference) {
    results_ = compare(contestants_, plan);
    print_table(name, title, results_, reference, settings_.json);
    print_memory(name + "_memory", "The most memory of all processes: " + title, results_,
                 reference, settings_.json);
    return results_;
  }
  void print_share(size_t who, size_t limit, const char* target) const {
    const Estimate e = estimate_ratio(results_[limit].seconds, results_[who].seconds);
    const Estimate cpu = estimate_ratio(results_[limit].cpu, results_[who].cpu);
    fmt::print(
        "{}: {:.1f} % of the speed of \"{}\" (95 % interval {:.1f} to {:.1f} %), by CPU time "
        "{:.1f} % ({:.1f} to {:.1f} %){}.\n",
        results_[who].contestant.name, 100 * e.median, results_[limit].contestant.name, 100 * e.low,
        100 * e.high, 100 * cpu.median, 100 * cpu.low, 100 * cpu.high, target);
  }

 private:
  size_t add(Contestant made, int workers) {
    made.workers = workers;
    made.rows = workers * settings_.batch;
    made.hosts = hosts_;
    contestants_.push_back(std::move(made));
    return contestants_.size() - 1;
  }

  Settings settings_;
  std::vector<Host> hosts_;
  std::vector<Contestant> contestants_;
  std::vector<Result> results_;
};

Plan plan_of(const Settings& settings) {
  if (settings.model == "mlp")
    return {.launches = 1, .pairs = settings.quick ? 6 : 12, .turns = 2, .steps = 4, .warm_up = 10};
  return settings.quick ? Plan{.launches = 3, .pairs = 4, .turns = 4}
                        : Plan{.launches = 7, .pairs = 6, .turns = 4};
}

void run_alone(const Settings& settings) {
  Contest contest(settings);
  const size_t through = contest.add("data_parallel()", kDataParallel, 1, true, "alone");
  const size_t alone = contest.add("the loop alone", kLibTorch, 1, true, "alone");
  const Plan plan = plan_of(settings);
  contest.compare_all("parallel_alone_" + settings.model, "One worker: " + title_of(settings), plan,
                      alone);
  contest.print_share(through, alone, "; aim: 99.5 %");
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

void run_workers(const Settings& settings) {
  Contest contest(settings);
  const size_t through = contest.add("data_parallel()", kDataParallel, 2);
  const size_t barrier = contest.add("the loop alone, a barrier only", kLibTorch, 2);
  const bool ddp = contest.add_ddp(2);
  const Plan plan = plan_of(settings);
  const auto& results =
      contest.compare_all(fmt::format("parallel_{}_{}", settings.model, settings.batch),
                          "Two workers of one thread: " + title_of(settings), plan, barrier);
  contest.print_share(through, barrier, "; aim: 98 %");
  if (ddp) {
    contest.print_share(2, 3, "");
    print_speed_against(results[through], results[2]);
  }
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

// As overlap_benchmark measures an Estimator.
void run_hosts(const Settings& settings) {
  Contest contest(settings);
  contest.set_hosts({{"10.7.7.1", "here", {}},
                     {"10.7.7.2", "there", {"/usr/bin/env", "ip", "netns", "exec", "other"}}});
  const size_t nothing = contest.add("the loop alone, a barrier only", kLibTorch, 2);
  const size_t after = contest.add("data_parallel(), gradients reduced after backward",
                                   kDataParallel, 2, false, "exchanged");
  const size_t during = contest.add("data_parallel(), gradients reduced as they come",
                                    kDataParallel, 2, true, "exchanged");
  const bool ddp = contest.add_ddp(2);
  const Plan plan{
      .launches = 1, .pairs = settings.quick ? 4 : 7, .turns = 1, .steps = 4, .warm_up = 8};
  const auto& results =
      contest.compare_all(fmt::format("parallel_hosts_{}", settings.batch),
                          "Two hosts, a link of 1 Gbit/s: " + title_of(settings), plan, nothing);
  std::vector<double> cost, won;
  for (size_t i = 0; i < results[nothing].seconds.size(); ++i) {
    cost.push_back(1e3 * (results[after].seconds[i] - results[nothing].seconds[i]));
    won.push_back(1e3 * (results[after].seconds[i] - results[during].seconds[i]));
  }
  const Estimate reduction = estimate(cost), hidden = estimate(won);
  // Backward is two thirds of a step, and the first layer's gradient comes at its end.
  const double possible = std::min(1e3 * quantile(results[nothing].seconds, 0.5) * 2 / 3,
                                   reduction.median * (1 - kTowerFirstLayer / kTowerWeights));
  fmt::print(
      "The reduction costs {:.0f} ms a step ({:.0f} to {:.0f}), of which {:.0f} ms are hidden "
      "({:.0f} "
      "to {:.0f}), {:.0f} % of the {:.0f} ms that can be; aim: 80 %.\n",
      reduction.median, reduction.low, reduction.high, hidden.median, hidden.low, hidden.high,
      100 * hidden.median / possible, possible);
  if (ddp) print_speed_against(results[during], results[3]);
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

void run_all(Settings settings) {
  settings.momentum = 0.9;
  const auto wanted = [&](const char* part) {
    return settings.only.empty() ? std::string(part) != "hosts" : settings.only == part;
  };
  if (!wanted("alone") && !wanted("64") && !wanted("mlp") && !wanted("hosts"))
    throw invalid_argument("--only=" + settings.only, "take alone, 64, mlp or hosts");
  if (wanted("alone")) run_alone(settings);
  if (wanted("64")) run_workers(settings);
  settings.model = "mlp";
  if (wanted("mlp")) {
    run_alone(settings);
    run_workers(settings);
  }
  settings.model = "tower";
  settings.batch = 1024;
  if (wanted("hosts")) run_hosts(settings);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run_all);
}
