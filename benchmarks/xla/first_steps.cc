#include "benchmarks/xla/first_steps.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/scratch.h"
#include "muster/base/error.h"
#include "muster/launch/subprocess.h"
#include "muster/tensor/device.h"

namespace muster::bench {
namespace {

using std::chrono::steady_clock;

// Lines of a contestant, in their order. networks_xla.py prints the same.
constexpr std::array<const char*, 4> kMarks{"device", "step 1", "step 2", "step 3"};
constexpr std::chrono::minutes kLongest{10};

void print_mark(size_t mark) {
  std::puts(kMarks[mark]);
  std::fflush(stdout);
}

class PrintsSteps : public Hook {
 public:
  void after_step(const StepInfo& info) override {
    (void)info.loss;
    print_mark(static_cast<size_t>(info.global_step));
    if (info.global_step == 3) info.control.request_stop();
  }
};

using Times = std::array<double, kMarks.size()>;  // seconds since the command

Times started(const std::vector<std::string>& argv) {
  const auto begin = steady_clock::now();
  Times times{};
  size_t seen = 0;
  const launch::CompletedProcess ran = launch::run_by_lines(
      argv,
      [&](std::string_view line) {
        if (seen < kMarks.size() && line == kMarks[seen])
          times[seen++] = std::chrono::duration<double>(steady_clock::now() - begin).count();
      },
      [&] { return steady_clock::now() - begin > kLongest; });
  if (seen < kMarks.size() || !ran.status.ok())
    throw internal_error(fmt::format("{} did not make its steps: {}", argv[0], ran.err));
  return times;
}

enum class Cache { kNone, kEmpty, kFull };

struct Starter {
  std::string name;
  std::vector<std::string> command;
  Cache cache = Cache::kNone;
  std::vector<Times> times{};
};

std::vector<std::string> command_of(const Starter& starter, const std::string& folder) {
  std::vector<std::string> argv{"/usr/bin/env", "OMP_NUM_THREADS=1", "PJRT_DEVICE=CPU",
                                "TF_CPP_MIN_LOG_LEVEL=2", "BENCH_MODEL_DIR=" + folder + "/model"};
  if (starter.cache != Cache::kNone)
    argv.push_back("XLA_PERSISTENT_CACHE_PATH=" + folder + "/programs");
  argv.insert(argv.end(), {"taskset", "-c", "1"});
  argv.insert(argv.end(), starter.command.begin(), starter.command.end());
  return argv;
}

// The median over launches of the time from mark `from` (-1: the command) to mark `to`.
Estimate between(const Starter& starter, int from, size_t to) {
  std::vector<double> seconds;
  for (const Times& times : starter.times)
    seconds.push_back(times[to] - (from < 0 ? 0 : times[static_cast<size_t>(from)]));
  return estimate(seconds);
}

}  // namespace

void print_first_steps(const XlaNetwork& network, const std::string& device,
                       const std::string& model_dir) {
  parse_device(device);
  print_mark(0);
  train_network(network, device, model_dir, std::make_shared<PrintsSteps>());
}

void measure_first_steps(const XlaNetwork& network, const std::string& python, int launches) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const auto muster_on = [&](const std::string& device) {
    return std::vector<std::string>{self, "--take_part=" + network.name, "--device=" + device,
                                    "--first_steps"};
  };
  const std::vector<std::string> in_python{python, BENCH_PEERS "/networks_xla.py",
                                           "--model=" + network.name, "--first_steps"};
  std::vector<Starter> starters{{"Muster on XLA, no cache", muster_on("xla:0"), Cache::kNone},
                                {"Muster on XLA, empty cache", muster_on("xla:0"), Cache::kEmpty},
                                {"Muster on XLA, full cache", muster_on("xla:0"), Cache::kFull},
                                {"torch_xla in Python, no cache", in_python, Cache::kNone},
                                {"torch_xla in Python, full cache", in_python, Cache::kFull},
                                {"Muster on the CPU", muster_on("cpu"), Cache::kNone}};
  for (int launch = 0; launch < launches; ++launch) {
    for (Starter& starter : starters) {
      const Scratch folder;
      const std::vector<std::string> argv = command_of(starter, folder.path);
      if (starter.cache == Cache::kFull) started(argv);
      starter.times.push_back(started(argv));
    }
  }
  fmt::print("\n### From the command to the first steps: {}\n\n", network.title);
  fmt::print("| seconds | device | first step | second step | third step | all |\n");
  fmt::print("|---|---:|---:|---:|---:|---:|\n");
  for (const Starter& starter : starters) {
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.3f} | {:.2f} |\n", starter.name,
               between(starter, -1, 0).median, between(starter, 0, 1).median,
               between(starter, 1, 2).median, between(starter, 2, 3).median,
               between(starter, -1, 3).median);
  }
  std::fflush(stdout);
}

}  // namespace muster::bench
