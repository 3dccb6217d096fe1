#include "muster/stores/internal/google_credentials.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores::internal {
namespace {

constexpr const char* kTokenAddress = "https://oauth2.googleapis.com/token";
// Tokens are renewed so long before they end.
constexpr double kRenewTokenBefore = 300;
// A source without a new one is asked again after this time while the old one is valid, not at each
// request.
constexpr double kAskForTokenAfter = 20;

StoreOptions near_token_server(StoreOptions limits) {
  limits.connect_timeout = Seconds(3);
  limits.stall_timeout = Seconds(10);
  limits.retry_timeout = Seconds(15);
  limits.connect_retry_timeout = Seconds(3);
  return limits;
}

std::string word(const nlohmann::json& json, const char* name, const char* fallback = "") {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}

}  // namespace

Result<std::string> signed_token(const nlohmann::json& claims, const std::string& key_id,
                                 const std::string& pem) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_base_id(key.get()) != EVP_PKEY_RSA)
    return invalid_argument("the private_key of a service account is not a RSA key in PEM");
  const nlohmann::json head = {{"alg", "RS256"}, {"typ", "JWT"}, {"kid", key_id}};
  std::string token = base64url(head.dump()) + "." + base64url(claims.dump());
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  std::string signature(static_cast<size_t>(EVP_PKEY_size(key.get())), '\0');
  size_t size = signature.size();
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(token.data()), token.size()) != 1) {
    return internal_error("OpenSSL cannot sign with the private_key of a service account");
  }
  signature.resize(size);
  return token + "." + base64url(signature);
}

GoogleCredentials::GoogleCredentials(Environment environment, const StoreOptions& limits,
                                     std::string scope)
    : environment_(std::move(environment)),
      scope_(std::move(scope)),
      client_(near_token_server(limits)),
      clock_(*limits.clock) {}

Result<std::optional<GoogleToken>> GoogleCredentials::get() {
  std::lock_guard lock(mutex_);
  const double now = clock_.wall_seconds();
  const bool ends = looked_ && found_ && now > found_->ends_seconds - kRenewTokenBefore;
  const bool good = ends && now < found_->ends_seconds;
  if ((looked_ && !ends) || (good && now < ask_again_seconds_)) return found_;
  Result<std::optional<GoogleToken>> found = find();
  // A source that gave them before and gives none now is out of order for a while.
  if (found.ok() && !found.value() && found_) {
    found = Error(ErrorKind::kUnavailable,
                  "the credentials of " + found_->source + " expire, and no new ones are available",
                  "see whether what gave them still answers");
  }
  if (!found.ok()) {
    ask_again_seconds_ = now + kAskForTokenAfter;
    return good ? Result<std::optional<GoogleToken>>(found_) : found.error();
  }
  found_ = found.value();
  looked_ = true;
  return found_;
}

void GoogleCredentials::forget() {
  std::lock_guard lock(mutex_);
  looked_ = false;
}

Result<std::optional<GoogleToken>> GoogleCredentials::find() {
  if (const std::string named = environment_.get_or("GOOGLE_APPLICATION_CREDENTIALS", "");
      !named.empty()) {
    Result<std::optional<GoogleToken>> token = from_file(named);
    if (!token.ok()) return token.error().with_context("cannot use GOOGLE_APPLICATION_CREDENTIALS");
    return token;
  }
  const std::string folder =
      environment_.get_or("CLOUDSDK_CONFIG", environment_.get_or("HOME", "") + "/.config/gcloud");
  const std::string written = folder + "/application_default_credentials.json";
  if (local_file_system().exists(written).value_or(false)) return from_file(written);
  return from_metadata();
}

