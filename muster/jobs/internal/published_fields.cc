#include "muster/jobs/internal/published_fields.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/strings.h"
#include "muster/files/regular_expression.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using nlohmann::json;

// A type is the name of an entry below, or one of: text, whole, bool, quantity (of a resource),
// texts (a map of texts), quantities (a map of them), label (of DNS: RFC 1123), words separated by
// '|' (one of these), and [TYPE] (a list). A field with '!' before it is required.
const std::map<std::string, std::map<std::string, std::string>>& types() {
  static const std::map<std::string, std::map<std::string, std::string>> kTypes = {
      {"Meta",
       {{"!name", "label"},
        {"namespace", "label"},
        {"labels", "labels"},
        {"annotations", "texts"},
        {"ownerReferences", "[Owner]"}}},
      {"Owner",
       {{"!apiVersion", "text"},
        {"!kind", "text"},
        {"!name", "text"},
        {"!uid", "text"},
        {"controller", "bool"},
        {"blockOwnerDeletion", "bool"}}},

      {"v1 Service",
       {{"!apiVersion", "v1"},
        {"!kind", "Service"},
        {"!metadata", "Meta"},
        {"!spec", "ServiceSpec"}}},
      {"ServiceSpec",
       {{"clusterIP", "text"},
        {"publishNotReadyAddresses", "bool"},
        {"selector", "labels"},
        {"ports", "[ServicePort]"},
        {"type", "ClusterIP|NodePort|LoadBalancer|ExternalName"}}},
      {"ServicePort",
       {{"name", "label"},
        {"!port", "whole"},
        {"targetPort", "whole"},
        {"protocol", "TCP|UDP|SCTP"}}},

      {"v1 Secret",
       {{"!apiVersion", "v1"},
        {"!kind", "Secret"},
        {"!metadata", "Meta"},
        {"type", "text"},
        {"immutable", "bool"},
        {"data", "texts"},
        {"stringData", "texts"}}},

      {"batch/v1 Job",
       {{"!apiVersion", "batch/v1"},
        {"!kind", "Job"},
        {"!metadata", "Meta"},
        {"!spec", "JobSpec"}}},
      {"JobSpec",
       {{"completions", "whole"},
        {"parallelism", "whole"},
        {"completionMode", "Indexed|NonIndexed"},
        {"backoffLimit", "whole"},
        {"backoffLimitPerIndex", "whole"},
        {"maxFailedIndexes", "whole"},
        {"activeDeadlineSeconds", "whole"},
        {"ttlSecondsAfterFinished", "whole"},
        {"suspend", "bool"},
        {"podFailurePolicy", "PodFailurePolicy"},
        {"podReplacementPolicy", "Failed|TerminatingOrFailed"},
        {"!template", "PodTemplate"}}},
      {"PodFailurePolicy", {{"!rules", "[PodFailureRule]"}}},
      {"PodFailureRule",
       {{"!action", "FailJob|FailIndex|Ignore|Count"},
        {"onExitCodes", "OnExitCodes"},
        {"onPodConditions", "[OnPodCondition]"}}},
      {"OnExitCodes",
       {{"containerName", "label"}, {"!operator", "In|NotIn"}, {"!values", "[whole]"}}},
      {"OnPodCondition", {{"!type", "text"}, {"status", "True|False|Unknown"}}},

      {"PodTemplate", {{"metadata", "PodMeta"}, {"!spec", "PodSpec"}}},
      {"PodMeta", {{"labels", "labels"}, {"annotations", "texts"}}},
      {"PodSpec",
       {{"subdomain", "label"},
        {"hostname", "label"},
        {"restartPolicy", "Always|OnFailure|Never"},
        {"terminationGracePeriodSeconds", "whole"},
        {"activeDeadlineSeconds", "whole"},
        {"enableServiceLinks", "bool"},
        {"automountServiceAccountToken", "bool"},
        {"serviceAccountName", "text"},
        {"imagePullSecrets", "[Reference]"},
        {"priorityClassName", "text"},
        {"nodeSelector", "labels"},
        {"tolerations", "[Toleration]"},
        {"securityContext", "PodSecurity"},
        {"volumes", "[Volume]"},
        {"!containers", "[Container]"}}},
      {"Reference", {{"name", "text"}}},
      {"Toleration",
       {{"key", "text"},
        {"operator", "Exists|Equal"},
        {"value", "text"},
        {"effect", "NoSchedule|PreferNoSchedule|NoExecute"},
        {"tolerationSeconds", "whole"}}},
      {"PodSecurity",
       {{"fsGroup", "whole"},
        {"fsGroupChangePolicy", "OnRootMismatch|Always"},
        {"runAsUser", "whole"},
        {"runAsGroup", "whole"},
        {"runAsNonRoot", "bool"}}},
      {"Volume",
       {{"!name", "label"},
        {"emptyDir", "EmptyDir"},
        {"secret", "SecretVolume"},
        {"persistentVolumeClaim", "ClaimVolume"}}},
      {"EmptyDir", {{"medium", "Memory|HugePages"}, {"sizeLimit", "quantity"}}},
      {"SecretVolume",
       {{"secretName", "text"},
        {"items", "[KeyToPath]"},
        {"defaultMode", "whole"},
        {"optional", "bool"}}},
      {"KeyToPath", {{"!key", "text"}, {"!path", "text"}, {"mode", "whole"}}},
      {"ClaimVolume", {{"!claimName", "text"}, {"readOnly", "bool"}}},
      {"Container",
       {{"!name", "label"},
        {"image", "text"},
        {"imagePullPolicy", "Always|Never|IfNotPresent"},
        {"command", "[text]"},
        {"args", "[text]"},
        {"workingDir", "text"},
        {"env", "[Variable]"},
        {"envFrom", "[VariableSource]"},
        {"ports", "[ContainerPort]"},
        {"resources", "Resources"},
        {"volumeMounts", "[Mount]"}}},
      {"Variable", {{"!name", "text"}, {"value", "text"}, {"valueFrom", "ValueFrom"}}},
      {"ValueFrom", {{"fieldRef", "FieldRef"}, {"secretKeyRef", "KeyRef"}}},
      {"FieldRef", {{"apiVersion", "text"}, {"!fieldPath", "text"}}},
      {"KeyRef", {{"name", "text"}, {"!key", "text"}, {"optional", "bool"}}},
      {"VariableSource", {{"prefix", "text"}, {"secretRef", "OptionalReference"}}},
      {"OptionalReference", {{"name", "text"}, {"optional", "bool"}}},
      {"ContainerPort",
       {{"name", "label"}, {"!containerPort", "whole"}, {"protocol", "TCP|UDP|SCTP"}}},
      {"Resources", {{"limits", "quantities"}, {"requests", "quantities"}}},
      {"Mount",
       {{"!name", "label"}, {"!mountPath", "text"}, {"readOnly", "bool"}, {"subPath", "text"}}},

      {"kubeflow.org/v1 TFJob",
       {{"!apiVersion", "kubeflow.org/v1"},
        {"!kind", "TFJob"},
        {"!metadata", "Meta"},
        {"!spec", "TFJobSpec"}}},
      {"TFJobSpec",
       {{"runPolicy", "RunPolicy"},
        {"successPolicy", "|AllWorkers"},
        {"enableDynamicWorker", "bool"},
        {"!tfReplicaSpecs", "TFReplicas"}}},
      {"TFReplicas",
       {{"Chief", "Replicas"},
        {"Master", "Replicas"},
        {"Worker", "Replicas"},
        {"PS", "Replicas"},
        {"Evaluator", "Replicas"}}},
      {"kubeflow.org/v1 PyTorchJob",
       {{"!apiVersion", "kubeflow.org/v1"},
        {"!kind", "PyTorchJob"},
        {"!metadata", "Meta"},
        {"!spec", "PyTorchJobSpec"}}},
      {"PyTorchJobSpec",
       {{"runPolicy", "RunPolicy"},
        {"nprocPerNode", "text"},
        {"!pytorchReplicaSpecs", "TorchReplicas"}}},
      {"TorchReplicas", {{"Master", "Replicas"}, {"Worker", "Replicas"}}},
      {"RunPolicy",
       {{"cleanPodPolicy", "All|Running|None"},
        {"ttlSecondsAfterFinished", "whole"},
        {"activeDeadlineSeconds", "whole"},
        {"backoffLimit", "whole"},
        {"suspend", "bool"}}},
      {"Replicas",
       {{"replicas", "whole"},
        {"restartPolicy", "Always|OnFailure|Never|ExitCode"},
        {"template", "PodTemplate"}}},

      {"CustomJob",
       {{"!displayName", "text"},
        {"!jobSpec", "CustomJobSpec"},
        {"labels", "texts"},
        {"encryptionSpec", "EncryptionSpec"}}},
      {"EncryptionSpec", {{"!kmsKeyName", "text"}}},
      {"CustomJobSpec",
       {{"!workerPoolSpecs", "[WorkerPoolSpec]"},
        {"scheduling", "VertexScheduling"},
        {"serviceAccount", "text"},
        {"network", "text"},
        {"reservedIpRanges", "[text]"},
        {"baseOutputDirectory", "GcsDestination"},
        {"tensorboard", "text"},
        {"enableWebAccess", "bool"},
        {"enableDashboardAccess", "bool"},
        {"experiment", "text"},
        {"experimentRun", "text"}}},
      {"GcsDestination", {{"!outputUriPrefix", "text"}}},
      {"VertexScheduling",
       {{"timeout", "duration"},
        {"restartJobOnWorkerRestart", "bool"},
        {"disableRetries", "bool"},
        {"maxWaitDuration", "duration"}}},
      {"WorkerPoolSpec",
       {{"machineSpec", "MachineSpec"},
        {"replicaCount", "number"},
        {"diskSpec", "DiskSpec"},
        {"containerSpec", "ContainerSpec"}}},
      {"MachineSpec",
       {{"!machineType", "text"}, {"acceleratorType", "text"}, {"acceleratorCount", "number"}}},
      {"DiskSpec", {{"bootDiskType", "text"}, {"bootDiskSizeGb", "number"}}},
      {"ContainerSpec",
       {{"!imageUri", "text"}, {"command", "[text]"}, {"args", "[text]"}, {"env", "[EnvVar]"}}},
      {"EnvVar", {{"!name", "text"}, {"!value", "text"}}},

      {"HyperparameterTuningJob",
       {{"!displayName", "text"},
        {"!studySpec", "StudySpec"},
        {"!maxTrialCount", "number"},
        {"!parallelTrialCount", "number"},
        {"maxFailedTrialCount", "number"},
        {"!trialJobSpec", "CustomJobSpec"},
        {"labels", "texts"}}},
      {"StudySpec",
       {{"!metrics", "[MetricSpec]"},
        {"!parameters", "[ParameterSpec]"},
        {"algorithm", "ALGORITHM_UNSPECIFIED|GRID_SEARCH|RANDOM_SEARCH"},
        {"medianAutomatedStoppingSpec", "MedianStopping"}}},
      {"MedianStopping", {{"useElapsedDuration", "bool"}}},
      {"MetricSpec", {{"!metricId", "text"}, {"!goal", "MAXIMIZE|MINIMIZE"}}},
      {"ParameterSpec",
       {{"!parameterId", "text"},
        {"scaleType", "UNIT_LINEAR_SCALE|UNIT_LOG_SCALE|UNIT_REVERSE_LOG_SCALE"},
        {"doubleValueSpec", "DoubleValues"},
        {"integerValueSpec", "IntegerValues"},
        {"categoricalValueSpec", "CategoricalValues"},
        {"discreteValueSpec", "DiscreteValues"}}},
      {"DoubleValues", {{"!minValue", "real"}, {"!maxValue", "real"}}},
      {"IntegerValues", {{"!minValue", "number"}, {"!maxValue", "number"}}},
      {"CategoricalValues", {{"!values", "[text]"}}},
      {"DiscreteValues", {{"!values", "[real]"}}},
  };
  return kTypes;
}

