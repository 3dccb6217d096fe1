// Workers of a Cluster as threads of a test.
#pragma once

#include <functional>
#include <vector>

#include "muster/parallel/cluster.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::testing {

// Options of worker `rank` of these workers.
inline ClusterOptions options_of(const LocalCluster& workers, int rank) {
  ClusterOptions options;
  options.communication.implementation = Transport::kTcp;
  options.environment = workers.environment(rank);
  return options;
}

// Calls `fn` on each of n workers, each in a thread of its own, with its Cluster.
inline void run_workers(int n, const std::function<void(Cluster&)>& fn) {
  const LocalCluster workers(n);
  run_ranks(n, [&](int rank) {
    Cluster cluster(options_of(workers, rank));
    fn(cluster);
  });
}

// The same numbers of a normal distribution for the same seed, wherever it is called.
inline Tensor random(std::vector<int64_t> shape, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::kFloat);
}

// A process without a launcher.
inline ClusterOptions alone() { return {.environment = Environment()}; }

}  // namespace muster::inline v0_1::testing
