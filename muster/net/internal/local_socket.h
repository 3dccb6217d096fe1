// Unix sockets between the tasks of a job that are on one host: quicker than TCP to the same host.
// They have abstract names, of one network namespace, that follow from the server's address, so
// that tasks need not exchange them. Thread-safe.
#pragma once

#include <string>

#include "muster/base/file_descriptor.h"
#include "muster/cluster/job_credentials.h"

namespace muster::inline v0_1::net {

// The name of a peer on a Unix socket in the log.
inline constexpr const char* kThisMachine = "this machine";

// The name for a server of this user at `address`. If the job has a token, the name cannot be
// computed without it. Throws Unavailable if this host cannot be distinguished from others.
std::string local_name(const std::string& address, const cluster::Job& job);

// Closed when the name is taken or the system has no Unix sockets: then there is TCP.
FileDescriptor listen_local(const std::string& name);
// Closed if no process of this user listens there. Does not wait.
FileDescriptor connect_local(const std::string& name);

}  // namespace muster::inline v0_1::net
