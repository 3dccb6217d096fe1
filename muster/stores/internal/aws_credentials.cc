#include "muster/stores/internal/aws_credentials.h"

#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/aws_profile.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// Seconds before their end at which credentials are renewed.
constexpr double kRenewBefore = 300;
// A source that gives no credentials is asked again after this time while the old ones are valid,
// not at each request.
constexpr double kAskAgainAfter = 20;

// The servers of credentials are near: one that does not answer soon does not exist.
StoreOptions near(StoreOptions limits) {
  limits.connect_timeout = Seconds(1);
  limits.stall_timeout = Seconds(5);
  limits.retry_timeout = Seconds(10);
  limits.connect_retry_timeout = Seconds(0);
  return limits;
}

std::string text_at(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<std::optional<AwsCredentials>> from_json(const std::string& text,
                                                const std::string& source) {
  Result<nlohmann::json> json = parse_secret_json(text, "the credentials of " + source);
  if (!json.ok()) return json.error();
  AwsCredentials credentials;
  credentials.source = source;
  if (json.value().is_object()) {
    credentials.key = {text_at(json.value(), "AccessKeyId"),
                       text_at(json.value(), "SecretAccessKey"), text_at(json.value(), "Token")};
    credentials.ends_seconds = parse_iso_time(text_at(json.value(), "Expiration"));
  }
  if (credentials.key.key_id.empty() || credentials.key.secret.empty())
    return invalid_argument(source + " gives no AccessKeyId and SecretAccessKey");
  return std::optional(std::move(credentials));
}

}  // namespace

std::optional<Error> check_endpoint(const std::string& endpoint, const std::string& what) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (endpoint.starts_with(scheme) && endpoint.size() > scheme.size() &&
        endpoint[scheme.size()] != '/')
      return std::nullopt;
  }
  const std::string host = endpoint.substr(endpoint.rfind('/') + 1);
  return invalid_argument("the endpoint '" + endpoint + "' of " + what +
                              " does not begin with http:// or https:// and a host",
                          "write http://" + host + " or https://" + host);
}

AwsCredentialChain::AwsCredentialChain(Environment environment, std::string region,
                                       const StoreOptions& limits)
    : environment_(std::move(environment)),
      region_(std::move(region)),
      client_(near(limits)),
      clock_(*limits.clock) {}

Result<std::optional<AwsCredentials>> AwsCredentialChain::get() {
  std::lock_guard lock(mutex_);
  const double now = clock_.wall_seconds();
  const bool ends =
      looked_ && found_ && found_->ends_seconds && now > *found_->ends_seconds - kRenewBefore;
  const bool good = ends && now < *found_->ends_seconds;
  if ((looked_ && !ends) || (good && now < ask_again_seconds_)) return found_;
  Result<std::optional<AwsCredentials>> found = find();
  // A source that gave credentials before and gives none now is out of order for a while.
  if (found.ok() && !found.value() && found_) {
    found = Error(
        ErrorKind::kUnavailable,
        "the credentials of " + found_->source + " come to their end, and nobody gives new ones",
        "see whether what gave them still answers");
  }
  if (!found.ok()) {
    ask_again_seconds_ = now + kAskAgainAfter;
    return good ? Result<std::optional<AwsCredentials>>(found_) : found.error();
  }
  found_ = found.value();
  looked_ = true;
  return found_;
}

bool AwsCredentialChain::renew(const SigningKey& refused) {
  std::lock_guard lock(mutex_);
  // Requests that were refused at the same time ask once.
  if (found_ && found_->key != refused) return true;
  Result<std::optional<AwsCredentials>> found = find();
  if (!found.ok() || !found.value() || found.value()->key == refused) return false;
  found_ = found.value();
  looked_ = true;
  return true;
}

Result<std::optional<AwsCredentials>> AwsCredentialChain::find() {
  const std::string key_id = environment_.get_or("AWS_ACCESS_KEY_ID", "");
  const std::string secret = environment_.get_or("AWS_SECRET_ACCESS_KEY", "");
  if (!key_id.empty() || !secret.empty()) {
    if (key_id.empty() || secret.empty()) {
      return invalid_argument(
          std::string("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and ") +
              (key_id.empty() ? "the former" : "the latter") + " is not set",
          "set both, or neither");
    }
    return std::optional(
        AwsCredentials{{key_id, secret, environment_.get_or("AWS_SESSION_TOKEN", "")},
                       "the environment's AWS_ACCESS_KEY_ID",
                       std::nullopt});
  }
  using Step = Result<std::optional<AwsCredentials>> (AwsCredentialChain::*)();
  for (const Step step :
       {&AwsCredentialChain::from_web_identity, &AwsCredentialChain::from_profile,
        &AwsCredentialChain::from_container, &AwsCredentialChain::from_instance}) {
    Result<std::optional<AwsCredentials>> found = (this->*step)();
    if (!found.ok() || found.value()) return found;
  }
  return std::optional<AwsCredentials>();
}

Result<std::string> AwsCredentialChain::ask(const HttpRequest& request, const std::string& what) {
  const auto error_of = [&](const HttpResponse& response) {
    return response_error(response, what, "", std::string(trim(response.body)), "");
  };
  Result<HttpResponse> answer =
      perform_with_retries(client_, {.what = what,
                                     .make = [&]() -> Result<HttpRequest> { return request; },
                                     .error_of = error_of});
  if (!answer.ok()) return answer.error();
  if (!answer.value().ok()) return error_of(answer.value());
  return answer.value().body;
}

