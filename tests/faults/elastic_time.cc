// Measures the seconds from the SIGKILL of one of four workers to the next step of the run: of an
// elastic run, and of one that `muster run` starts again; and from a cut of all connections of a
// task of an elastic run, another worker or the chief. With --torchrun=PYTHON also of a small
// program of PyTorch, whose workers torchrun starts again. They take turns, and medians are
// printed. With --phases it strikes one of three workers in each phase, and prints a table: the
// seconds until the others train without it, and how the run ends. With --ettr it kills a worker
// every 20 steps of a run that saves every 10, and prints which part of its time the run used well.
//   elastic_time [--rounds=5] [--torchrun=PYTHON] [--phases] [--ettr]
// --torchrun runs a script of this source tree, so call it from its root.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"

namespace muster::testing {
namespace {

constexpr const char* kMade =
    "made: ";  // "made: 20 at 1764412345.678": a step, and when it was made

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// When the first step was made after `text` was printed for the `number`-th time; nothing before.
std::optional<double> made_after(const std::string& output, const std::string& text, int number) {
  size_t at = 0;
  for (; number > 0; --number) {
    at = output.find(text, at);
    if (at == std::string::npos) return std::nullopt;
    at += text.size();
  }
  at = output.find(kMade, at);
  if (at == std::string::npos || output.find('\n', at) == std::string::npos) return std::nullopt;
  return std::stod(output.substr(output.find(" at ", at) + 4));
}

void kill_task(pid_t process) { ::kill(process, SIGKILL); }

// Strikes `victim` of a program that makes steps, and waits for the first step after the line
// `text` was printed for the `number`-th time.
double measure(Program& program, const std::function<pid_t()>& victim, const std::string& text,
               int number, const std::function<void(pid_t)>& strike = kill_task) {
  constexpr auto kLook = std::chrono::milliseconds(5);
  program.wait_for(std::string(kMade) + "30 at ");
  const double begin = now();
  strike(victim());
  for (;;) {
    if (const auto made = made_after(program.output(), text, number)) return *made - begin;
    if (!program.running())
      throw internal_error("the run ended without another step:\n" + program.output());
    std::this_thread::sleep_for(kLook);
  }
}

double of_muster(const Words& options, const std::string& text, int number, int index = 2,
                 const std::function<void(pid_t)>& strike = kill_task) {
  const TempDirectory directory;
  Program program(
      muster_run(options, {binary("fault_victim"), "--model_dir=" + directory / "model"}),
      {{"FAULT_STEPS", "100000"}});
  return measure(
      program, [&] { return program.task("worker", index); }, text, number, strike);
}

double of_torchrun(const std::string& python) {
  const TempDirectory directory;
  const std::string state = directory / "state.pt";
  Program program(
      {python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4",
       "--max-restarts=3", "--local-addr=127.0.0.1", "benchmarks/peers/elastic_ddp.py", state},
      {{"OMP_NUM_THREADS", "1"},
       {"GLOO_SOCKET_IFNAME", "lo"},
       // Else new workers find the addresses of the old ones in the store.
       {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}});
  const double seconds = measure(
      program,
      [&] { return static_cast<pid_t>(number_behind(program.output(), "worker 2 is process ")); },
      "worker 0 is process ", 2);
  // It ends its workers.
  program.signal(SIGTERM);
  (void)program.wait();
  return seconds;
}

// One of three workers gets `signal` in `phase`, of which `speaker` tells. Returns a row of the
// table.
std::string row_of(int signal, const std::string& phase, const std::string& speaker) {
  constexpr int64_t kLastStep = 12;
  std::string row = fmt::format("| {} | {} |", signal == SIGKILL ? "SIGKILL" : "SIGTERM", phase);
  std::string end;
  for (const char* transport : {"shared_memory", "tcp"}) {
    const TempDirectory directory;
    const std::string model = directory / "model";
    Program program(
        muster_run({"--workers=2:3"}, {binary("fault_victim"), "--model_dir=" + model}),
        {{"FAULT_PHASE", phase}, {"FAULT_TASK", speaker}, {"MUSTER_TRANSPORT", transport}});
    program.wait_for(fmt::format("[{}] phase: {}", speaker, phase));
    const double begin = now();
    program.signal_task("worker", 1, signal);
    const bool formed = program.says("elastic: 2 of 3 workers train");
    row += formed ? fmt::format(" {:.1f} |", now() - begin) : " - |";
    const int code = program.wait();
    end += fmt::format("{}{}{}", end.empty() ? "" : " / ", code,
                       has_checkpoint(model, kLastStep) ? "" : ", last checkpoint missing");
  }
  const size_t half = end.find(" / ");
  if (end.substr(0, half) == end.substr(half + 3)) end.resize(half);
  return fmt::format("{} {} |\n", row, end);
}

int print_phases() {
  const std::vector<std::pair<std::string, std::string>> phases = {
      {"start", "worker 1"}, {"build", "worker 1"},    {"step", "worker 1"}, {"save", "worker 0"},
      {"write", "worker 0"}, {"evaluate", "worker 0"}, {"end", "worker 1"}};
  std::printf(
      "| signal | phase | seconds, shared memory | seconds, TCP | exit code |\n"
      "|---|---|---|---|---|\n");
  for (const int signal : {SIGKILL, SIGTERM}) {
    for (const auto& [phase, speaker] : phases) {
      std::printf("%s", row_of(signal, phase, speaker).c_str());
      std::fflush(stdout);
    }
  }
  return 0;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// When the chief had made each step for the first time.
std::map<int64_t, double> first_made(const std::string& output) {
  std::map<int64_t, double> times;
  for (size_t at = output.find(kMade); at != std::string::npos; at = output.find(kMade, at + 1)) {
    const std::string line = output.substr(at, output.find('\n', at) - at);
    const size_t time = line.find(" at ");
    times.emplace(std::stoll(line.substr(std::string(kMade).size())),
                  std::stod(line.substr(time + 4)));
  }
  return times;
}

// Kills a task, worker `first` or a later one, every 20 steps of a second. Returns the effective
// training time ratio: the time that the steps take usually, over the time that they took.
double ettr_of(const Words& options, int first) {
  constexpr int kWorkers = 4;
  constexpr int64_t kSteps = 200, kKillEvery = 20;
  const TempDirectory directory;
  Program program(muster_run(options, {binary("fault_victim"), "--model_dir=" + directory / "m"}),
                  {{"FAULT_STEPS", std::to_string(kSteps)},
                   {"FAULT_STEP_SECONDS", "1"},
                   {"FAULT_SAVE_EVERY", "10"}});
  Random random(derive_key(1, {id_of("ettr")}));
  for (int64_t step = kKillEvery; step < kSteps; step += kKillEvery) {
    program.wait_for(fmt::format("{}{} at ", kMade, step));
    // The kill comes at a random time of the next step, which lasts a second.
    std::this_thread::sleep_for(std::chrono::duration<double>(random.uniform()));
    const int index = first + static_cast<int>(random.uniform_below(kWorkers - first));
    if (!program.signal_task("worker", index, SIGKILL))
      throw internal_error("the run has ended:\n" + program.output());
  }
  if (program.wait() != 0) throw internal_error("the run failed:\n" + program.output());
  const std::map<int64_t, double> times = first_made(program.output());
  std::vector<double> steps;
  for (auto at = std::next(times.begin()); at != times.end(); ++at)
    steps.push_back(at->second - std::prev(at)->second);
  return static_cast<double>(steps.size()) * median(steps) /
         (times.rbegin()->second - times.begin()->second);
}

int print_ettr() {
  const std::string restart = "--restart=100";
  for (const auto& [name, options, first] :
       {std::tuple("elastic, workers killed", Words{"--workers=2:4", restart}, 1),
        std::tuple("elastic, workers and chief killed", Words{"--workers=2:4", restart}, 0),
        std::tuple("restarted, workers and chief killed", Words{"--workers=4", restart}, 0)}) {
    std::printf("%-36s ETTR %.1f %%\n", name, 100 * ettr_of(options, first));
    std::fflush(stdout);
  }
  return 0;
}

int main_of(int argc, char** argv) {
  CLI::App app("Seconds from the loss of a worker to the next step");
  int rounds = 5;
  std::string python;
  app.add_option("--rounds", rounds, "Number of kills of each kind")->check(CLI::PositiveNumber);
  app.add_option("--torchrun", python, "A Python that has torch");
  bool phases = false;
  app.add_flag("--phases", phases, "Print the table of phases instead");
  bool ettr = false;
  app.add_flag("--ettr", ettr, "Print the part of the time that a struck run uses well instead");
  CLI11_PARSE(app, argc, argv);
  if (ettr) return print_ettr();
  if (phases) return print_phases();
  std::map<std::string, std::vector<double>> seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds["muster, elastic"].push_back(
        of_muster({"--workers=2:4"}, "elastic: 3 of 4 workers train", 1));
    const auto cut = [&](int index) {
      return of_muster({"--workers=2:4"}, "elastic: 4 of 4 workers train", 2, index,
                       [](pid_t process) { cut_connections(process); });
    };
    seconds["muster, elastic, a worker cut"].push_back(cut(2));
    seconds["muster, elastic, the chief cut"].push_back(cut(0));
    seconds["muster, restarted"].push_back(
        of_muster({"--workers=4", "--restart=1"}, "starting all tasks again", 1));
    if (!python.empty()) seconds["torchrun, restarted"].push_back(of_torchrun(python));
  }
  for (const auto& [name, values] : seconds) {
    std::printf("%-30s %6.2f s (median of %d, %.2f to %.2f)\n", name.c_str(), median(values),
                rounds, *std::ranges::min_element(values), *std::ranges::max_element(values));
  }
  return 0;
}

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) { return muster::testing::main_of(argc, argv); }
