// Finds mistakes in certificates before a connection fails for them. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "muster/cluster/job_credentials.h"

namespace muster::inline v0_1::cluster {

// Where the texts of a TlsIdentity came from.
struct TlsFiles {
  std::string certificate{};
  std::string key{};
  std::string authority{};
};

// Throws InvalidArgument, naming variable and file, when one of the texts is not a PEM of its kind,
// the certificate or all authorities are out of date, or the key does not belong to the
// certificate.
void check_identity(const TlsIdentity& identity, const TlsFiles& files);

// Whether a client that connects to `host`, a name or a numeric address, accepts the first
// certificate of `text`, PEM; RFC 6125. False for text without a certificate.
bool is_for_host(const std::string& text, const std::string& host);
// The names and numeric addresses that certificate is for, as text; for messages.
std::vector<std::string> hosts_of(const std::string& text);

}  // namespace muster::inline v0_1::cluster
