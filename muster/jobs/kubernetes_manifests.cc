#include "muster/jobs/kubernetes_manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/base/hash.h"
#include "muster/base/strings.h"
#include "muster/jobs/internal/kubernetes_pod.h"
#include "muster/jobs/internal/kubernetes_values.h"
#include "muster/jobs/internal/yaml_text.h"

namespace muster::inline v0_1::jobs {
namespace {

using Json = nlohmann::ordered_json;
using internal::container_name;
using internal::KubernetesMaking;
using internal::labels;
using internal::pod_template;
using internal::secret_name;

Json metadata(const KubernetesMaking& making, const std::string& name,
              const std::string& role = "") {
  Json result = {{"name", name}};
  if (!making.options.name_space.empty()) result["namespace"] = making.options.name_space;
  result["labels"] = labels(making, role);
  return result;
}

Json indexed_job(const KubernetesMaking& making, const Pool& pool) {
  Json spec = {{"completions", pool.count},
               {"parallelism", pool.count},
               {"completionMode", "Indexed"},
               // One lost task makes all others of the job start again, each of which counts.
               {"backoffLimit", making.job.scheduling.restarts * pool.count}};
  if (making.job.scheduling.max_running_seconds > 0) {
    spec["activeDeadlineSeconds"] = making.job.scheduling.max_running_seconds;
  }
  spec["ttlSecondsAfterFinished"] = making.options.keep_seconds;
  spec["podFailurePolicy"]["rules"] = {
      // A node that is drained or taken away is not a failure of the pod.
      {{"action", "Ignore"}, {"onPodConditions", {{{"type", "DisruptionTarget"}}}}},
      {{"action", "FailJob"},
       {"onExitCodes",
        {{"containerName", container_name(making.options.kind)},
         {"operator", "NotIn"},
         {"values", kRetriedExitCodes}}}}};
  spec["template"] = pod_template(making, pool);
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", metadata(making, making.name + "-" + pool.role, pool.role)},
          {"spec", spec}};
}

// The name of each pod, while the job runs and before its containers do.
Json headless_service(const KubernetesMaking& making) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", metadata(making, making.name)},
      {"spec",
       {{"clusterIP", "None"},
        {"publishNotReadyAddresses", true},
        {"selector",
         {{"app.kubernetes.io/managed-by", "muster"}, {"app.kubernetes.io/instance", making.name}}},
        {"ports", {{{"name", "muster"}, {"port", making.options.port}}}}}}};
}

Json run_policy(const KubernetesMaking& making) {
  const Scheduling& scheduling = making.job.scheduling;
  Json result = {{"cleanPodPolicy", "Running"},
                 {"ttlSecondsAfterFinished", making.options.keep_seconds},
                 {"backoffLimit", scheduling.restarts * making.job.task_count()}};
  if (scheduling.max_running_seconds > 0) {
    result["activeDeadlineSeconds"] = scheduling.max_running_seconds;
  }
  return result;
}

Json replicas(const KubernetesMaking& making, const Pool& pool, int count) {
  return {
      {"replicas", count}, {"restartPolicy", "ExitCode"}, {"template", pod_template(making, pool)}};
}

Json kubeflow_job(const KubernetesMaking& making) {
  const JobSpec& job = making.job;
  const bool torch = making.options.kind == KubernetesKind::kPyTorchJob;
  Json specs = Json::object();
  for (const Pool& pool : job.pools) {
    if (pool.count == 0) continue;
    if (!torch) {
      const std::string master = job.chief_in_tf_config ? "Chief" : "Master";
      const std::map<std::string, std::string> types = {
          {"chief", master}, {"worker", "Worker"}, {"ps", "PS"}, {"evaluator", "Evaluator"}};
      specs[types.at(pool.role)] = replicas(making, pool, pool.count);
    } else if (pool.role == "chief") {
      specs["Master"] = replicas(making, pool, 1);
    } else if (pool.role == "worker") {
      // A PyTorchJob needs a master: without a chief it is the first worker.
      int count = pool.count;
      if (job.pool("chief") == nullptr) {
        specs["Master"] = replicas(making, pool, 1);
        --count;
      }
      if (count > 0) specs["Worker"] = replicas(making, pool, count);
    } else {
      throw invalid_argument(fmt::format("a PyTorchJob has no tasks of the role {}", pool.role),
                             "use --kind=job or tfjob, which have them");
    }
  }
  return {{"apiVersion", "kubeflow.org/v1"},
          {"kind", torch ? "PyTorchJob" : "TFJob"},
          {"metadata", metadata(making, making.name)},
          {"spec",
           {{"runPolicy", run_policy(making)},
            {torch ? "pytorchReplicaSpecs" : "tfReplicaSpecs", specs}}}};
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder.ends_with('/') ? folder : folder + "/");
}

