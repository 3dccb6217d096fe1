// A way in which a process learns its place in a cluster: one for each launcher and scheduler.
// Thread safety: values and pure functions of what they are given.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/environment.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {

// The text of a small file; nothing when it is not there.
using ReadSmallFile = std::function<std::optional<std::string>(const std::string& path)>;

// Where a source looks.
struct Surroundings {
  const Environment& environment;  // of the process
  ReadSmallFile read_file{};       // for what a launcher leaves in files
};

// Which process of how many this is, by two variables.
struct PlaceClaim {
  std::string variables{};  // "RANK and WORLD_SIZE"
  int64_t rank = 0;
  int64_t size = 0;
};

// What there is of a launcher's variables where they are too few for it to count.
struct PartialEnvironment {
  std::string finding{};       // "RANK is 1, and WORLD_SIZE and MASTER_ADDR are not there"
  std::string fix{};           // "set ...", what makes a cluster of it
  size_t lacking = 0;          // variables
  bool means_cluster = false;  // a rank above 0 or a size above 1 is among those that are there
  bool is_doubtful = false;    // it does not, and yet is worth a note
  std::optional<PlaceClaim> claim{};  // where both of these are there
};

// One launcher: whether it started this process, and what it says.
struct ClusterSource {
  std::string_view name{};  // "Slurm", as messages call it
  std::string_view word{};  // "slurm", by which MUSTER_CLUSTER chooses it
  // What it calls this process, "Slurm step 12.0"; "" when it has not started it.
  std::string (*seen)(const Surroundings& around);
  // REQUIRES: seen() says something. Throws InvalidArgument when what the launcher says is wrong,
  // or too little to find the other tasks.
  ResolvedCluster (*resolve)(const Surroundings& around, const ResolveOptions& options);
  // REQUIRES: seen() says nothing. Returns what there is of its variables anyway.
  std::optional<PartialEnvironment> (*left)(const Surroundings& around);
};

// All sources, in the order in which they are asked: the innermost launcher first.
std::span<const ClusterSource> cluster_sources();

// What resolve_cluster() returns and throws where sources look there.
ResolvedCluster resolve_in(const Surroundings& around, const ResolveOptions& options);

}  // namespace muster::inline v0_1::cluster
