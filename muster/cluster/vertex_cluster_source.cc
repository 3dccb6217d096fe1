// CLUSTER_SPEC, which Vertex AI gives to every container of a job, and AI Platform gave to custom
// ones: a TF_CONFIG whose jobs are called pools.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

using nlohmann::json;

// The purposes of the pools, by their numbers. AI Platform used the names on the right.
constexpr std::array kPools = {std::pair{"workerpool0", "chief"},
                               std::pair{"workerpool1", "worker"}, std::pair{"workerpool2", "ps"},
                               std::pair{"workerpool3", "evaluator"}};

std::string type_of_pool(const std::string& pool) {
  for (const auto& [name, type] : kPools) {
    if (pool == name) return type;
  }
  return pool;
}

json parse_cluster_spec(const Environment& environment) {
  Result<json> spec = parse_json(environment.get_or("CLUSTER_SPEC", ""), "CLUSTER_SPEC");
  if (!spec.ok()) throw spec.error();
  return spec.value();
}

bool has_cluster(const json& spec) {
  return spec.is_object() && spec.contains("cluster") && !spec["cluster"].empty();
}

std::string vertex_seen(const Surroundings& around) {
  if (around.environment.get_or("CLUSTER_SPEC", "").empty()) return "";
  // Other systems use this name too; a text that is not JSON is theirs.
  const Result<json> spec = parse_json(around.environment.get_or("CLUSTER_SPEC", ""), "");
  if (!spec.ok() || !has_cluster(spec.value())) return "";
  const json task = spec.value().value("task", json::object());
  return task.is_object() ? "CLUSTER_SPEC (Vertex AI), task " + task.dump() : "CLUSTER_SPEC";
}

ResolvedCluster resolve_vertex(const Surroundings& around, const ResolveOptions& options) {
  const json spec = parse_cluster_spec(around.environment);
  json config{{"cluster", json::object()}, {"task", spec.value("task", json::object())}};
  if (!spec["cluster"].is_object()) {
    throw invalid_argument("CLUSTER_SPEC: cluster is not an object",
                           R"(it is written as {"cluster":{"workerpool0":["host:2222"]},...})");
  }
  // Replicas of a pool that is not used are an empty list.
  for (const auto& [pool, tasks] : spec["cluster"].items()) {
    if (!tasks.empty()) config["cluster"][type_of_pool(pool)] = tasks;
  }
  if (config["task"].is_object() && config["task"].contains("type") &&
      config["task"]["type"].is_string())
    config["task"]["type"] = type_of_pool(config["task"]["type"].get<std::string>());
  ResolvedCluster result = resolve_cluster(parse_tf_config(config.dump()), options);
  if (result.distributed()) return result;
  // A job of one replica trains alone: it needs no coordinator.
  if (result.is_chief && result.num_ps == 0 && result.num_workers == 1) return ResolvedCluster();
  return result;
}

std::optional<PartialEnvironment> vertex_left(const Surroundings& around) {
  constexpr std::array kVariables = {PlaceVariable{"CLUSTER_SPEC", Counts::kNothing}};
  return find_partial_environment(around.environment, kVariables,
                                  "leave CLUSTER_SPEC as Vertex AI sets it");
}

}  // namespace

ClusterSource vertex_source() {
  return {.name = "CLUSTER_SPEC",
          .word = "vertex",
          .seen = vertex_seen,
          .resolve = resolve_vertex,
          .left = vertex_left};
}

}  // namespace muster::inline v0_1::cluster::internal
