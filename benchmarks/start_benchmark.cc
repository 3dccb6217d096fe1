// How long it takes from a command to the end of its first step. First of one process, beside
// tf.estimator, Keras and PyTorch of `./dev peers`. Then of a job of two tasks on this machine:
// an Estimator under `muster run` and as a job of `muster submit`, which makes its checkpoint of
// step 0 before, and DistributedDataParallel under torchrun, in turns.
#include <fmt/format.h>
#include <muster/muster.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "muster/launch/run.h"
#include "muster/launch/subprocess.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {
namespace {

using std::chrono::steady_clock;

constexpr const char* kFirstStep = "the first step is done";
constexpr std::chrono::seconds kLongest{120};

class TellsOfTheFirstStep : public Hook {
 public:
  void after_step(const StepInfo& info) override {
    if (info.global_step > 1) return;
    std::puts(kFirstStep);
    std::fflush(stdout);
  }
};

// A task of the job.
void train(const std::string& model_dir) {
  Estimator estimator(
      [](const Features& features, const Labels& labels, Mode, ModelContext& context) {
        const Tensor logits = context.model("linear", [] { return Dense(1); })(features);
        const Tensor loss = losses::mean_squared_error(labels, logits);
        return EstimatorSpec::train(
            loss, context.optimizer(optim::sgd({.learning_rate = 0.01})).minimize(loss));
      },
      {.model_dir = model_dir, .train_distribute = distribute::multi_worker_mirrored()});
  estimator.train(
      [] {
        return Dataset::from_tensor_slices(
                   Element::tuple({torch::ones({64, 8}), torch::ones({64, 1})}))
            .batch(32)
            .repeat();
      },
      {.max_steps = 2, .hooks = {std::make_shared<TellsOfTheFirstStep>()}});
}

// Seconds from the start of the command to the first line that reports the first step.
double seconds_to_first_step(const std::vector<std::string>& argv) {
  const auto begin = steady_clock::now();
  std::optional<double> seconds;
  const launch::CompletedProcess ran = launch::run_by_lines(
      argv,
      [&](std::string_view line) {
        if (!seconds && line.find(kFirstStep) != std::string_view::npos)
          seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
      },
      [&] { return steady_clock::now() - begin > kLongest; });
  if (!seconds || !ran.status.ok())
    throw internal_error(fmt::format("{} did not come to its first step: {}", argv[0], ran.err));
  return *seconds;
}

// What is launched again and again; `argv` gets the number of the launch.
struct Start {
  std::string name;
  std::function<std::vector<std::string>(int)> argv;
  std::vector<double> seconds{};
};

void print(const std::string& name, const std::vector<double>& seconds) {
  const Estimate e = estimate(seconds);
  fmt::print("| {} | {:.2f} | {:.2f} to {:.2f} |\n", name, e.median, e.low, e.high);
}

void launch_in_turns(std::vector<Start>& starts, int launches) {
  for (int launch = -1; launch < launches; ++launch) {
    for (Start& start : starts) {
      const double seconds = seconds_to_first_step(start.argv(launch));
      if (launch >= 0) start.seconds.push_back(seconds);
    }
  }
}

// One process of each, with what others brought into the page cache, and torch.compile into its
// own.
void run_alone(const std::string& self, const std::string& scratch, bool quick) {
  std::vector<Start> starts{{.name = "Muster, Estimator::train", .argv = [&](int launch) {
                               return std::vector<std::string>{
                                   self, fmt::format("--model_dir={}/alone-{}", scratch, launch)};
                             }}};
  struct Peer {
    std::string name, environment;
    std::vector<std::string> arguments;
    std::string keras_backend = "";
  };
  const std::vector<Peer> peers{
      {"tf.estimator 2.15", "tensorflow", {"start_alone.py", "--api=estimator"}},
      {"Keras 2.15", "tensorflow", {"start_alone.py", "--api=keras"}},
      {"Keras 3 on TensorFlow", "today", {"start_alone.py", "--api=keras"}, "tensorflow"},
      {"Keras 3 on JAX", "today", {"start_alone.py", "--api=keras"}, "jax"},
      {"Keras 3 on PyTorch", "today", {"start_alone.py", "--api=keras"}, "torch"},
      {"PyTorch 2.15, eager", "today", {"start_alone.py", "--api=torch"}},
      {"PyTorch 2.15, compiled", "today", {"start_alone.py", "--api=torch", "--compile"}}};
  for (const Peer& peer : peers) {
    Contestant made = python_peer(peer.name, peer.arguments);
    if (!in_environment(peer.environment, &made)) continue;
    made.argv.insert(made.argv.begin(),
                     {"/usr/bin/env", "OMP_NUM_THREADS=1", "KERAS_BACKEND=" + peer.keras_backend,
                      "TORCHINDUCTOR_CACHE_DIR=" + scratch + "/inductor"});
    starts.push_back({.name = peer.name, .argv = [argv = made.argv](int) { return argv; }});
  }
  launch_in_turns(starts, quick ? 3 : 11);
  fmt::print("\n### From the command to the first step of one process\n\n");
  fmt::print("| started | seconds | 95 % interval | of Muster's |\n|---|---:|---:|---:|\n");
  for (const Start& start : starts) {
    const Estimate e = estimate(start.seconds);
    const Estimate ratio = estimate_ratio(start.seconds, starts[0].seconds);
    fmt::print("| {} | {:.2f} | {:.2f} to {:.2f} | {:.1f} ({:.1f} to {:.1f}) |\n", start.name,
               e.median, e.low, e.high, ratio.median, ratio.low, ratio.high);
  }
  std::fflush(stdout);
}

void run(bool quick) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const Scratch scratch;
  run_alone(self, scratch.path, quick);
  const bool pytorch = has_python("torch", "python3-torch");
  std::vector<double> ours, jobs, theirs;
  const std::string muster = self.parent_path() / "muster";
  for (int launch = 0; launch < (quick ? 2 : 11); ++launch) {
    ours.push_back(seconds_to_first_step({muster, "run", "--workers=2", "--", self,
                                          fmt::format("--model_dir={}/{}", scratch.path, launch)}));
    jobs.push_back(
        seconds_to_first_step({"/usr/bin/env", fmt::format("XDG_STATE_HOME={}/state", scratch.path),
                               muster, "submit", "--workers=2", "--wait", self, "--",
                               fmt::format("--model_dir={}/job-{}", scratch.path, launch)}));
    if (!pytorch) continue;
    Contestant peer = python_peer("torchrun", {"torchrun.py", "--standalone", "--nproc_per_node=2",
                                               BENCH_PEERS "/start_ddp.py"});
    // Threads that wait would take the cores from those that start.
    peer.argv.insert(peer.argv.begin(), {"/usr/bin/env", "OMP_NUM_THREADS=1"});
    theirs.push_back(seconds_to_first_step(peer.argv));
  }
  fmt::print("\n### From the command to the first step of two tasks\n\n");
  fmt::print("| started by | seconds | 95 % interval |\n|---|---|---|\n");
  print("muster run, an Estimator", ours);
  print("muster submit, its log followed", jobs);
  if (!pytorch) return;
  print("torchrun, DistributedDataParallel over Gloo", theirs);
  const Estimate ratio = estimate_ratio(ours, theirs);
  const Estimate of_job = estimate_ratio(jobs, theirs);
  fmt::print(
      "\nmuster run takes {:.0f} % of torchrun's time ({:.0f} to {:.0f}), and muster submit {:.0f} "
      "% "
      "({:.0f} to {:.0f}); {} launches each.\n",
      100 * ratio.median, 100 * ratio.low, 100 * ratio.high, 100 * of_job.median, 100 * of_job.low,
      100 * of_job.high, ours.size());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  std::string model_dir;
  bool quick = false;
  return muster::run_main(
      argc, argv,
      [&](const muster::Flags&) {
        if (model_dir.empty()) {
          muster::bench::run(quick);
        } else {
          muster::bench::train(model_dir);
        }
      },
      {.description = "Times the start of a job.",
       .shared_flags = false,
       .flags = {{"model_dir", &model_dir, "Of a task"}, {"quick", &quick, "Few launches"}}});
}
