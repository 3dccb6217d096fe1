// Measures the seconds from the SIGKILL of one of four workers to the next step of the run: of an
// elastic run, and of one that `muster run` starts again. They take turns, and medians are printed.
//   elastic_time [--rounds=5]
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
#include <vector>

#include "muster/base/error.h"
#include "tests/end_to_end/program.h"

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

// Kills `victim` of a program that makes steps, and waits for the first step after the line `text`
// was printed for the `number`-th time.
double measure(Program& program, const std::function<pid_t()>& victim, const std::string& text,
               int number) {
  constexpr auto kLook = std::chrono::milliseconds(5);
  program.wait_for(std::string(kMade) + "30 at ");
  const double begin = now();
  ::kill(victim(), SIGKILL);
  for (;;) {
    if (const auto made = made_after(program.output(), text, number)) return *made - begin;
    if (!program.running())
      throw internal_error("the run ended without another step:\n" + program.output());
    std::this_thread::sleep_for(kLook);
  }
}

double of_muster(const Words& options, const std::string& text, int number) {
  const TempDirectory directory;
  Program program(
      muster_run(options, {binary("fault_victim"), "--model_dir=" + directory / "model"}),
      {{"FAULT_STEPS", "100000"}});
  return measure(
      program, [&] { return program.task("worker", 2); }, text, number);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int main_of(int argc, char** argv) {
  CLI::App app("Seconds from the loss of a worker to the next step");
  int rounds = 5;
  app.add_option("--rounds", rounds, "Number of kills of each kind")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::map<std::string, std::vector<double>> seconds;
  for (int round = 0; round < rounds; ++round) {
    seconds["muster, elastic"].push_back(
        of_muster({"--workers=2:4"}, "elastic: 3 of 4 workers train", 1));
    seconds["muster, restarted"].push_back(
        of_muster({"--workers=4", "--restart=1"}, "starting all tasks again", 1));
  }
  for (const auto& [name, values] : seconds) {
    std::printf("%-20s %6.2f s (median of %d, %.2f to %.2f)\n", name.c_str(), median(values),
                rounds, *std::ranges::min_element(values), *std::ranges::max_element(values));
  }
  return 0;
}

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) { return muster::testing::main_of(argc, argv); }
