#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "apps/sim/sim_flags.h"
#include "muster/base/error.h"

namespace muster::app {
namespace {

int simulate(const std::vector<std::string>& words, const std::string& own_folder) {
  const HelperCommand helper{
      .name = "muster-sim", .what = "which runs the simulations", .command = "sim"};
  if (find_helper_program(own_folder, helper.name).path.empty()) {
    throw not_found("muster-sim, which runs the simulations, is in no package of Muster",
                    "build it from the source tree: ./dev build muster muster-sim");
  }
  return become_helper(helper, words, own_folder);
}

}  // namespace

void add_sim(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
             Action& action) {
  auto* command = app.add_subcommand(
      "sim", "Run Muster in simulated worlds with faults, for those who change Muster");
  auto flags = std::make_shared<SimFlags>();
  add_sim_flags(*command, *flags);
  command->callback([flags, &words, own_folder, &action] {
    action = [flags, &words, own_folder] { return simulate(words, own_folder); };
  });
}

}  // namespace muster::app