bool matches(const std::string& pattern, const json& value) {
  return value.is_string() && RegularExpression(pattern).full_match(value.get<std::string>());
}

bool is_label_value(const json& value) {
  return matches("([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value);
}

bool is_quantity(const json& value) {
  return value.is_number_integer() ||
         matches("[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?", value);
}

bool is_map_of(const json& value, bool (*is)(const json&)) {
  if (!value.is_object()) return false;
  for (const json& item : value) {
    if (!is(item)) return false;
  }
  return true;
}

bool is_text(const json& value) { return value.is_string(); }

// Whether the value has this type, which is none with fields.
bool is_simple(const json& value, const std::string& type) {
  if (type == "text") return value.is_string();
  if (type == "whole") return value.is_number_integer();
  if (type == "number") return value.is_number_integer() || matches("-?[0-9]+", value);
  if (type == "real") return value.is_number();
  if (type == "duration") return matches("[0-9]+(\\.[0-9]+)?s", value);
  if (type == "bool") return value.is_boolean();
  if (type == "label") return matches("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value);
  if (type == "quantity") return is_quantity(value);
  if (type == "texts") return is_map_of(value, is_text);
  if (type == "labels") return is_map_of(value, is_label_value);
  if (type == "quantities") return is_map_of(value, is_quantity);
  for (const std::string& word : split(type, '|')) {
    if (value.is_string() && value.get<std::string>() == word) return true;
  }
  return false;
}

void check(const json& value, const std::string& type, const std::string& path,
           std::vector<std::string>& problems) {
  if (type.starts_with('[')) {
    if (!value.is_array()) return problems.push_back(path + " is not a list");
    for (size_t i = 0; i < value.size(); ++i) {
      check(value[i], type.substr(1, type.size() - 2), fmt::format("{}[{}]", path, i), problems);
    }
    return;
  }
  const auto fields = types().find(type);
  if (fields == types().end()) {
    if (!is_simple(value, type)) {
      problems.push_back(fmt::format("{} is {}, no {}", path, value.dump(), type));
    }
    return;
  }
  if (!value.is_object()) return problems.push_back(path + " is not an object");
  for (const auto& [name, item] : value.items()) {
    const std::string place = path + "." + name;
    auto field = fields->second.find(name);
    if (field == fields->second.end()) field = fields->second.find("!" + name);
    if (field == fields->second.end()) {
      problems.push_back(place + " is not a field");
    } else {
      check(item, field->second, place, problems);
    }
  }
  for (const auto& [name, item_type] : fields->second) {
    if (name.starts_with('!') && !value.contains(name.substr(1))) {
      problems.push_back(path + " has no " + name.substr(1));
    }
  }
}

// The API server's rules beyond types, for a template in a Job.
void check_job_rules(const json& job, std::vector<std::string>& problems) {
  const json& spec = job.at("spec");
  const json& pod = spec.at("template").at("spec");
  if (spec.contains("podFailurePolicy") && pod.value("restartPolicy", "") != "Never") {
    problems.push_back("podFailurePolicy needs restartPolicy: Never");
  }
  for (const json& container : pod.at("containers")) {
    for (const json& mount : container.value("volumeMounts", json::array())) {
      bool known = false;
      for (const json& volume : pod.value("volumes", json::array())) {
        known = known || volume.at("name") == mount.at("name");
      }
      if (!known) problems.push_back("no volume " + mount.at("name").dump());
    }
  }
}

}  // namespace

std::vector<std::string> kubernetes_problems(const json& document) {
  const std::string kind =
      document.value("apiVersion", std::string()) + " " + document.value("kind", std::string());
  if (!types().contains(kind)) return {"no kind '" + kind + "'"};
  std::vector<std::string> problems;
  check(document, kind, document.value("kind", ""), problems);
  if (problems.empty() && kind == "batch/v1 Job") check_job_rules(document, problems);
  return problems;
}

std::vector<std::string> vertex_problems(const json& resource) {
  const bool tuning = resource.contains("studySpec");
  std::vector<std::string> problems;
  check(resource, tuning ? "HyperparameterTuningJob" : "CustomJob", "job", problems);
  if (!problems.empty()) return problems;
  const json& pools = resource.at(tuning ? "trialJobSpec" : "jobSpec").at("workerPoolSpecs");
  for (size_t i = 0; i < pools.size(); ++i) {
    if (i > 0 && pools[i].empty()) continue;  // a pool that is not used
    for (const char* field : {"machineSpec", "replicaCount", "containerSpec"}) {
      if (!pools[i].contains(field)) problems.push_back(fmt::format("pool {} has no {}", i, field));
    }
  }
  if (pools.size() > 4) problems.push_back("more than 4 pools");
  const json count = pools.empty() ? json() : pools[0].value("replicaCount", json());
  if (count != json(1) && count != json("1")) problems.push_back("pool 0 has not 1 task");
  return problems;
}

}  // namespace muster::inline v0_1::jobs::internal