Result<std::optional<GoogleToken>> GoogleCredentials::from_file(const std::string& path) {
  Result<std::string> text = local_file_system().read_file(path);
  if (!text.ok()) return text.error();
  Result<nlohmann::json> parsed = parse_secret_json(text.value(), path);
  if (!parsed.ok()) return parsed.error();
  const nlohmann::json& json = parsed.value();
  const std::string type = json.is_object() ? word(json, "type") : "";
  Result<GoogleToken> token = GoogleToken();
  if (type == "service_account") {
    const std::string address = word(json, "token_uri", kTokenAddress);
    const auto now = static_cast<int64_t>(clock_.wall_seconds());
    const std::string name = word(json, "client_email");
    Result<std::string> assertion = signed_token(
        {{"iss", name}, {"scope", scope_}, {"aud", address}, {"iat", now}, {"exp", now + 3600}},
        word(json, "private_key_id"), word(json, "private_key"));
    if (!assertion.ok()) return assertion.error().with_detail("the file is '" + path + "'");
    const Query form{{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
                     {"assertion", assertion.value()}};
    token = exchange(address, form.text(), "the service account '" + name + "' of " + path);
  } else if (type == "authorized_user") {
    const Query form{{"grant_type", "refresh_token"},
                     {"client_id", word(json, "client_id")},
                     {"client_secret", word(json, "client_secret")},
                     {"refresh_token", word(json, "refresh_token")}};
    token = exchange(word(json, "token_uri", kTokenAddress), form.text(), "the user of " + path);
  } else {
    return invalid_argument(
        "'" + path + "' holds credentials of type '" + type + "', which are not read here",
        "use a key of a service account, or: gcloud auth application-default "
        "login");
  }
  if (!token.ok()) return token.error();
  token.value().quota_project = word(json, "quota_project_id");
  return std::optional(std::move(token).value());
}

Result<GoogleToken> GoogleCredentials::exchange(const std::string& url, const std::string& form,
                                                const std::string& source) {
  const std::string what = "get a token for " + source;
  const HttpRequest request{.method = "POST",
                            .url = url,
                            .headers = {"Content-Type: application/x-www-form-urlencoded"},
                            .body = bytes_of(form)};
  const auto error_of = [&](const HttpResponse& response) {
    return response_error(response, what, "", std::string(trim(response.body)),
                          "the credentials may have been withdrawn: make new ones");
  };
  Result<HttpResponse> answer =
      perform_with_retries(client_, {.what = what,
                                     .make = [&]() -> Result<HttpRequest> { return request; },
                                     .error_of = error_of});
  if (!answer.ok()) return answer.error();
  if (!answer.value().ok()) return error_of(answer.value());
  return read_token(answer.value().body, source);
}

Result<GoogleToken> GoogleCredentials::read_token(const std::string& body,
                                                  const std::string& source) {
  Result<nlohmann::json> json = parse_secret_json(body, "the token of " + source);
  if (!json.ok()) return json.error();
  const std::string token =
      json.value().is_object() ? word(json.value(), "access_token") : std::string();
  if (token.empty())
    return invalid_argument("there is no access_token in the answer for " + source);
  const auto lasts = json.value().find("expires_in");
  const double seconds =
      lasts != json.value().end() && lasts->is_number() ? lasts->get<double>() : 3600;
  return GoogleToken{token, source, "", clock_.wall_seconds() + seconds};
}

Result<std::optional<GoogleToken>> GoogleCredentials::from_metadata() {
  if (to_lower(environment_.get_or("NO_GCE_CHECK", "")) == "true")
    return std::optional<GoogleToken>();
  const std::string host = environment_.get_or("GCE_METADATA_HOST", "metadata.google.internal");
  // Elsewhere there is no answer, and then there are no credentials.
  const HttpResponse answer = client_.perform(
      {.url = "http://" + host + "/computeMetadata/v1/instance/service-accounts/default/token",
       .headers = {"Metadata-Flavor: Google"},
       .without_proxy = true,
       .attempt_seconds = 3});
  if (is_busy(answer))
    return response_error(answer, "get a token of this machine's service account", "", "", "");
  if (!answer.ok()) return std::optional<GoogleToken>();
  Result<GoogleToken> token = read_token(answer.body, "this machine's service account");
  if (!token.ok()) return token.error();
  return std::optional(std::move(token).value());
}

}  // namespace muster::inline v0_1::stores::internal
