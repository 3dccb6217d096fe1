// Signatures of Amazon's services, version 4. libcurl has such a signer, but Debian's versions sign
// the query in the given order, and only with the time of this machine, however wrong that is; so
// requests are signed here, with OpenSSL's hashes. Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace muster::inline v0_1::stores::internal {

struct SigningKey {
  std::string key_id;
  std::string secret;
  std::string session_token;  // may be empty

  bool operator==(const SigningKey&) const = default;
};

struct SignedRequest {
  std::string method{};
  std::string host{};                            // "host" or "host:port", as it is sent
  std::string path{};                            // encoded
  std::string query{};                           // encoded and sorted
  std::map<std::string, std::string> headers{};  // that are signed as well; names in small letters
  std::string payload_hash{};                    // hex of its SHA-256
};

// Returns all headers to send except Host: the headers of the request, and "x-amz-date",
// "x-amz-content-sha256" (for "s3"), "x-amz-security-token" and "authorization".
std::vector<std::string> sign(const SignedRequest& request, const SigningKey& key,
                              const std::string& region, const std::string& service,
                              double unix_seconds);

}  // namespace muster::inline v0_1::stores::internal
