#include "muster/jobs/config_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/jobs/internal/yaml_text.h"

namespace muster::inline v0_1::jobs {
namespace {

using Json = nlohmann::ordered_json;

std::string type_of(const Pool& pool) {
  return pool.machine_type.empty() ? "standard" : pool.machine_type;
}

Json replica_of(const Pool& pool) {
  Json replica = Json::object();
  if (!pool.image.empty()) replica["imageUri"] = pool.image;
  if (pool.accelerator.count > 0) {
    replica["acceleratorConfig"] = {{"count", pool.accelerator.count},
                                    {"type", pool.accelerator.type}};
  }
  if (!pool.command.empty()) replica["containerCommand"] = pool.command;
  if (!pool.args.empty()) replica["containerArgs"] = pool.args;
  return replica;
}

}  // namespace

std::string to_ai_platform_yaml(const JobSpec& job) {
  Json input = {{"scaleTier", "CUSTOM"}};
  const auto add = [&](const char* role, const std::string& name, bool counted) {
    const Pool* pool = job.pool(role);
    if (pool == nullptr) return;
    input[name + "Type"] = type_of(*pool);
    if (counted) input[name + "Count"] = pool->count;
    if (const Json replica = replica_of(*pool); !replica.empty()) input[name + "Config"] = replica;
  };
  add("chief", "master", false);
  add("worker", "worker", true);
  add("ps", "parameterServer", true);
  add("evaluator", "evaluator", true);
  input["useChiefInTfConfig"] = job.chief_in_tf_config;
  if (!job.args.empty()) input["args"] = job.args;
  if (!job.job_dir.empty()) input["jobDir"] = job.job_dir;
  if (!job.region.empty()) input["region"] = job.region;
  if (job.scheduling.max_running_seconds > 0) {
    input["scheduling"] = {
        {"maxRunningTime", fmt::format("{}s", job.scheduling.max_running_seconds)}};
  }
  return internal::to_yaml({{"trainingInput", input}});
}

}  // namespace muster::inline v0_1::jobs
