#include "muster/program/start_node.h"

#include <fmt/format.h>

#include <filesystem>

#include "muster/base/environment.h"
#include "muster/base/log.h"
#include "muster/cluster/pet.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1 {

std::optional<int> start_node(const std::vector<std::string>& command) {
  const auto processes = cluster::processes_of_node(Environment::process());
  if (processes.empty()) return std::nullopt;
  log::info(fmt::format("PET_NPROC_PER_NODE: starting {} processes, rank {} to {} of {}",
                        processes.size(), processes.front().at("RANK"), processes.back().at("RANK"),
                        processes.front().at("WORLD_SIZE")));
  std::vector<launch::ProcessSpec> specs;
  for (const auto& variables : processes) {
    launch::ProcessSpec spec{.name = "worker " + variables.at("RANK"),
                             .argv = command,
                             .environment = {variables.begin(), variables.end()}};
    spec.argv.front() = std::filesystem::read_symlink("/proc/self/exe").string();
    specs.push_back(std::move(spec));
  }
  return launch::supervise(specs).exit_code;
}

}  // namespace muster::inline v0_1
