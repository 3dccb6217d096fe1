// The API server of Kubernetes, asked from inside of a pod as the pod's service account. Thread
// safety: any threads.
#pragma once

#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/result.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// Where the API server is, and as whom it is asked.
struct KubernetesApiOptions {
  std::string server{};  // "https://HOST:PORT"; empty: what KUBERNETES_SERVICE_HOST and _PORT say
  // Of the service account: the files `token`, which is read for each call, and `ca.crt`.
  std::string account_folder = "/var/run/secrets/kubernetes.io/serviceaccount";
  // Whose pods are listed; empty: those of all namespaces, as in tf.distribute, for which the
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

  // Returns the PodList, in JSON, of the pods that have these labels: "app=train,role=worker".
  // Returns InvalidArgument where the account may not list them or the selector is none, NotFound
  // without the files of the account, and Unavailable for what may work later.
  Result<std::string> list_pods(const std::string& label_selector) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::stores
