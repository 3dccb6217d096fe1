#include "apps/jobs/target_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/command/command_line.h"

namespace muster::app {
namespace {

// The flags, and the target that each belongs to.
struct Owned {
  const char* flag;
  std::vector<std::string> targets;
};
const std::vector<Owned>& owned_flags() {
  static const std::vector<Owned> all = {
      {"slurm", {"slurm"}},
      {"image", {"kubernetes", "vertex"}},
      {"kind", {"kubernetes"}},
      {"namespace", {"kubernetes"}},
      {"context", {"kubernetes"}},
      {"cpu", {"kubernetes"}},
      {"memory", {"kubernetes"}},
      {"gpu-resource", {"kubernetes"}},
      {"node-selector", {"kubernetes"}},
      {"machine-label", {"kubernetes"}},
      {"accelerator-label", {"kubernetes"}},
      {"tolerations", {"kubernetes"}},
      {"service-account", {"kubernetes"}},
      {"priority-class", {"kubernetes"}},
      {"volume", {"kubernetes"}},
      {"environment-secret", {"kubernetes"}},
      {"pull-secret", {"kubernetes"}},
      {"tls", {"kubernetes"}},
      {"show-secrets", {"kubernetes", "vertex"}},
      {"region", {"vertex"}},
      {"project", {"vertex"}},
  };
  return all;
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (const std::string& part : split(text, separator)) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// Reads "KEY=VALUE,KEY=VALUE".
std::vector<std::pair<std::string, std::string>> labels_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> labels;
  for (const std::string& part : parts_of(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw invalid_argument(fmt::format("--node-selector has '{}'", part),
                             "write KEY=VALUE, separated by commas");
    }
    labels.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return labels;
}

constexpr std::array<const char*, 3> kKinds = {"job", "tfjob", "pytorchjob"};

}  // namespace

void add_target_flags(CLI::App& command, TargetFlags& flags) {
  jobs::KubernetesTargetOptions& kubernetes = flags.options.kubernetes;
  jobs::KubernetesOptions& documents = kubernetes.documents;
  const auto flag = [&](const char* group, const Flag& it) {
    command::add_flag(command, it)->group(group);
  };
  flag("Slurm", {"slurm", &flags.slurm,
                 "Flags passed to sbatch, as in --slurm='--partition=gpu --account=lab'"});
  const char* const both = "Kubernetes and Vertex AI";
  flag(both, {"image", &flags.image, "Container image, if the configuration has none"});
  flag(both, {"show-secrets", &kubernetes.show_secrets,
              "Let --dry-run also show a token, made for this output only"});
  const char* const group = "Kubernetes";
  flag(group, {"kind",
               &flags.kind,
               "Kind of object to create: job (Indexed Jobs), or Kubeflow's tfjob or pytorchjob",
               {},
               {},
               {kKinds.begin(), kKinds.end()}});
  flag(group,
       {"namespace", &documents.name_space, "Namespace of the job; empty: kubectl's current one"});
  flag(group, {"context", &kubernetes.context,
               "Context of kubectl's configuration; empty: its current one"});
  flag(group, {"cpu", &documents.cpu, "CPUs of each task: 4, or chief=8,worker=4"});
  flag(group,
       {"memory", &documents.memory, "Memory of each task: 16Gi, or chief=32Gi,worker=16Gi"});
  flag(group, {"gpu-resource", &documents.gpu_resource, "Resource name of accelerators"});
  flag(group,
       {"node-selector", &flags.node_selector, "Labels of the nodes to use: KEY=VALUE,KEY=VALUE"});
  flag(group, {"machine-label", &documents.machine_label,
               "Node label that holds the machine type: node.kubernetes.io/instance-type"});
  flag(group, {"accelerator-label", &documents.accelerator_label,
               "Node label that holds the accelerator: cloud.google.com/gke-accelerator"});
  flag(group, {"service-account", &documents.service_account,
               "Kubernetes service account of the tasks, for example with access to a bucket"});
  flag(group, {"priority-class", &documents.priority_class, "PriorityClass of the tasks"});
  flag(group, {"tolerations", &flags.tolerations,
               "Taints that the tasks tolerate: KEY=VALUE:EFFECT, separated by commas"});
  flag(group,
       {"volume", &flags.volume, "PersistentVolumeClaim to mount in every task: CLAIM:/PATH"});
  flag(group, {"environment-secret", &documents.environment_secret,
               "Secret whose entries become environment variables"});
  flag(group, {"pull-secret", &documents.image_pull_secret, "Secret for pulling images"});
  flag(group, {"tls", &kubernetes.tls,
               "Encrypt calls to the coordinator, with certificates made for the job"});
  flag("Vertex AI", {"region", &flags.options.vertex.place.region,
                     "Region, such as us-central1; empty: as in the configuration"});
  flag("Vertex AI", {"project", &flags.options.vertex.place.project,
                     "Google Cloud project; empty: gcloud's current one, or GOOGLE_CLOUD_PROJECT "
                     "without gcloud"});
}

jobs::TargetOptions target_options(const CLI::App& command, const TargetFlags& flags,
                                   const std::string& target) {
  for (const Owned& owned : owned_flags()) {
    const CLI::Option* option = command.get_option_no_throw(std::string("--") + owned.flag);
    if (option == nullptr || option->count() == 0) continue;
    if (std::ranges::find(owned.targets, target) != owned.targets.end()) continue;
    throw invalid_argument(fmt::format("--{} applies only to --to={}, but the target is {}",
                                       owned.flag, join(owned.targets, " or "), target),
                           fmt::format("add --to={}, or omit the flag", owned.targets.front()));
  }
  jobs::TargetOptions options = flags.options;
  options.slurm_flags = parts_of(flags.slurm, ' ');
  options.vertex.job.image = flags.image;
  options.vertex.show_secrets = options.kubernetes.show_secrets;
  jobs::KubernetesOptions& documents = options.kubernetes.documents;
  documents.image = flags.image;
  documents.kind = flags.kind == kKinds[1]   ? jobs::KubernetesKind::kTfJob
                   : flags.kind == kKinds[2] ? jobs::KubernetesKind::kPyTorchJob
                                             : jobs::KubernetesKind::kJob;
  documents.node_selector = labels_of(flags.node_selector);
  documents.tolerations = parts_of(flags.tolerations, ',');
  if (!flags.volume.empty()) {
    const size_t colon = flags.volume.find(':');
    const std::string path = colon == std::string::npos ? "" : flags.volume.substr(colon + 1);
    if (colon == 0 || !path.starts_with('/')) {
      throw invalid_argument(fmt::format("--volume is '{}'", flags.volume),
                             "write the name of a PersistentVolumeClaim and an absolute mount "
                             "path: --volume=models:/models");
    }
    documents.volume_claim = flags.volume.substr(0, colon);
    documents.volume_path = flags.volume.substr(colon + 1);
  }
  return options;
}

}  // namespace muster::app
