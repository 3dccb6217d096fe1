// An Indexed Job of Kubernetes, alone or in a JobSet. It says which pod this is, and not how many
// there are: that is for the manifest, as WORLD_SIZE. Without it the pods are not a cluster: each
// has its own part of some work.
#include <fmt/format.h>

#include <array>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

constexpr const char* kHosts = "/etc/hosts";

std::string kubernetes_seen(const Surroundings& around) {
  if (!has_all(around.environment, {"JOB_COMPLETION_INDEX", "WORLD_SIZE"})) return "";
  return "Kubernetes Job, index " + around.environment.get_or("JOB_COMPLETION_INDEX", "");
}

// A pod with a subdomain finds its whole name in its own file of hosts:
// "10.0.0.7 train-1.train.default.svc.cluster.local train-1".
std::string domain_of(const std::string& pod, const std::string& hosts) {
  std::istringstream lines(hosts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    words >> word;  // the number
    while (words >> word)
      if (word.starts_with(pod + ".")) return word.substr(pod.size());
  }
  return "";
}

// The name of the pod with index 0, from this one's: a Job calls them NAME-INDEX.
std::string first_pod(const Surroundings& around, int index) {
  const std::string pod = around.environment.get_or("HOSTNAME", "");
  const std::string end = fmt::format("-{}", index);
  const std::string domain = domain_of(pod, around.read_file(kHosts).value_or(""));
  if (!pod.ends_with(end) || domain.empty()) return "";
  return pod.substr(0, pod.size() - end.size()) + "-0" + domain;
}

ResolvedCluster resolve_kubernetes(const Surroundings& around, const ResolveOptions& /*options*/) {
  const Environment& environment = around.environment;
  const int index = number_of(environment, "JOB_COMPLETION_INDEX");
  const int size = number_of(environment, "WORLD_SIZE", 1);
  if (size == 1) return {};
  if (number_if_set(environment, "JOB_INDEX").value_or(0) > 0) {
    throw invalid_argument(
        fmt::format("not supported: this pod is in replica {} of a Job of JobSet {}, and each "
                    "counts its pods from 0",
                    environment.get_or("JOB_INDEX", ""), environment.get_or("JOBSET_NAME", "")),
        "give the pods RANK, WORLD_SIZE and MASTER_ADDR, or the replicated Job one replica with as "
        "many completions");
  }
  return to_cluster({.source = "Kubernetes Job",
                     .rank = index,
                     .size = size,
                     .host = first_pod(around, index),
                     .no_host_hint = "give the pods a subdomain with a headless Service of that "
                                     "name, or MASTER_ADDR: JOB-0.SERVICE"},
                    environment);
}

// Kubernetes numbers the pods of every Indexed Job, of those too that are not a cluster.
std::optional<PartialEnvironment> kubernetes_left(const Surroundings& around) {
  constexpr std::array kVariables = {PlaceVariable{"JOB_COMPLETION_INDEX", Counts::kMaybe},
                                     PlaceVariable{"WORLD_SIZE", Counts::kSize, true, false}};
  return find_partial_environment(
      around.environment, kVariables,
      "write WORLD_SIZE, the number of pods, into the manifest of an Indexed Job");
}

}  // namespace

ClusterSource kubernetes_source() {
  return {.name = "Kubernetes Job",
          .word = "kubernetes",
          .seen = kubernetes_seen,
          .resolve = resolve_kubernetes,
          .left = kubernetes_left};
}

}  // namespace muster::inline v0_1::cluster::internal
