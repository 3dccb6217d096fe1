#include "muster/jobs/job_spec_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs {

// The library looks for these in addition to the types.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Accelerator, type, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pool, role, count, machine_type, accelerator, image, command,
                                   args, environment, disk_type, disk_gigabytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Scheduling, max_running_seconds, max_wait_seconds, priority,
                                   restart_on_worker_restart, restarts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HyperParameter, name, type, min_value, max_value, categories,
                                   values, scale)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HyperParameterSearch, maximize, parameters, max_trials,
                                   max_parallel_trials, max_failed_trials, metric_tag, algorithm,
                                   early_stopping)

std::string to_json_text(const JobSpec& job) {
  nlohmann::ordered_json json = {{"name", job.name},
                                 {"program", job.program},
                                 {"args", job.args},
                                 {"pools", nlohmann::json(job.pools)},
                                 {"chief_in_tf_config", job.chief_in_tf_config},
                                 {"job_dir", job.job_dir},
                                 {"region", job.region},
                                 {"project", job.project},
                                 {"service_account", job.service_account},
                                 {"network", job.network},
                                 {"tensorboard", job.tensorboard},
                                 {"labels", job.labels},
                                 {"scheduling", nlohmann::json(job.scheduling)},
                                 {"trial", job.trial}};
  if (job.search) json["search"] = nlohmann::json(*job.search);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

JobSpec job_spec_from_json(std::string_view text, const std::string& name) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    JobSpec job;
    json.at("name").get_to(job.name);
    json.at("program").get_to(job.program);
    json.at("args").get_to(job.args);
    json.at("pools").get_to(job.pools);
    json.at("chief_in_tf_config").get_to(job.chief_in_tf_config);
    json.at("job_dir").get_to(job.job_dir);
    json.at("region").get_to(job.region);
    json.at("project").get_to(job.project);
    json.at("service_account").get_to(job.service_account);
    json.at("network").get_to(job.network);
    json.at("tensorboard").get_to(job.tensorboard);
    json.at("labels").get_to(job.labels);
    json.at("scheduling").get_to(job.scheduling);
    json.at("trial").get_to(job.trial);
    if (json.contains("search")) job.search = json.at("search").get<HyperParameterSearch>();
    return job;
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(fmt::format("{} is not a job that this version wrote: {}", name, error.what()),
                  "submit the job again");
  }
}

}  // namespace muster::inline v0_1::jobs
