#include "muster/stores/google_api.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/google_credentials.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::GoogleToken;
using internal::HttpRequest;
using internal::HttpResponse;

// {"error": {"status": "NOT_FOUND", "message": "..."}}; the other fields repeat this.
struct GoogleWords {
  std::string code{};
  std::string message{};
};
GoogleWords words_of(const HttpResponse& response) {
  GoogleWords words{.message = response.body};
  const Result<nlohmann::json> json = parse_json(response.body, "an error");
  if (!json.ok() || !json.value().is_object() || !json.value().contains("error")) return words;
  const nlohmann::json& error = json.value()["error"];
  if (!error.is_object()) return words;
  const auto text = [&](const char* key) {
    return error.contains(key) && error[key].is_string() ? error[key].get<std::string>() : "";
  };
  return {.code = text("status"), .message = text("message")};
}

Error error_of_call(const GoogleApi::Call& call, const HttpResponse& response,
                    const GoogleToken& token) {
  const GoogleWords words = words_of(response);
  std::string hint;
  if (response.status == 401 || response.status == 403) {
    hint = "the credentials were those of " + token.source +
           ": let the owner of the project permit it to them, or use others";
  }
  return internal::response_error(response, call.what, words.code, std::string(trim(words.message)),
                                  hint);
}

}  // namespace

struct GoogleApi::Impl {
  internal::HttpClient client;
  internal::GoogleCredentials credentials;
};

GoogleApi::GoogleApi(const Environment& environment, const StoreOptions& options)
    : impl_(new Impl{.client = internal::HttpClient(options),
                     .credentials = internal::GoogleCredentials(environment, options,
                                                                internal::kPlatformScope)}) {}
GoogleApi::~GoogleApi() = default;

Result<std::string> GoogleApi::send(const Call& call) {
  const Result<std::optional<GoogleToken>> found = impl_->credentials.get();
  if (!found.ok()) return found.error().with_context("cannot " + call.what);
  if (!found.value()) {
    return invalid_argument(
        "cannot " + call.what + ": there are no credentials for Google Cloud",
        "set GOOGLE_APPLICATION_CREDENTIALS to a file of a service account, or: "
        "gcloud auth application-default login");
  }
  const GoogleToken& token = *found.value();
  HttpRequest request{.method = call.method,
                      .url = call.url,
                      .headers = {"Authorization: Bearer " + token.token},
                      .body = bytes_of(call.body)};
  if (!call.body.empty()) request.headers.emplace_back("Content-Type: application/json");
  if (!token.quota_project.empty()) {
    request.headers.push_back("x-goog-user-project: " + token.quota_project);
  }
  HttpResponse response;
  if (call.method == "GET") {
    Result<HttpResponse> answered = internal::perform_with_retries(
        impl_->client,
        {.what = call.what,
         .make = [&] { return Result<HttpRequest>(request); },
         .error_of =
             [&](const HttpResponse& failed) { return error_of_call(call, failed, token); }});
    if (!answered.ok()) return answered.error().with_context("cannot " + call.what);
    response = std::move(answered).value();
  } else {
    response = impl_->client.perform(request);
  }
  if (response.ok()) return std::move(response.body);
  if (response.status == 401) impl_->credentials.forget();
  return error_of_call(call, response, token);
}

}  // namespace muster::inline v0_1::stores
