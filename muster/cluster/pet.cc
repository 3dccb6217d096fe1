#include "muster/cluster/pet.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster {
namespace {

using internal::number_if_set;

// A pod, before its processes are started.
struct Node {
  int rank = 0;
  int nodes = 1;
  int processes = 1;  // of each node
};

// Both spellings have been written by releases of Kubeflow.
std::string text_of(const Environment& environment, const char* name, const char* older) {
  const std::string text = environment.get_or(name, "");
  return text.empty() && older != nullptr ? environment.get_or(older, "") : text;
}

int processes_of(const Environment& environment) {
  const std::string text = text_of(environment, "PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE");
  if (text.empty() || text == "auto" || text == "gpu" || text == "cpu") return 1;
  const std::optional<int64_t> number = parse_int(text);
  constexpr int kMost = 1024;
  if (number && *number >= 1 && *number <= kMost) return static_cast<int>(*number);
  throw invalid_argument(fmt::format("PET_NPROC_PER_NODE is '{}'", text),
                         "it is a number of processes, at least 1, or auto, gpu or cpu");
}

// The bounds of the number of nodes: "3", "3:3", or "1:4" of an elastic job.
std::pair<int, int> bounds_of(const Environment& environment) {
  const std::string text = environment.get_or("PET_NNODES", "1");
  const std::vector<std::string> bounds = split(text, ':');
  const std::optional<int64_t> least = parse_int(bounds.front()), most = parse_int(bounds.back());
  if (bounds.size() > 2 || !least || !most || *least < 1 || *least > *most || *most > 100'000) {
    const char* const why =
        least && most && *least > *most ? ": the minimum is larger than the maximum" : "";
    throw invalid_argument(fmt::format("PET_NNODES is '{}'{}", text, why),
                           "it is a number of nodes, at least 1, or the bounds of an elastic job, "
                           "as 1:4");
  }
  return {static_cast<int>(*least), static_cast<int>(*most)};
}

// The number of a pod of an elastic job, which no variable says: pods are named by their numbers,
// and the rendezvous is at number 0. "mnist-worker-2" is 2 where that is at "mnist-worker-0:23456".
std::optional<int64_t> number_of_pod(const Environment& environment) {
  const std::string endpoint = environment.get_or("PET_RDZV_ENDPOINT", "");
  const std::string first = endpoint.substr(0, endpoint.find_first_of(".:"));
  const std::string name = environment.get_or("HOSTNAME", "");
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits == name.size() || first != name.substr(0, digits) + "0")
    return std::nullopt;
  return parse_int(name.substr(digits));
}

Node node_of(const Environment& environment) {
  const auto [least, most] = bounds_of(environment);
  Node node{.nodes = most, .processes = processes_of(environment)};
  // PyTorchJob sets RANK to the number of the node, too, and WORLD_SIZE to that of all processes.
  std::optional<int64_t> rank = number_if_set(environment, "PET_NODE_RANK");
  if (!rank) rank = number_if_set(environment, "RANK");
  if (!rank) rank = number_of_pod(environment);
  if (!rank && node.nodes > 1) {
    const std::string endpoint = environment.get_or("PET_RDZV_ENDPOINT", "");
    throw invalid_argument(
        fmt::format("PET_NNODES is {}, and neither PET_NODE_RANK nor the name of this pod says "
                    "which of them this is{}",
                    environment.get_or("PET_NNODES", ""),
                    endpoint.empty() ? "" : ": nodes number themselves at " + endpoint),
        "set PET_NODE_RANK; or name the pods by their numbers (HOSTNAME=mnist-worker-2, "
        "PET_RDZV_ENDPOINT=mnist-worker-0:23456), as Kubeflow does; or start the program by "
        "torchrun --no_python PROGRAM, whose rendezvous numbers them");
  }
  node.rank = static_cast<int>(rank.value_or(0));
  if (node.rank >= node.nodes) {
    throw invalid_argument(
        fmt::format("this is node {}, and PET_NNODES is {}: nodes count from 0, so the last one is "
                    "{}",
                    node.rank, environment.get_or("PET_NNODES", "1"), node.nodes - 1),
        "start no more nodes than the maximum, or raise it on all nodes");
  }
  // Of an elastic job it may be any number in between.
  const auto world = least == most ? number_if_set(environment, "WORLD_SIZE", 1) : std::nullopt;
  const std::string processes = text_of(environment, "PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE");
  if (world && parse_int(processes) && *world != node.nodes * node.processes) {
    throw invalid_argument(
        fmt::format("WORLD_SIZE is {}, and PET_NNODES x PET_NPROC_PER_NODE is {} x {}", *world,
                    node.nodes, node.processes),
        "one of them is left over from another launcher: unset it, or choose with MUSTER_CLUSTER");
  }
  if (world && processes.empty() && *world != node.nodes) {
    throw invalid_argument(
        fmt::format("WORLD_SIZE is {} and PET_NNODES is {}, and no PET_NPROC_PER_NODE says how "
                    "many processes a node has",
                    *world, node.nodes),
        "set PET_NPROC_PER_NODE, or unset the variable that is left over from another launcher");
  }
  return node;
}

