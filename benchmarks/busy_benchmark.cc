// Two workers of one thread each on cores that others use too: an Estimator with
// MultiWorkerMirrored over shared memory and over TCP, compared with DistributedDataParallel over
// Gloo. First no other process computes, then a process that never sleeps runs on one of the two
// cores, then on both, then two such processes that are bound to no core.
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <vector>

#include "benchmarks/support/mnist_model.h"
#include "muster/base/error.h"
#include "muster/launch/run.h"

namespace muster::bench {
namespace {

constexpr int kWorkers = 2;

// Processes that compute until this is destroyed.
class Competitors {
 public:
  // One for each entry; nothing: the scheduler chooses its core.
  explicit Competitors(const std::vector<std::optional<int>>& cores) {
    for (const auto& core : cores) start(core);
  }
  ~Competitors() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  Competitors(const Competitors&) = delete;
  Competitors& operator=(const Competitors&) = delete;

 private:
  void start(const std::optional<int>& core) {
    const pid_t pid = fork();
    if (pid < 0) throw internal_error("fork() failed");
    if (pid > 0) {
      pids_.push_back(pid);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();  // like a separate program: with its own share of the processor
    if (core) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(*core, &set);
      sched_setaffinity(0, sizeof set, &set);
    }
    volatile uint64_t turns = 0;
    for (;;) turns = turns + 1;
  }

  std::vector<pid_t> pids_;
};

void compare_beside(const std::string& title, const std::vector<std::optional<int>>& cores,
                    const Settings& settings, bool pytorch) {
  const Competitors competitors(cores);
  std::vector<Contestant> contestants;
  Settings ours = settings;
  ours.way = kEstimator;
  for (const auto& [transport, name] :
       {std::pair{"auto", "Muster, its own choice"}, std::pair{"tcp", "Muster, over TCP"}}) {
    ours.transport = transport;
    contestants.push_back(contestant(name, ours));
    if (!settings.beside.empty()) contestants.push_back(other_build(contestants.back(), settings));
  }
  if (pytorch) {
    contestants.push_back(peer("PyTorch tuned, DDP over Gloo", {"mnist_ddp.py"}, settings));
  }
  for (Contestant& contestant : contestants) {
    contestant.workers = kWorkers;
    contestant.rows = kWorkers * settings.batch;
  }
  // A process that has slept is given more of a core for a moment, so a turn lasts for seconds.
  const Plan plan = settings.quick ? Plan{.launches = 1, .pairs = 2, .turns = 1, .steps = 400}
                                   : Plan{.launches = 2, .pairs = 5, .turns = 1, .steps = 600};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("busy", title, results, contestants.size() - 1, settings.json);
  for (size_t c = 0; c + 1 < results.size(); ++c) {
    print_speed_against(results[c], results.back());
  }
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
  std::fflush(stdout);
}

void run(Settings settings) {
  settings.momentum = 0.9;
  const bool pytorch = has_pytorch();
  const std::vector<int> cores = launch::this_machine().cores;
  if (cores.size() < kWorkers) throw invalid_argument("this benchmark needs two cores");
  compare_beside("Two workers, nobody else", {}, settings, pytorch);
  compare_beside("Two workers, a competitor on the first core", {cores[0]}, settings, pytorch);
  compare_beside("Two workers, a competitor on each core", {cores[0], cores[1]}, settings, pytorch);
  compare_beside("Two workers, two competitors on no core of their own",
                 {std::nullopt, std::nullopt}, settings, pytorch);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  return muster::bench::benchmark_main(argc, argv, muster::bench::run);
}
