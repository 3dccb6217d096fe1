// muster-sim, which `muster sim` becomes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/muster/report_error.h"
#include "apps/sim/scenarios.h"
#include "apps/sim/seed_search.h"
#include "apps/sim/sim_flags.h"
#include "muster/base/error.h"
#include "muster/base/log_sink.h"
#include "muster/base/unknown_name.h"

namespace muster::sim {
namespace {

// Those with these names, in the order of all; all without names.
std::vector<std::unique_ptr<Scenario>> chosen(const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Scenario>> all = all_scenarios();
  if (names.empty()) return all;
  std::vector<std::string> known;
  for (const auto& scenario : all) known.push_back(scenario->name());
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end())
      throw unknown_name("muster sim", "scenario", name, known);
  }
  std::erase_if(all, [&](const auto& scenario) {
    return std::ranges::find(names, scenario->name()) == names.end();
  });
  return all;
}

void show(const Scenario& scenario, uint64_t seed, std::vector<Fault> faults, bool all_faults) {
  Trace none;
  if (!all_faults && !scenario.run(seed, faults, none).empty())
    faults = shrink(scenario, seed, std::move(faults));
  std::fputs(replay(scenario, seed, faults).c_str(), stdout);
}

int run(const app::SimFlags& flags) {
  // What a task logs is a part of no trace: thousands of seeds would write it.
  log::set_sink([](const log::Line&) {});
  int code = 0;
  for (const auto& scenario : chosen(flags.scenarios)) {
    if (flags.list) {
      fmt::print("{:12}{}\n", scenario->name(), scenario->about());
      continue;
    }
    if (flags.seed >= 0) {
      const auto seed = static_cast<uint64_t>(flags.seed);
      Trace none;
      if (!scenario->run(seed, scenario->faults(seed), none).empty()) code = 1;
      show(*scenario, seed, scenario->faults(seed), flags.all_faults);
      continue;
    }
    const auto begun = std::chrono::steady_clock::now();
    const auto found =
        find_failure(*scenario, static_cast<uint64_t>(flags.first),
                     static_cast<uint64_t>(flags.seeds), static_cast<int>(flags.jobs));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (!found) {
      fmt::print("{}: {} seeds from {} in {:.1f} s, all laws hold\n", scenario->name(), flags.seeds,
                 flags.first, took.count());
      std::fflush(stdout);
      continue;
    }
    code = 1;
    fmt::print("{}: seed {} breaks a law; run it again with: muster sim {} --seed={}\n",
               scenario->name(), found->seed, scenario->name(), found->seed);
    show(*scenario, found->seed, found->faults, flags.all_faults);
  }
  return code;
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) {
  muster::app::SimFlags flags;
  CLI::App app("Run Muster in simulated worlds with faults, and check its laws", "muster sim");
  muster::app::add_sim_flags(app, flags);
  try {
    app.parse(argc, argv);
    return muster::sim::run(flags);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const muster::Error& error) {
    return muster::app::report_error(error);
  }
}
