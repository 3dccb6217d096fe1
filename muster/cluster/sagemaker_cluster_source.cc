// A training job of SageMaker: the hosts by name, in variables or in a file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

using nlohmann::json;

constexpr const char* kResourceConfig = "/opt/ml/input/config/resourceconfig.json";

// SageMaker's toolkit sets SM_*; in a container without it there is the file alone.
bool has_variables(const Environment& environment) {
  return has_all(environment, {"SM_HOSTS", "SM_CURRENT_HOST"});
}

std::string sagemaker_seen(const Surroundings& around) {
  if (has_variables(around.environment))
    return "SageMaker host " + around.environment.get_or("SM_CURRENT_HOST", "");
  const std::string job = around.environment.get_or("TRAINING_JOB_NAME", "");
  return !job.empty() && around.read_file(kResourceConfig) ? "SageMaker job " + job : "";
}

json hosts_and_own(const Surroundings& around) {
  const Environment& environment = around.environment;
  const bool variables = has_variables(environment);
  const std::string what = variables ? "SM_HOSTS" : kResourceConfig;
  const std::string text = variables ? environment.get_or("SM_HOSTS", "")
                                     : around.read_file(kResourceConfig).value_or("");
  Result<json> read = parse_json(text, what);
  if (!read.ok()) throw read.error();
  if (!variables) return read.value();
  return {{"hosts", read.value()}, {"current_host", environment.get_or("SM_CURRENT_HOST", "")}};
}

ResolvedCluster resolve_sagemaker(const Surroundings& around, const ResolveOptions& /*options*/) {
  std::vector<std::string> hosts;
  std::string own;
  const json all = hosts_and_own(around);
  try {
    hosts = all.at("hosts").get<std::vector<std::string>>();
    own = all.at("current_host").get<std::string>();
  } catch (const json::exception&) {
    throw invalid_argument(fmt::format("SageMaker's hosts are {}", all.dump()),
                           R"(they are written as ["algo-1","algo-2"], and current_host is one)");
  }
  std::ranges::sort(hosts);
  const auto place = std::ranges::find(hosts, own);
  if (place == hosts.end()) {
    throw invalid_argument(
        fmt::format("SM_CURRENT_HOST is '{}', and SM_HOSTS has {}", own, join_quoted(hosts)),
        "both are SageMaker's: leave them as they are");
  }
  return to_cluster({.source = "SageMaker",
                     .rank = static_cast<int>(place - hosts.begin()),
                     .size = static_cast<int>(hosts.size()),
                     .host = hosts.front()},
                    around.environment);
}

std::optional<int64_t> number_of_hosts(const std::string& text) {
  const Result<json> hosts = parse_json(text, "SM_HOSTS");
  if (!hosts.ok() || !hosts.value().is_array()) return std::nullopt;
  return static_cast<int64_t>(hosts.value().size());
}

// SageMaker calls its hosts algo-1, algo-2, ...
std::optional<int64_t> rank_of_host(const std::string& text) {
  const std::optional<int64_t> number = parse_int(text.substr(text.rfind('-') + 1));
  return number ? std::optional(*number - 1) : std::nullopt;
}

std::optional<PartialEnvironment> sagemaker_left(const Surroundings& around) {
  constexpr std::array kVariables = {
      PlaceVariable{"SM_HOSTS", Counts::kSize, true, true, number_of_hosts},
      PlaceVariable{"SM_CURRENT_HOST", Counts::kRank, true, true, rank_of_host}};
  return find_partial_environment(around.environment, kVariables,
                                  "leave both SM_HOSTS and SM_CURRENT_HOST as SageMaker sets them");
}

}  // namespace

ClusterSource sagemaker_source() {
  return {.name = "SageMaker",
          .word = "sagemaker",
          .seen = sagemaker_seen,
          .resolve = resolve_sagemaker,
          .left = sagemaker_left};
}

}  // namespace muster::inline v0_1::cluster::internal
