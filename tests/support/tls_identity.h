// Certificates for tests of TLS. Thread-safe.
#pragma once

#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/launch/certificates.h"

namespace muster::inline v0_1 {

// A new identity of tasks at `host`, by an authority of its own.
inline cluster::TlsIdentity tls_identity_for(const std::string& host,
                                             const std::string& server_name = "") {
  const launch::Certificates made = launch::make_certificates({host}, /*days=*/10);
  return {.certificate = made.certificate,
          .key = made.key,
          .authority = made.authority,
          .server_name = server_name};
}

}  // namespace muster::inline v0_1
