// The API server of Kubernetes, called inside a pod as the pod's service account. Thread safety:
// any threads.
#pragma once

#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/result.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// The address of the API server, and the account.
struct KubernetesApiOptions {
  std::string server{};  // "https://HOST:PORT"; empty: from KUBERNETES_SERVICE_HOST and _PORT
  // The folder with the service account's files: `token`, which is read for each call, and
  // `ca.crt`.
  std::string account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
  // The namespace whose pods are listed; empty: all namespaces, as in tf.distribute, for which the
  // account needs a ClusterRole.
  std::string name_space{};
  StoreOptions limits{};
};

class MUSTER_EXPORT KubernetesApi {
 public:
  // Throws InvalidArgument outside of a pod, unless the options name a server.
  explicit KubernetesApi(const Environment& environment, KubernetesApiOptions options = {});
  ~KubernetesApi();
  KubernetesApi(const KubernetesApi&) = delete;
  KubernetesApi& operator=(const KubernetesApi&) = delete;

  // Returns the PodList, as JSON, of the pods with these labels: "app=train,role=worker". Returns
  // InvalidArgument if the account may not list them or the selector is invalid, NotFound without
  // the files of the account, and Unavailable for errors that may pass.
  Result<std::string> list_pods(const std::string& label_selector) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::stores
