// Unix sockets between the tasks of a job that are on one host: quicker than TCP to oneself. They
// have abstract names, of one network namespace, that follow from the server's address, so that
// they need not be sent. Thread-safe.
#pragma once

#include <string>

#include "muster/base/file_descriptor.h"
#include "muster/cluster/job_credentials.h"

namespace muster::inline v0_1::net {

// What the log calls who comes over a Unix socket.
inline constexpr const char* kThisMachine = "this machine";

// The name for a server of this user at `address`. Without the job's token, if there is one, it
// cannot be guessed. Throws Unavailable where this host cannot be told from others.
std::string local_name(const std::string& address, const cluster::Job& job);

// Closed when the name is taken or the system has no Unix sockets: then there is TCP.
FileDescriptor listen_local(const std::string& name);
// Closed if no process of this user listens there. Does not wait.
FileDescriptor connect_local(const std::string& name);

}  // namespace muster::inline v0_1::net
