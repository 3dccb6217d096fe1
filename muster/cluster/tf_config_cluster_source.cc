// TF_CONFIG with a cluster: from `muster run`, Kubeflow's TFJob, Vertex AI, or written by hand.
#include <array>

#include "muster/base/error.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/partial_environment.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

std::string tf_config_seen(const Surroundings& around) {
  const std::string text = around.environment.get_or("TF_CONFIG", "");
  if (text.empty()) return "";
  try {
    // A task without a cluster, as in a job of one replica, says nothing about where this is.
    return parse_tf_config(text).cluster.empty() ? "" : "TF_CONFIG";
  } catch (const Error&) {
    return "TF_CONFIG";  // resolve() reports the mistake
  }
}

ResolvedCluster resolve_tf_config(const Surroundings& around, const ResolveOptions& options) {
  return resolve_tf_config_text(around.environment.get_or("TF_CONFIG", ""), options);
}

// As after TF_CONFIG=$(cat FILE) if there is no such file.
std::optional<PartialEnvironment> tf_config_left(const Surroundings& around) {
  constexpr std::array kVariables = {PlaceVariable{"TF_CONFIG", Counts::kNothing}};
  return find_partial_environment(around.environment, kVariables,
                                  "set TF_CONFIG to its cluster and its task");
}

}  // namespace

ClusterSource tf_config_source() {
  return {.name = "TF_CONFIG",
          .word = "tf_config",
          .seen = tf_config_seen,
          .resolve = resolve_tf_config,
          .left = tf_config_left};
}

}  // namespace muster::inline v0_1::cluster::internal