// MASTER_* goes first: where both are there, they say the same. An elastic job has its rendezvous
// alone, at node 0.
Environment with_master(Environment environment) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    const std::string pet = environment.get_or(std::string("PET_") + name, "");
    if (environment.get_or(name, "").empty() && !pet.empty())
      environment = environment.with(name, pet);
  }
  const std::string endpoint = environment.get_or("PET_RDZV_ENDPOINT", "");
  const size_t colon = endpoint.rfind(':');
  if (environment.get_or("MASTER_ADDR", "").empty() && colon != std::string::npos) {
    environment = environment.with("MASTER_ADDR", endpoint.substr(0, colon))
                      .with("MASTER_PORT", endpoint.substr(colon + 1));
  }
  return environment;
}

std::string pet_seen(const Surroundings& around) {
  const Environment& environment = around.environment;
  if (!internal::has_all(environment, {"PET_NNODES"})) return "";
  return fmt::format("PET_* (Kubeflow), node {} of {}", environment.get_or("PET_NODE_RANK", "?"),
                     environment.get_or("PET_NNODES", ""));
}

ResolvedCluster resolve_pet(const Surroundings& around, const ResolveOptions& /*options*/) {
  const Node node = node_of(around.environment);
  if (node.processes > 1) {
    throw invalid_argument(
        fmt::format("PET_NPROC_PER_NODE is {}, but no launcher started {} processes",
                    node.processes, node.processes),
        "programs whose main() is run_main() start them; for this one say torchrun --no_python "
        "PROGRAM, or ask for one process a node (numProcPerNode: 1)");
  }
  return internal::to_cluster({.source = "PET_* (Kubeflow)",
                               .rank = node.rank,
                               .size = node.nodes,
                               .no_host_hint = "set PET_MASTER_ADDR, or MASTER_ADDR, to the name "
                                               "or number of node 0 in all of them"},
                              with_master(around.environment));
}

std::optional<PartialEnvironment> pet_left(const Surroundings& around) {
  using internal::Counts;
  using internal::PlaceVariable;
  constexpr std::array kVariables = {
      PlaceVariable{"PET_NNODES", Counts::kSize}, PlaceVariable{"PET_NODE_RANK", Counts::kRank},
      PlaceVariable{"PET_NPROC_PER_NODE", Counts::kLocalSize, false},
      PlaceVariable{"PET_N_PROC_PER_NODE", Counts::kLocalSize, false}};
  return internal::find_partial_environment(around.environment, kVariables,
                                            "set PET_NNODES and PET_NODE_RANK, as Kubeflow does");
}

}  // namespace

int min_workers_of_pet(const Environment& environment) {
  const auto [least, most] = bounds_of(environment);
  return least < most ? least * processes_of(environment) : 0;
}

std::vector<std::map<std::string, std::string>> processes_of_node(const Environment& environment) {
  const Surroundings around{environment, {}};
  const std::string choice = environment.get_or("MUSTER_CLUSTER", "");
  if (pet_seen(around).empty() || !internal::torchrun_source().seen(around).empty()) return {};
  if (!choice.empty() && choice != "pet") return {};
  if (!internal::tf_config_source().seen(around).empty() && choice.empty()) return {};
  const Node node = node_of(environment);
  if (node.processes == 1) return {};
  const Environment known = with_master(environment);
  std::vector<std::map<std::string, std::string>> processes;
  const int least = min_workers_of_pet(environment);
  for (int local = 0; local < node.processes; ++local) {
    processes.push_back({{"RANK", std::to_string(node.rank * node.processes + local)},
                         {"WORLD_SIZE", std::to_string(node.nodes * node.processes)},
                         {"GROUP_RANK", std::to_string(node.rank)},
                         {"LOCAL_RANK", std::to_string(local)},
                         {"LOCAL_WORLD_SIZE", std::to_string(node.processes)},
                         {"MASTER_ADDR", known.get_or("MASTER_ADDR", "")},
                         {"MASTER_PORT", known.get_or("MASTER_PORT", "29500")}});
    if (least > 0) processes.back()["MUSTER_MIN_WORKERS"] = std::to_string(least);
    // MUSTER_CLUSTER=PET applies to this process, which starts the others as torchrun does.
    if (!choice.empty()) processes.back()["MUSTER_CLUSTER"] = "torchrun";
  }
  return processes;
}

namespace internal {

ClusterSource pet_source() {
  return {.name = "PET_* (Kubeflow)",
          .word = "pet",
          .seen = pet_seen,
          .resolve = resolve_pet,
          .left = pet_left};
}

}  // namespace internal

}  // namespace muster::inline v0_1::cluster
