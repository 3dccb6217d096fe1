#include "muster/stores/internal/aws_signature.h"

#include <ctime>

#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/digest.h"

namespace muster::inline v0_1::stores::internal {

std::vector<std::string> sign(const SignedRequest& request, const SigningKey& key,
                              const std::string& region, const std::string& service,
                              double unix_seconds) {
  const auto time = static_cast<time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  const std::string stamp(text, strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts));
  const std::string date = stamp.substr(0, 8);

  std::map<std::string, std::string> headers = request.headers;
  headers["host"] = request.host;
  headers["x-amz-date"] = stamp;
  if (service == "s3") headers["x-amz-content-sha256"] = request.payload_hash;
  if (!key.session_token.empty()) headers["x-amz-security-token"] = key.session_token;

  std::string lines;
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    lines += name + ":" + std::string(trim(value)) + "\n";
    names.push_back(name);
  }
  const std::string signed_names = join(names, ";");
  const std::string canonical = request.method + "\n" + request.path + "\n" + request.query + "\n" +
                                lines + "\n" + signed_names + "\n" + request.payload_hash;
  const std::string scope = date + "/" + region + "/" + service + "/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex(sha256(bytes_of(canonical)));
  std::string signing = proof_of("AWS4" + key.secret, date);
  for (const std::string& step : {region, service, std::string("aws4_request")})
    signing = proof_of(signing, step);

  headers.erase("host");
  std::vector<std::string> to_send;
  for (const auto& [name, value] : headers) to_send.push_back(name + ": " + value);
  to_send.push_back("authorization: AWS4-HMAC-SHA256 Credential=" + key.key_id + "/" + scope +
                    ", SignedHeaders=" + signed_names +
                    ", Signature=" + hex(proof_of(signing, to_sign)));
  return to_send;
}

}  // namespace muster::inline v0_1::stores::internal
