// TLS over a connection between two tasks of a job, both of which show a certificate that the job's
// authority signed. Thread-safe: a TlsContext makes streams on any thread.
#pragma once

#include <memory>
#include <string>

#include "muster/base/file_descriptor.h"
#include "muster/cluster/job_credentials.h"
#include "muster/net/internal/stream.h"

struct ssl_ctx_st;

namespace muster::inline v0_1::net {

class TlsContext {
 public:
  // Throws InvalidArgument for certificates that cannot be used.
  explicit TlsContext(const cluster::TlsIdentity& identity);

  // The side that connected: the other's certificate must be for `host`, or for the name that the
  // identity has in its place. Both sides agree on keys while the first bytes are read or written:
  // until some have come, one thread does both.
  std::unique_ptr<Stream> connected(FileDescriptor socket, const std::string& host) const;
  std::unique_ptr<Stream> accepted(FileDescriptor socket) const;

 private:
  std::string server_name_;
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace muster::inline v0_1::net
