// Training on XLA's CPU device compared with torch_xla in Python and with Muster on the CPU, on one
// core: the time of a step, and the time from the command to the first steps. Needs a build with
// MUSTER_XLA, and MUSTER_PYTHON: ./dev bench xla.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "benchmarks/xla/first_steps.h"
#include "benchmarks/xla/networks.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

Contestant muster_on(const std::string& device, const std::string& name,
                     const XlaNetwork& network) {
  return {.name = name,
          .argv = {"/proc/self/exe", "--take_part=" + network.name, "--device=" + device},
          .environment = {{"PJRT_DEVICE", "CPU"}},
          .rows = network.batch};
}

Contestant python_on_xla(const std::string& python, const XlaNetwork& network) {
  Contestant peer =
      python_peer("torch_xla 2.9 in Python", {"networks_xla.py", "--model=" + network.name});
  peer.argv[0] = python;
  // The packages bring a BLAS of their own.
  std::erase_if(peer.environment,
                [](const auto& variable) { return variable.first == "LD_LIBRARY_PATH"; });
  peer.environment.emplace_back("PJRT_DEVICE", "CPU");
  peer.rows = network.batch;
  return peer;
}

void measure_steps(const XlaNetwork& network, const std::string& python, bool quick,
                   const std::string& json) {
  Plan plan{.launches = 1, .pairs = 8, .turns = 2, .steps = 10, .warm_up = 6, .lead_in = 2};
  if (quick) plan.pairs = 3, plan.steps = 4;
  compare_with_first("xla_" + network.name, "One core: " + network.title,
                     {muster_on("xla:0", "Muster on XLA", network), python_on_xla(python, network),
                      muster_on("cpu", "Muster on the CPU", network)},
                     plan, json);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster;
  std::string json, only, part, device = "cpu", subject;
  bool quick = false, first_steps = false;
  CLI::App app("A benchmark of devices of XLA; docs/tpu.md says how to run it.");
  app.add_option("--json", json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", quick, "Few samples, to see that it works");
  app.add_option("--model", only, "Only this one")
      ->check(CLI::IsMember({"mnist", "resnet18", "gpt"}));
  app.add_option("--subject", subject, "Only this: steps, or start")
      ->check(CLI::IsMember({"steps", "start"}));
  app.add_option("--take_part", part)->group("");
  app.add_option("--device", device)->group("");
  app.add_flag("--first_steps", first_steps)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    const char* const given = std::getenv("MUSTER_PYTHON");
    if (part.empty() && given == nullptr) {
      throw invalid_argument("MUSTER_PYTHON is not set",
                             "set it to the Python with torch and torch_xla");
    }
    const std::string python = given != nullptr ? given : "";
    for (const bench::XlaNetwork& network : bench::xla_networks()) {
      if (network.name == part) {
        const std::string folder = std::getenv("BENCH_MODEL_DIR");
        if (first_steps) {
          bench::print_first_steps(network, device, folder);
        } else {
          bench::train_network(network, device, folder, std::make_shared<bench::StepPacerHook>());
        }
      }
      if (!part.empty() || (!only.empty() && only != network.name)) continue;
      if (subject != "start") bench::measure_steps(network, python, quick, json);
      if (subject != "steps") bench::measure_first_steps(network, python, quick ? 1 : 5);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