std::vector<std::string> notes(const KubernetesMaking& making) {
  std::vector<std::string> result;
  const std::string& dir = making.job.job_dir;
  const KubernetesOptions& options = making.options;
  const bool on_volume = !options.volume_claim.empty() && is_below(dir, options.volume_path);
  if (!dir.empty() && dir.find("://") == std::string::npos && !on_volume) {
    result.push_back(fmt::format(
        "the job directory {} lies in the containers and is gone with them, so nothing continues "
        "after a restart: name a bucket (gs://, s3://), or a volume with {}",
        dir,
        // Volumes are mounted at absolute paths.
        dir.starts_with('/') ? "--volume=CLAIM:" + dir
                             : fmt::format("--volume=CLAIM:/models --job-dir=/models/{}", dir)));
  }
  if (making.plain() && making.distributed() && !options.volume_claim.empty()) {
    result.push_back(
        fmt::format("all tasks mount the claim {}: on several nodes it must be ReadWriteMany",
                    options.volume_claim));
  }
  std::set<std::string> machines, accelerators;
  bool disks = false;
  for (const Pool& pool : making.job.pools) {
    if (pool.count == 0) continue;
    if (!pool.machine_type.empty()) machines.insert(pool.machine_type);
    if (pool.accelerator.count > 0) accelerators.insert(pool.accelerator.type);
    disks = disks || pool.disk_gigabytes > 0 || !pool.disk_type.empty();
  }
  const auto listed = [](const std::set<std::string>& names) {
    return join({names.begin(), names.end()}, ", ");
  };
  if (!machines.empty() && options.machine_label.empty() && options.cpu.empty() &&
      options.memory.empty()) {
    result.push_back(fmt::format(
        "any node will do, not only {}: --cpu and --memory say what a task needs, --machine-label "
        "by which label of the nodes their machine type is known",
        listed(machines)));
  }
  if (!accelerators.empty() && options.accelerator_label.empty()) {
    result.push_back(fmt::format(
        "any {} will do, not only {}: --accelerator-label says by which label of the nodes they "
        "are known",
        options.gpu_resource, listed(accelerators)));
  }
  if (disks) result.push_back("the type and the size of the disks are not used");
  const Scheduling& scheduling = making.job.scheduling;
  if (scheduling.max_wait_seconds > 0) {
    result.push_back("the longest time to wait is not used: pods wait until there is a node");
  }
  if (scheduling.priority != 0 && options.priority_class.empty()) {
    result.push_back(fmt::format("the priority {} is not used: --priority-class names a class",
                                 scheduling.priority));
  }
  return result;
}

void check(const JobSpec& job, const KubernetesOptions& options) {
  if (job.task_count() == 0) {
    throw invalid_argument("the job has no tasks", "give it a chief, or workers");
  }
  if (options.volume_claim.empty() != options.volume_path.empty() ||
      (!options.volume_path.empty() && !options.volume_path.starts_with('/'))) {
    throw invalid_argument(
        fmt::format("--volume is '{}:{}'", options.volume_claim, options.volume_path),
        "write the name of a PersistentVolumeClaim, and the absolute path at which tasks see it: "
        "--volume=models:/models");
  }
}

}  // namespace

std::string leading_role(const JobSpec& job) {
  return job.pool("chief") != nullptr ? "chief" : "worker";
}

std::string kubernetes_name(const std::string& name) {
  // With "-evaluator-9999" after it, it is still a label of DNS.
  constexpr size_t kLongest = 44;
  std::string result;
  for (const char c : to_lower(name)) {
    const bool taken = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (taken) {
      result += c;
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  if (result.empty() || result[0] < 'a') result = "job-" + result;
  const auto without_end = [](std::string text) {
    while (text.ends_with('-')) text.pop_back();
    return text;
  };
  result = without_end(result);
  if (result.size() <= kLongest) return result;
  const std::string hash = fmt::format("{:08x}", fingerprint64(name) >> 32);
  return without_end(result.substr(0, kLongest - 1 - hash.size())) + "-" + hash;
}

KubernetesManifests kubernetes_manifests(const JobSpec& job, const std::string& name,
                                         const KubernetesOptions& options, bool tls) {
  check(job, options);
  KubernetesManifests result;
  result.name = kubernetes_name(name);
  const KubernetesMaking making{.job = job,
                                .options = options,
                                .name = result.name,
                                .tls = tls && job.task_count() > 1,
                                .cpu = internal::quantities("cpu", options.cpu),
                                .memory = internal::quantities("memory", options.memory)};
  if (making.plain()) {
    const std::string leading = leading_role(job);
    result.documents.push_back(indexed_job(making, *job.pool(leading)));
    for (const Pool& pool : job.pools) {
      if (pool.count > 0 && pool.role != leading) {
        result.documents.push_back(indexed_job(making, pool));
      }
    }
    if (making.distributed()) result.documents.push_back(headless_service(making));
  } else {
    result.documents.push_back(kubeflow_job(making));
  }
  result.notes = notes(making);
  return result;
}

Json kubernetes_secret(const KubernetesManifests& manifests, const KubernetesOptions& options,
                       const JobSecrets& secrets) {
  Json metadata = {{"name", secret_name(manifests.name)}};
  if (!options.name_space.empty()) metadata["namespace"] = options.name_space;
  metadata["labels"] = {{"app.kubernetes.io/managed-by", "muster"},
                        {"app.kubernetes.io/instance", manifests.name}};
  Json texts = {{"token", secrets.token}};
  if (secrets.certificates) {
    texts["ca.pem"] = secrets.certificates->authority;
    texts["cert.pem"] = secrets.certificates->certificate;
    texts["key.pem"] = secrets.certificates->key;
  }
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", metadata},
          {"type", "Opaque"},
          {"stringData", texts}};
}

std::string to_yaml(const KubernetesManifests& manifests) {
  std::string text;
  for (const Json& document : manifests.documents) {
    if (&document != &manifests.documents.front()) text += "---\n";
    text += internal::to_yaml(document);
  }
  return text;
}

}  // namespace muster::inline v0_1::jobs
