#include "apps/sim/sim_flags.h"

#include <CLI/CLI.hpp>

#include "muster/command/command_line.h"

namespace muster::app {

void add_sim_flags(CLI::App& app, SimFlags& flags) {
  app.add_option("SCENARIO", flags.scenarios, "Scenarios to run; default: all");
  command::add_flag(app, {"seeds",
                          &flags.seeds,
                          "Number of seeds of each scenario",
                          {.at_least = 1, .at_most = 1e12}});
  command::add_flag(app, {"first", &flags.first, "First seed", {.at_least = 0, .at_most = 1e15}});
  command::add_flag(app, {"seed",
                          &flags.seed,
                          "Seed to run again, with its trace; -1: none",
                          {.at_least = -1, .at_most = 1e15}});
  command::add_flag(app, {"jobs",
                          &flags.jobs,
                          "Number of seeds that run at the same time",
                          {.at_least = 1, .at_most = 256}});
  command::add_flag(app, {"all-faults", &flags.all_faults,
                          "Show the trace with all faults of the seed, not with the fewest that "
                          "break a law"});
  command::add_flag(app, {"list", &flags.list, "Print the scenarios"});
  app.footer(
      "A scenario runs Muster's own code in a simulated world: its network, clock and disk are\n"
      "simulated. The seed determines the run and its faults. After each event the laws of the\n"
      "scenario must hold. The first seed that breaks one is run again with fewer faults, and its\n"
      "trace is printed.\n"
      "\n"
      "Exit codes: 0 all laws hold, 1 a law is broken, 2 wrong use.\n"
      "\n"
      "Examples:\n"
      "  muster sim --seeds=10000\n"
      "  muster sim saves --seed=4711");
}

}  // namespace muster::app
