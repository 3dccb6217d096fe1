// A way in which a process learns its place in a cluster: one for each launcher and scheduler.
// Thread safety: values and pure functions of their arguments.
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

// The text of a small file; nothing if it does not exist.
using ReadSmallFile = std::function<std::optional<std::string>(const std::string& path)>;

// Where a source looks.
struct Surroundings {
  const Environment& environment;  // of the process
  ReadSmallFile read_file{};       // for facts that a launcher leaves in files
};

// Which process of how many this is, by two variables.
struct PlaceClaim {
  std::string variables{};  // "RANK and WORLD_SIZE"
  int64_t rank = 0;
  int64_t size = 0;
};

// The existing variables of a launcher if they are too few for it to count.
struct PartialEnvironment {
  std::string finding{};              // "RANK is 1, and WORLD_SIZE and MASTER_ADDR are not there"
  std::string fix{};                  // "set ...", which makes a cluster of it
  size_t lacking = 0;                 // variables
  bool means_cluster = false;         // a rank above 0 or a size above 1 is set
  bool is_doubtful = false;           // it does not, and yet is worth a note
  std::optional<PlaceClaim> claim{};  // if both of these are set
};

// One launcher: whether it started this process, and the cluster that it describes.
struct ClusterSource {
  std::string_view name{};  // "Slurm", as messages call it
  std::string_view word{};  // "slurm", by which MUSTER_CLUSTER chooses it
  // The launcher's name for this process, "Slurm step 12.0"; "" if it has not started it.
  std::string (*seen)(const Surroundings& around);
  // REQUIRES: seen() is not "". Throws InvalidArgument if the launcher's variables are wrong, or
  // not enough to find the other tasks.
  ResolvedCluster (*resolve)(const Surroundings& around, const ResolveOptions& options);
  // REQUIRES: seen() returns "". Returns the launcher's variables that exist anyway.
  std::optional<PartialEnvironment> (*left)(const Surroundings& around);
};

// All sources, in the order in which they are asked: the innermost launcher first.
std::span<const ClusterSource> cluster_sources();

// resolve_cluster() with the given surroundings.
ResolvedCluster resolve_in(const Surroundings& around, const ResolveOptions& options);

}  // namespace muster::inline v0_1::cluster
