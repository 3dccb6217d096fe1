// A job as Kubernetes' documents: an Indexed Job for each role and a headless Service, or a TFJob
// or PyTorchJob of Kubeflow. Thread safety: pure functions.
//
// In an Indexed Job, pod i of role r has the name JOB-r-i.JOB, stable over restarts. TF_CONFIG is
// whole in the pod template except for the index, which Kubernetes inserts when it starts the
// container; so the image needs only the program, not even a shell.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/jobs/job_spec.h"
#include "muster/launch/certificates.h"

namespace muster::inline v0_1::jobs {

// The kind of documents for a job: Indexed Jobs, which every cluster has (Kubernetes 1.26 and
// newer), or a kind of Kubeflow's training operator, which has to be installed.
enum class KubernetesKind { kJob, kTfJob, kPyTorchJob };

// Settings that the cluster needs and a job's configuration does not contain.
struct KubernetesOptions {
  KubernetesKind kind = KubernetesKind::kJob;
  std::string name_space{};  // empty: the one of kubectl's context
  std::string image{};       // of pools that name none
  // The resources that each task asks for, in Kubernetes' units: "4" for all, or
  // "chief=8,worker=4"; empty: nothing.
  std::string cpu{};
  std::string memory{};                         // "16Gi", or "chief=32Gi,worker=16Gi"
  std::string gpu_resource = "nvidia.com/gpu";  // the resource by which accelerators are counted
  std::vector<std::pair<std::string, std::string>> node_selector = {};  // label and value
  // Labels of nodes by which machine types ("node.kubernetes.io/instance-type") and accelerators
  // ("cloud.google.com/gke-accelerator") are chosen; empty: they are not.
  std::string machine_label = {};
  std::string accelerator_label = {};
  // Taints that do not keep the pods away: "KEY", "KEY=VALUE", "KEY:EFFECT" or "KEY=VALUE:EFFECT".
  std::vector<std::string> tolerations = {};
  std::string volume_claim = {};        // a PersistentVolumeClaim, mounted in every task ...
  std::string volume_path = {};         // ... at this absolute path
  std::string environment_secret = {};  // a Secret whose entries become variables
  std::string service_account = {};     // of Kubernetes, for the rights of its cloud
  std::string image_pull_secret = {};
  std::string priority_class = {};
  int port = 2222;
  int64_t keep_seconds = 7 * 24 * 3600;  // how long an ended job, and its logs, can be seen
};

// Secrets that only the tasks of one job may know.
struct JobSecrets {
  std::string token{};
  std::optional<launch::Certificates> certificates{};  // for the host `name` of the manifests
};

// The documents of one job.
struct KubernetesManifests {
  std::string name{};  // of the job, as Kubernetes allows it; label app.kubernetes.io/instance
  // The first belongs to the task that leads. Without secrets: kubernetes_secret() makes those.
  std::vector<nlohmann::ordered_json> documents;
  std::vector<std::string> notes{};  // notes for the user, one sentence each
};

// The role whose end is the end of the job: "chief", or "worker" in a job without one.
std::string leading_role(const JobSpec& job);

// Returns a name that Kubernetes takes for a Service, and for pods with a role and an index after
// it: small letters, digits and '-', a letter first, at most 44 bytes. A longer one ends with a
// hash of the whole.
std::string kubernetes_name(const std::string& name);

// Makes the documents of the job that its record calls `name`. `tls` says whether there will be
// certificates. Throws InvalidArgument for a job without an image, for a job that the kind cannot
// run, and for values that Kubernetes does not take.
KubernetesManifests kubernetes_manifests(const JobSpec& job, const std::string& name,
                                         const KubernetesOptions& options, bool tls = false);

// Makes the Secret that the documents of this job refer to.
nlohmann::ordered_json kubernetes_secret(const KubernetesManifests& manifests,
                                         const KubernetesOptions& options,
                                         const JobSecrets& secrets);

// Returns the documents as one YAML text that `kubectl create -f -` takes.
std::string to_yaml(const KubernetesManifests& manifests);

}  // namespace muster::inline v0_1::jobs
