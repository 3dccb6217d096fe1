#include "muster/jobs/kubernetes_manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/cluster/tf_config.h"
#include "muster/jobs/internal/kubernetes_values.h"
#include "muster/jobs/internal/task_words.h"
#include "muster/jobs/internal/yaml_text.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs {
namespace {

using Json = nlohmann::ordered_json;
using internal::literal;

constexpr std::string_view kTlsFolder = "/run/secrets/muster-tls";
// The group that may read the certificates and write the volume, whatever user the image has.
constexpr int kGroup = 10001;
// From SIGTERM to SIGKILL: a step and a save. `muster run` gives as much.
constexpr int kStopSeconds = 60;
// Exit codes that say that the same command will do better another time; see docs/reliability.md.
constexpr std::array kRetried = {130, 137, 138, 143};

// A document in the making: what all its parts look up.
struct Making {
  const JobSpec& job;
  const KubernetesOptions& options;
  const std::string& name;
  bool tls;
  std::map<std::string, std::string> cpu, memory;

  bool distributed() const { return job.task_count() > 1; }
  bool plain() const { return options.kind == KubernetesKind::kJob; }
};

std::string secret_name(const std::string& name) { return name + "-secret"; }

std::string quantity_for(const std::map<std::string, std::string>& quantities,
                         const std::string& role) {
  for (const std::string& key : {role, std::string()}) {
    if (const auto it = quantities.find(key); it != quantities.end()) return it->second;
  }
  return "";
}

Json labels(const Making& making, const std::string& role = "") {
  Json result = {{"app.kubernetes.io/managed-by", "muster"},
                 {"app.kubernetes.io/instance", making.name}};
  if (!role.empty()) result["app.kubernetes.io/component"] = role;
  for (const auto& [key, value] : making.job.labels) {
    internal::check_label(key, value);
    result[key] = value;
  }
  return result;
}

Json metadata(const Making& making, const std::string& name, const std::string& role = "") {
  Json result = {{"name", name}};
  if (!making.options.name_space.empty()) result["namespace"] = making.options.name_space;
  result["labels"] = labels(making, role);
  return result;
}

std::string tf_role(const JobSpec& job, const std::string& role) {
  return role == "chief" && !job.chief_in_tf_config ? "master" : role;
}

// Returns TF_CONFIG as the value of a variable: the index is a variable that Kubernetes fills in.
std::string tf_config(const Making& making, const Pool& pool) {
  cluster::TfConfig config;
  for (const Pool& other : making.job.pools) {
    if (other.role == "evaluator") continue;  // it is no part of the cluster
    for (int i = 0; i < other.count; ++i) {
      config.cluster.add(
          {tf_role(making.job, other.role), i},
          fmt::format("{0}-{1}-{2}.{0}:{3}", making.name, other.role, i, making.options.port));
    }
  }
  std::string text = cluster::to_json_text(config);
  text.pop_back();  // the last brace
  return text + fmt::format(R"(,"task":{{"type":"{}","index":{}}}}})",
                            tf_role(making.job, pool.role),
                            pool.count > 1 ? "$(JOB_COMPLETION_INDEX)" : "0");
}

Json environment(const Making& making, const Pool& pool) {
  check_environment(pool);
  Json result = Json::array();
  const auto set = [&](const std::string& name, const std::string& value) {
    result.push_back({{"name", name}, {"value", value}});
  };
  for (const auto& [name, value] : pool.environment) set(name, literal(value));
  if (making.distributed()) {
    if (making.plain()) {
      if (pool.count > 1) {
        // Kubernetes sets this variable by itself, but behind all others, where none can use it.
        result.push_back(
            {{"name", "JOB_COMPLETION_INDEX"},
             {"valueFrom",
              {{"fieldRef",
                {{"fieldPath",
                  "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}}}});
      }
      set("TF_CONFIG", tf_config(making, pool));
    }
    set("MUSTER_JOB_ID", making.name);
    result.push_back(
        {{"name", "MUSTER_JOB_TOKEN"},
         {"valueFrom",
          {{"secretKeyRef", {{"name", secret_name(making.name)}, {"key", "token"}}}}}});
  }
  if (making.tls) {
    set("MUSTER_TLS_CERT", fmt::format("{}/cert.pem", kTlsFolder));
    set("MUSTER_TLS_KEY", fmt::format("{}/key.pem", kTlsFolder));
    set("MUSTER_TLS_CA", fmt::format("{}/ca.pem", kTlsFolder));
    set("MUSTER_TLS_SERVER_NAME", making.name);
  }
  return result;
}

Json resources(const Making& making, const Pool& pool) {
  Json requests = Json::object(), limits = Json::object();
  const std::string cpu = quantity_for(making.cpu, pool.role);
  const std::string memory = quantity_for(making.memory, pool.role);
  if (!cpu.empty()) requests["cpu"] = cpu;
  if (!memory.empty()) requests["memory"] = limits["memory"] = memory;
  if (pool.accelerator.count > 0) limits[making.options.gpu_resource] = pool.accelerator.count;
  Json result = Json::object();
  if (!requests.empty()) result["requests"] = requests;
  if (!limits.empty()) result["limits"] = limits;
  return result;
}

std::string_view container_name(KubernetesKind kind) {
  switch (kind) {
    case KubernetesKind::kTfJob:
      return "tensorflow";  // Kubeflow's operators look for these names
    case KubernetesKind::kPyTorchJob:
      return "pytorch";
    case KubernetesKind::kJob:
      break;
  }
  return "program";
}

Json container(const Making& making, const Pool& pool) {
  const std::string& image = pool.image.empty() ? making.options.image : pool.image;
  if (image.empty()) {
    throw invalid_argument(
        fmt::format("no container image for the {} of the job", pool.role),
        "name it in the configuration (masterConfig: imageUri), or with --image; `muster image` "
        "builds one");
  }
  Json result = {{"name", container_name(making.options.kind)}, {"image", image}};
  const auto words = [&](const char* key, const std::vector<std::string>& all) {
    for (const std::string& word : all) result[key].push_back(literal(word));
  };
  words("command", internal::command_of(making.job, pool));
  words("args", internal::arguments_of(making.job, pool));
  if (Json env = environment(making, pool); !env.empty()) result["env"] = std::move(env);
  if (!making.options.environment_secret.empty()) {
    result["envFrom"] = {{{"secretRef", {{"name", making.options.environment_secret}}}}};
  }
  if (making.distributed() && making.plain() && pool.role != "evaluator") {
    result["ports"] = {{{"name", "muster"}, {"containerPort", making.options.port}}};
  }
  if (Json wanted = resources(making, pool); !wanted.empty()) {
    result["resources"] = std::move(wanted);
  }
  return result;
}

// Puts the volumes that there are into the pod, and mounts them in its container.
void add_volumes(const Making& making, const Pool& pool, Json& pod) {
  Json volumes = Json::array(), mounts = Json::array();
  const auto add = [&](const char* name, const Json& source, const std::string& path,
                       bool read_only) {
    volumes.push_back({{"name", name}});
    volumes.back().update(source);
    mounts.push_back({{"name", name}, {"mountPath", path}});
    if (read_only) mounts.back()["readOnly"] = true;
  };
  const KubernetesOptions& options = making.options;
  if (!options.volume_claim.empty()) {
    add("model", {{"persistentVolumeClaim", {{"claimName", options.volume_claim}}}},
        options.volume_path, false);
  }
  if (making.tls) {
    Json files = Json::array();
    for (const char* file : {"ca.pem", "cert.pem", "key.pem"}) {
      files.push_back({{"key", file}, {"path", file}});
    }
    add("tls",
        {{"secret",
          {{"secretName", secret_name(making.name)}, {"items", files}, {"defaultMode", 0440}}}},
        std::string(kTlsFolder), true);
  }
  // The GPUs of one machine talk over shared memory, of which a container has 64 MB.
  if (pool.accelerator.count > 1) {
    add("shared-memory", {{"emptyDir", {{"medium", "Memory"}}}}, "/dev/shm", false);
  }
  if (volumes.empty()) return;
  pod["containers"][0]["volumeMounts"] = mounts;
  pod["volumes"] = volumes;
  if (making.tls || !options.volume_claim.empty()) {
    pod["securityContext"] = {{"fsGroup", kGroup}, {"fsGroupChangePolicy", "OnRootMismatch"}};
  }
}

Json node_selector(const Making& making, const Pool& pool) {
  const KubernetesOptions& options = making.options;
  Json result = Json::object();
  const auto select = [&](const std::string& label, const std::string& value) {
    internal::check_label(label, value);
    result[label] = value;
  };
  for (const auto& [label, value] : options.node_selector) select(label, value);
  if (!options.machine_label.empty() && !pool.machine_type.empty()) {
    select(options.machine_label, pool.machine_type);
  }
  if (!options.accelerator_label.empty() && pool.accelerator.count > 0) {
    select(options.accelerator_label, internal::accelerator_label_value(pool.accelerator.type));
  }
  return result;
}

Json pod_template(const Making& making, const Pool& pool) {
  const KubernetesOptions& options = making.options;
  Json pod = Json::object();
  if (making.plain()) {
    if (making.distributed()) pod["subdomain"] = making.name;
    pod["restartPolicy"] = "Never";  // what podFailurePolicy asks for: the Job makes a new pod
  }
  pod["terminationGracePeriodSeconds"] = kStopSeconds;
  // Variables for every service of the namespace would only be in the way.
  pod["enableServiceLinks"] = false;
  if (options.service_account.empty()) {
    pod["automountServiceAccountToken"] = false;
  } else {
    pod["serviceAccountName"] = options.service_account;
  }
  if (!options.image_pull_secret.empty()) {
    pod["imagePullSecrets"] = {{{"name", options.image_pull_secret}}};
  }
  if (!options.priority_class.empty()) pod["priorityClassName"] = options.priority_class;
  if (Json selector = node_selector(making, pool); !selector.empty()) {
    pod["nodeSelector"] = std::move(selector);
  }
  for (const std::string& text : options.tolerations) {
    pod["tolerations"].push_back(internal::toleration(text));
  }
  pod["containers"] = Json::array({container(making, pool)});
  add_volumes(making, pool, pod);
  return {{"metadata", {{"labels", labels(making, pool.role)}}}, {"spec", pod}};
}

Json indexed_job(const Making& making, const Pool& pool) {
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
      // A node that is drained or taken away is nobody's failure.
      {{"action", "Ignore"}, {"onPodConditions", {{{"type", "DisruptionTarget"}}}}},
      {{"action", "FailJob"},
       {"onExitCodes",
        {{"containerName", container_name(making.options.kind)},
         {"operator", "NotIn"},
         {"values", kRetried}}}}};
  spec["template"] = pod_template(making, pool);
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", metadata(making, making.name + "-" + pool.role, pool.role)},
          {"spec", spec}};
}

// The name of each pod, while the job runs and before its containers do.
Json headless_service(const Making& making) {
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

Json run_policy(const Making& making) {
  const Scheduling& scheduling = making.job.scheduling;
  Json result = {{"cleanPodPolicy", "Running"},
                 {"ttlSecondsAfterFinished", making.options.keep_seconds},
                 {"backoffLimit", scheduling.restarts * making.job.task_count()}};
  if (scheduling.max_running_seconds > 0) {
    result["activeDeadlineSeconds"] = scheduling.max_running_seconds;
  }
  return result;
}

Json replicas(const Making& making, const Pool& pool, int count) {
  return {
      {"replicas", count}, {"restartPolicy", "ExitCode"}, {"template", pod_template(making, pool)}};
}

Json kubeflow_job(const Making& making) {
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

std::vector<std::string> notes(const Making& making) {
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
  // With "-evaluator-9999" behind it, it is a label of DNS still.
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
  KubernetesManifests result{.name = kubernetes_name(name)};
  const Making making{.job = job,
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
