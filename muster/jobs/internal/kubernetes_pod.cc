#include "muster/jobs/internal/kubernetes_pod.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/cluster/tf_config.h"
#include "muster/jobs/internal/kubernetes_values.h"
#include "muster/jobs/internal/task_words.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTlsFolder = "/run/secrets/muster-tls";
// The group that may read the certificates and write the volume, whatever user the image has.
constexpr int kGroup = 10001;
// From SIGTERM to SIGKILL: a step and a save. `muster run` gives as much.
constexpr int kStopSeconds = 60;

std::string quantity_for(const std::map<std::string, std::string>& quantities,
                         const std::string& role) {
  for (const std::string& key : {role, std::string()}) {
    if (const auto it = quantities.find(key); it != quantities.end()) return it->second;
  }
  return "";
}

std::string tf_role(const JobSpec& job, const std::string& role) {
  return role == "chief" && !job.chief_in_tf_config ? "master" : role;
}

// Returns TF_CONFIG as the value of a variable: the index is a variable that Kubernetes fills in.
std::string tf_config(const KubernetesMaking& making, const Pool& pool) {
  cluster::TfConfig config;
  for (const Pool& other : making.job.pools) {
    if (other.role == "evaluator") continue;  // it is not part of the cluster
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

Json environment(const KubernetesMaking& making, const Pool& pool) {
  check_environment(pool);
  Json result = Json::array();
  const auto set = [&](const std::string& name, const std::string& value) {
    result.push_back({{"name", name}, {"value", value}});
  };
  for (const auto& [name, value] : pool.environment) set(name, literal(value));
  if (making.distributed()) {
    if (making.plain()) {
      if (pool.count > 1) {
        // Kubernetes sets this variable by itself, but after all others, where none can use it.
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

Json resources(const KubernetesMaking& making, const Pool& pool) {
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

Json container(const KubernetesMaking& making, const Pool& pool) {
  Json result = {{"name", container_name(making.options.kind)},
                 {"image", image_of(pool, making.options.image)}};
  const auto words = [&](const char* key, const std::vector<std::string>& all) {
    for (const std::string& word : all) result[key].push_back(literal(word));
  };
  words("command", command_of(making.job, pool));
  words("args", arguments_of(making.job, pool));
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
void add_volumes(const KubernetesMaking& making, const Pool& pool, Json& pod) {
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

Json node_selector(const KubernetesMaking& making, const Pool& pool) {
  const KubernetesOptions& options = making.options;
  Json result = Json::object();
  const auto select = [&](const std::string& label, const std::string& value) {
    check_label(label, value);
    result[label] = value;
  };
  for (const auto& [label, value] : options.node_selector) select(label, value);
  if (!options.machine_label.empty() && !pool.machine_type.empty()) {
    select(options.machine_label, pool.machine_type);
  }
  if (!options.accelerator_label.empty() && pool.accelerator.count > 0) {
    select(options.accelerator_label, accelerator_label_value(pool.accelerator.type));
  }
  return result;
}

}  // namespace

std::string secret_name(const std::string& name) { return name + "-secret"; }

Json labels(const KubernetesMaking& making, const std::string& role) {
  Json result = {{"app.kubernetes.io/managed-by", "muster"},
                 {"app.kubernetes.io/instance", making.name}};
  if (!role.empty()) result["app.kubernetes.io/component"] = role;
  for (const auto& [key, value] : making.job.labels) {
    check_label(key, value);
    result[key] = value;
  }
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

Json pod_template(const KubernetesMaking& making, const Pool& pool) {
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
    pod["tolerations"].push_back(toleration(text));
  }
  pod["containers"] = Json::array({container(making, pool)});
  add_volumes(making, pool, pod);
  return {{"metadata", {{"labels", labels(making, pool.role)}}}, {"spec", pod}};
}

}  // namespace muster::inline v0_1::jobs::internal
