#include "muster/stores/kubernetes_api.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/http_responses.h"
#include "muster/stores/internal/object_name.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::HttpRequest;
using internal::HttpResponse;

// {"kind": "Status", "reason": "Forbidden", "message": "pods is forbidden: ..."}
Error refusal(const HttpResponse& response, const std::string& what) {
  std::string reason, message = response.body.substr(0, 200);
  const Result<nlohmann::json> json = parse_json(response.body, "an error");
  if (json.ok() && json.value().is_object()) {
    const auto text = [&](const char* key, const std::string& otherwise) {
      const auto found = json.value().find(key);
      return found != json.value().end() && found->is_string() ? found->get<std::string>()
                                                               : otherwise;
    };
    reason = text("reason", "");
    message = text("message", message);
  }
  const bool denied = response.status == 401 || response.status == 403;
  return internal::response_error(
      response, what, reason, std::string(trim(message)),
      denied ? "give the service account of the pod a Role that may list pods; for those of all "
               "namespaces a ClusterRole, else set KubernetesApiOptions.name_space"
             : "");
}

std::string server_of(const Environment& environment) {
  const std::string host = environment.get_or("KUBERNETES_SERVICE_HOST", "");
  const std::string port = environment.get_or("KUBERNETES_SERVICE_PORT", "443");
  if (host.empty()) {
    throw invalid_argument("KUBERNETES_SERVICE_HOST is not set: this process is in no pod",
                           "run it in a pod, or name KubernetesApiOptions.server");
  }
  return "https://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

}  // namespace

struct KubernetesApi::Impl {
  KubernetesApiOptions options;
  internal::HttpClient client;
};

KubernetesApi::KubernetesApi(const Environment& environment, KubernetesApiOptions options) {
  if (options.server.empty()) options.server = server_of(environment);
  StoreOptions limits = options.limits;
  if (limits.ca_file.empty()) limits.ca_file = join_path(options.account_folder, "ca.crt");
  // A client does not move. NOLINTNEXTLINE(modernize-make-unique)
  impl_.reset(new Impl{.options = std::move(options), .client = internal::HttpClient(limits)});
}
KubernetesApi::~KubernetesApi() = default;

Result<std::string> KubernetesApi::list_pods(const std::string& label_selector) const {
  const KubernetesApiOptions& options = impl_->options;
  const std::string what = "list the pods with the labels \"" + label_selector + "\"";
  const std::string space = options.name_space.empty()
                                ? ""
                                : "/namespaces/" + internal::percent_encode(options.name_space);
  Result<HttpResponse> answered = internal::perform_with_retries(
      impl_->client,
      {.what = what,
       .make = [&]() -> Result<HttpRequest> {
         // Kubernetes renews it.
         const Result<std::string> token =
             local_file_system().read_file(join_path(options.account_folder, "token"));
         if (!token.ok()) return token.error();
         return HttpRequest{.url = options.server + "/api/v1" + space + "/pods?labelSelector=" +
                                   internal::percent_encode(label_selector),
                            .headers = {"Authorization: Bearer " + std::string(trim(token.value())),
                                        "Accept: application/json"},
                            .without_proxy = true};
       },
       .error_of = [&](const HttpResponse& failed) { return refusal(failed, what); }});
  if (!answered.ok()) return answered.error().with_context("cannot " + what);
  if (!answered.value().ok()) return refusal(answered.value(), what);
  return std::move(answered.value().body);
}

}  // namespace muster::inline v0_1::stores
