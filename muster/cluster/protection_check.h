// Conditions that must hold before a task serves or joins the coordinator of its cluster: programs
// refuse to start without them, and `muster doctor` reports them before. Thread safety: pure
// functions.
#pragma once

#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {

// Throws InvalidArgument, with the line to add, when other machines can reach the coordinator and
// nothing keeps unauthenticated peers out: no token, no certificates, and no setting which says
// that the network does.
void check_protected(const ResolvedCluster& cluster);
// The same for other services of tasks: `who` ("the parameter server") at `address`.
void check_protected(const Job& job, const std::string& who, const std::string& address);

// Throws InvalidArgument when this task serves the coordinator with a certificate that is not for
// the name by which the tasks reach it: none of them would join, itself included.
void check_certificate_name(const ResolvedCluster& cluster);

}  // namespace muster::inline v0_1::cluster
