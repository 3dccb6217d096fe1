// The variables of launchers about a process, each in its own terms, and the cluster that follows
// from them if only the host of rank 0 is known. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/environment.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster::internal {

// One process of a launcher.
struct LauncherProcess {
  std::string_view source{};  // "torchrun", for messages
  int rank = 0;
  int size = 1;                // processes in all
  int local_rank = 0;          // of this machine's
  int local_size = 1;          // on this machine, as far as it says
  bool one_machine = false;    // all of them are on this one
  std::string host{};          // of rank 0, if the launcher sets it; MASTER_ADDR has priority
  std::string no_host_hint{};  // what to do where neither does
  int port = 0;                // for the coordinator, if neither MUSTER_PORT nor MASTER_PORT says
};

// The tasks are workers, and rank 0 is their chief. On one machine they meet on loopback; else the
// coordinator is at MASTER_ADDR or process.host. Its port is MUSTER_PORT, else the port after
// MASTER_PORT, which is the launcher's own, or port_for(MASTER_PORT) where the port after it may
// belong to an outgoing connection, else process.port. The addresses of the tasks are empty: each
// task tells its address after it has met the others. Throws InvalidArgument for a rank outside
// 0 to size - 1, and where no host is known.
ResolvedCluster to_cluster(const LauncherProcess& process, const Environment& environment);

// "torchrun says", "RANK and WORLD_SIZE say".
std::string says(std::string_view source);

// Reads a variable that must hold a whole number of at least `least`. Throws InvalidArgument
// naming the variable and its value.
int number_of(const Environment& environment, const std::string& name, int least = 0);
// The same where it may be missing or empty.
std::optional<int> number_if_set(const Environment& environment, const std::string& name,
                                 int least = 0);
// Whether all of the variables are set and not empty.
bool has_all(const Environment& environment, std::initializer_list<const char*> names);

// A port that follows from the job's identity: 61440 to 65535, above the ports that Linux gives to
// outgoing connections.
int port_for(uint64_t job);
int port_for(std::string_view job);

// The port of a coordinator that no launcher names: the one after torch's 29500.
constexpr int kUsualPort = 29501;

}  // namespace muster::inline v0_1::cluster::internal
