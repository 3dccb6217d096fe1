#include "benchmarks/servers/cluster_rates.h"

#include <fmt/format.h>
#include <muster/muster.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "muster/launch/subprocess.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {
namespace {

using std::chrono::steady_clock;

constexpr auto kCompute = std::chrono::milliseconds(50);
constexpr int64_t kLeadIn = 5;  // steps of each worker that do not count
constexpr const char* kRate = "global_step/sec";

// Prints how fast the global step went from one number to another, as this task saw it.
class Window {
 public:
  Window(int64_t begin, int64_t end) : begin_(begin), end_(end) {}
  void note(int64_t step) {
    const auto now = steady_clock::now();
    if (first_ < 0 && step >= begin_) {
      first_ = step;
      since_ = now;
    } else if (first_ >= 0 && !told_ && step >= end_) {
      told_ = true;
      const double seconds = std::chrono::duration<double>(now - since_).count();
      fmt::print("{} {:.3f}\n", kRate, static_cast<double>(step - first_) / seconds);
      std::fflush(stdout);
    }
  }

 private:
  int64_t begin_, end_, first_ = -1;
  bool told_ = false;
  steady_clock::time_point since_;
};

class RateHook : public Hook {
 public:
  explicit RateHook(const ClusterTask& task)
      : task_(task),
        waiting_(kLeadIn * task.workers, task.waiting_steps - kLeadIn * task.workers),
        rest_(task.waiting_steps + kLeadIn * task.workers,
              task.max_steps - kLeadIn * task.workers) {}
  // The first step is made when all workers are there.
  void begin(const RunInfo& info) override {
    chief_ = info.is_chief;
    const auto folder = std::filesystem::path(task_.meet) / "met";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / std::to_string(getpid())).put('\n');
    const auto there = [&] {
      return std::distance(std::filesystem::directory_iterator(folder), {});
    };
    while (there() < task_.workers) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  void before_step(int64_t global_step) override {
    if (global_step <= task_.waiting_steps) std::this_thread::sleep_for(kCompute);
  }
  void after_step(const StepInfo& info) override {
    if (!chief_) return;
    waiting_.note(info.global_step);
    rest_.note(info.global_step);
  }

 private:
  ClusterTask task_;
  Window waiting_, rest_;
  bool chief_ = false;
};

EstimatorSpec touch_weights(const Features&, const Labels&, Mode, ModelContext& context) {
  const std::vector<std::pair<std::string, Shape>> weights{
      {"conv/kernel", {3, 3, 1, 32}}, {"conv/bias", {32}},         {"dense/kernel", {5408, 64}},
      {"dense/bias", {64}},           {"logits/kernel", {64, 10}}, {"logits/bias", {10}}};
  Tensor loss = torch::zeros({});
  for (const auto& [name, shape] : weights)
    loss = loss +
           context.variable({.name = name, .shape = shape, .initializer = initializers::zeros()})
               .sum();
  return EstimatorSpec::train(
      loss, context.optimizer(optim::sgd({.learning_rate = 1e-3})).minimize(loss));
}

// The rates of one run, of steps that wait and of the others.
std::vector<double> run_cluster(const std::vector<std::string>& program, const ClusterTask& task) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> argv{self.parent_path() / "muster",
                                "run",
                                "--chief",
                                fmt::format("--workers={}", task.workers - 1),
                                "--ps=1",
                                "--threads=1",
                                "--no-pin",
                                "--"};
  argv.insert(argv.end(), program.begin(), program.end());
  for (const std::string& word :
       {fmt::format("--meet={}", task.meet), fmt::format("--workers={}", task.workers),
        fmt::format("--waiting_steps={}", task.waiting_steps),
        fmt::format("--max_steps={}", task.max_steps)})
    argv.push_back(word);
  std::vector<double> rates;
  const auto begin = steady_clock::now();
  const launch::CompletedProcess ran = launch::run_by_lines(
      argv,
      [&](std::string_view line) {
        const size_t at = line.find(kRate);
        if (at == std::string_view::npos) return;
        rates.push_back(std::stod(std::string(line.substr(at + std::string_view(kRate).size()))));
      },
      // A server of TensorFlow never ends by itself: the end is when all is known.
      [&] { return rates.size() == 2 || steady_clock::now() - begin > std::chrono::minutes(5); });
  if (rates.size() != 2)
    throw internal_error(fmt::format("{} gave {} rates: {}", program[0], rates.size(), ran.err));
  return rates;
}

}  // namespace

void train_cluster_task(const ClusterTask& task) {
  Estimator estimator(touch_weights, {.model_dir = task.meet + "/model",
                                      .save_summary_steps = 0,
                                      .save_checkpoints_steps = 0,
                                      .train_distribute = distribute::parameter_server()});
  const InputFn input = [] {
    return Dataset::from_tensor_slices(Element::tuple({torch::ones({1, 1}), torch::ones({1, 1})}))
        .repeat()
        .batch(1);
  };
  estimator.train(input,
                  {.max_steps = task.max_steps, .hooks = {std::make_shared<RateHook>(task)}});
}

void compare_clusters(const std::string& self, bool quick) {
  Contestant peer = python_peer("tf.estimator 2.15", {"tensorflow_cluster.py", "--way=servers"});
  const bool tensorflow = in_environment("tensorflow", &peer);
  const Scratch scratch;
  fmt::print(
      "### global_step/sec of processes: workers on one parameter server, the weights of "
      "examples/mnist\n\n"
      "| a step | workers | Muster | of linear | tf.estimator 2.15 | of linear | ratio (95 % "
      "interval) |\n|---|---:|---:|---:|---:|---:|---:|\n");
  const int rounds = quick ? 1 : 5;
  std::vector<double> alone(4);  // of one worker, by kind of step and contestant
  for (const int64_t workers : {1, 2, 4}) {
    std::vector<std::vector<double>> ours(2), theirs(2);
    for (int round = 0; round < rounds; ++round) {
      ClusterTask task{.workers = workers, .waiting_steps = 60 * workers};
      task.max_steps = task.waiting_steps + 2000;
      const auto run = [&](const char* name, const std::vector<std::string>& program,
                           std::vector<std::vector<double>>& rates) {
        task.meet = fmt::format("{}/{}-{}-{}", scratch.path, name, workers, round);
        const std::vector<double> got = run_cluster(program, task);
        for (size_t i = 0; i < got.size(); ++i) rates[i].push_back(got[i]);
      };
      run("muster", {self, "--task"}, ours);
      if (tensorflow) run("tensorflow", peer.argv, theirs);
    }
    for (size_t kind = 0; kind < 2; ++kind) {
      const double own = estimate(ours[kind]).median;
      if (workers == 1) alone[kind] = own;
      fmt::print("| {} | {} | {:.1f} | {:.0f} % |",
                 kind == 0 ? fmt::format("waits {} ms", kCompute.count()) : "computes nothing",
                 workers, own, 100 * own / (alone[kind] * static_cast<double>(workers)));
      if (tensorflow) {
        const double other = estimate(theirs[kind]).median;
        if (workers == 1) alone[2 + kind] = other;
        const Estimate ratio = estimate_ratio(ours[kind], theirs[kind]);
        fmt::print(" {:.1f} | {:.0f} % | {:.2f} ({:.2f} to {:.2f}) |\n", other,
                   100 * other / (alone[2 + kind] * static_cast<double>(workers)), ratio.median,
                   ratio.low, ratio.high);
      } else {
        fmt::print(" | | |\n");
      }
      std::fflush(stdout);
    }
  }
  fmt::print("\n");
}

}  // namespace muster::bench