Result<std::optional<AwsCredentials>> AwsCredentialChain::from_web_identity() {
  const std::string file = environment_.get_or("AWS_WEB_IDENTITY_TOKEN_FILE", "");
  const std::string role = environment_.get_or("AWS_ROLE_ARN", "");
  if (file.empty() || role.empty()) return std::optional<AwsCredentials>();
  Result<std::string> token = local_file_system().read_file(file);
  if (!token.ok())
    return token.error().with_context("cannot read the file of AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string region = region_.empty() ? "us-east-1" : region_;
  std::string endpoint = environment_.get_or("AWS_ENDPOINT_URL_STS", "");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.empty()) endpoint = "https://sts." + region + ".amazonaws.com";
  if (const auto wrong = check_endpoint(endpoint, "STS (AWS_ENDPOINT_URL_STS)")) return *wrong;
  const Query form{{"Action", "AssumeRoleWithWebIdentity"},
                   {"Version", "2011-06-15"},
                   {"RoleArn", role},
                   {"RoleSessionName", environment_.get_or("AWS_ROLE_SESSION_NAME", "muster")},
                   {"WebIdentityToken", std::string(trim(token.value()))}};
  const std::string body = form.text();
  Result<std::string> answer = ask({.method = "POST",
                                    .url = endpoint + "/",
                                    .headers = {"Content-Type: application/x-www-form-urlencoded"},
                                    .body = bytes_of(body)},
                                   "take the role '" + role + "' by STS");
  if (!answer.ok()) return answer.error();
  pugi::xml_document xml;
  xml.load_string(answer.value().c_str());
  const pugi::xml_node given = xml.first_child().first_child().child("Credentials");
  AwsCredentials credentials{
      {given.child_value("AccessKeyId"), given.child_value("SecretAccessKey"),
       given.child_value("SessionToken")},
      "the role '" + role + "' of AWS_ROLE_ARN",
      parse_iso_time(given.child_value("Expiration"))};
  if (credentials.key.key_id.empty() || credentials.key.secret.empty())
    return invalid_argument("STS gives no credentials for the role '" + role + "'");
  return std::optional(std::move(credentials));
}

Result<std::optional<AwsCredentials>> AwsCredentialChain::from_profile() {
  Result<AwsProfile> read = read_aws_profile(environment_);
  if (!read.ok()) return read.error();
  AwsProfile& profile = read.value();
  if (profile.from.empty()) return std::optional<AwsCredentials>();
  auto& settings = profile.settings;
  const std::string source = "profile '" + profile.name + "' of " + profile.from;
  if (!settings["aws_access_key_id"].empty() && !settings["aws_secret_access_key"].empty()) {
    return std::optional(
        AwsCredentials{{settings["aws_access_key_id"], settings["aws_secret_access_key"],
                        settings["aws_session_token"]},
                       source,
                       std::nullopt});
  }
  for (const char* other : {"role_arn", "sso_session", "sso_start_url", "credential_process"}) {
    if (settings[other].empty()) continue;
    return invalid_argument(
        source + " gets its credentials by " + other + ", which is not read here",
        "put them into the environment: eval \"$(aws configure export-credentials --profile " +
            profile.name + " --format env)\"");
  }
  return std::optional<AwsCredentials>();
}

Result<std::optional<AwsCredentials>> AwsCredentialChain::from_container() {
  const std::string relative = environment_.get_or("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "");
  std::string url = environment_.get_or("AWS_CONTAINER_CREDENTIALS_FULL_URI", "");
  if (!relative.empty()) url = "http://169.254.170.2" + relative;
  if (url.empty()) return std::optional<AwsCredentials>();
  HttpRequest request{.url = url, .without_proxy = true};
  std::string token = environment_.get_or("AWS_CONTAINER_AUTHORIZATION_TOKEN", "");
  // The file counts before the variable: it is renewed.
  if (const std::string file = environment_.get_or("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "");
      !file.empty()) {
    Result<std::string> text = local_file_system().read_file(file);
    if (!text.ok()) return text.error();
    token = trim(text.value());
  }
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  // The path is as good as a password on some services.
  Result<std::string> answer =
      ask(request, "get the container's credentials from '" + origin_of(url) + "'");
  if (!answer.ok()) return answer.error();
  return from_json(answer.value(), "the container's credentials");
}

Result<std::optional<AwsCredentials>> AwsCredentialChain::from_instance() {
  if (to_lower(environment_.get_or("AWS_EC2_METADATA_DISABLED", "")) == "true")
    return std::optional<AwsCredentials>();
  const std::string base =
      environment_.get_or("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254");
  const std::string roles = base + "/latest/meta-data/iam/security-credentials/";
  // Elsewhere no server answers, and then there are no credentials.
  const HttpResponse token =
      client_.perform({.method = "PUT",
                       .url = base + "/latest/api/token",
                       .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"},
                       .without_proxy = true,
                       .attempt_seconds = 2});
  if (is_busy(token))
    return response_error(token, "get a token of this EC2 instance's metadata", "", "", "");
  if (!token.ok()) return std::optional<AwsCredentials>();
  const std::vector<std::string> headers = {"X-aws-ec2-metadata-token: " + token.body};
  const HttpResponse listed = client_.perform(
      {.url = roles, .headers = headers, .without_proxy = true, .attempt_seconds = 5});
  if (is_busy(listed))
    return response_error(listed, "ask for this EC2 instance's role", "", "", "");
  if (!listed.ok()) return std::optional<AwsCredentials>();
  const std::string role(trim(split(listed.body, '\n')[0]));
  if (role.empty()) return std::optional<AwsCredentials>();
  Result<std::string> answer = ask({.url = roles + role, .headers = headers, .without_proxy = true},
                                   "get the credentials of this EC2 instance");
  if (!answer.ok()) return answer.error();
  return from_json(answer.value(), "this EC2 instance's role '" + role + "'");
}

}  // namespace muster::inline v0_1::stores::internal
