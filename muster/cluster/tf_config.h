// Parses TF_CONFIG, the environment variable that tells a task which cluster it belongs to, into
// plain data, and computes what tf.estimator's RunConfig concludes from it. Thread safety: pure
// functions. Errors are InvalidArgument: they quote the path inside the JSON and the value, and
// their hint shows a whole corrected TF_CONFIG. resolved_cluster.h decides what training uses.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/export.h"
#include "muster/cluster/cluster_spec.h"

namespace muster::inline v0_1::cluster {

struct TfConfig {
  ClusterSpec cluster{};  // of "cluster", or of Kubeflow's "sparseCluster"
  std::optional<std::string> task_type{};
  std::optional<int> task_index{};  // numeric texts are accepted
  std::string environment{};
  std::optional<std::string> rpc_layer{};
  std::optional<std::string> session_master{};
  std::optional<std::string> eval_session_master{};
  std::optional<std::string> model_dir{};
  std::string service{};  // the JSON text of "service"; empty when absent or null
};

// Parses the text; an empty one gives the empty TfConfig. Keys that Muster does not know are
// ignored.
MUSTER_EXPORT TfConfig parse_tf_config(std::string_view text);
// Returns the text of an equivalent TF_CONFIG; `pretty` adds line breaks and indentation.
MUSTER_EXPORT std::string to_json_text(const TfConfig& config, bool pretty = false);

// Throws InvalidArgument unless every address is host:port with a port up to 65535 and no two tasks
// have the same address.
MUSTER_EXPORT void check_addresses(const TfConfig& config);

// What RunConfig concludes about this process.
struct RunConfigCluster {
  ClusterSpec cluster{};
  std::string task_type = "worker";
  int task_id = 0;
  std::string master{};             // "" when no server is needed, else "grpc://host:port"
  std::string evaluation_master{};  // only the evaluator has one
  bool is_chief = true;
  int num_worker_replicas = 1;
  int num_ps_replicas = 0;
  std::optional<int> global_id_in_cluster = 0;  // the evaluator has none
  std::optional<std::string> model_dir{};
  std::string service{};
};

// Applies the rules of RunConfig, in its order, including those that training later relaxes: a
// cluster of workers only is an error unless `worker_leads` is set, which makes worker 0 the chief.
// `model_dir` is the program's own, if it has one. Throws InvalidArgument.
MUSTER_EXPORT RunConfigCluster read_run_config(const TfConfig& config,
                                               const std::optional<std::string>& model_dir = {},
                                               bool worker_leads = false);

}  // namespace muster::inline v0_1::cluster
