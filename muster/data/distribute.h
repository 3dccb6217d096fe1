// Distributes a data set over the replicas of a run: says which batches each of them reads. Thread
// safety: pure functions of their arguments; every replica finds its part by arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::data {

// The place of a replica among the replicas of a run. Every process has one input pipeline, which
// feeds its local replicas.
struct ReplicaPlace {
  int64_t num_input_pipelines = 1;
  int64_t input_pipeline_id = 0;
  int64_t num_local_replicas = 1;
  int64_t local_replica = 0;
  bool in_sync = true;  // false: each makes updates at its own pace

  int64_t num_replicas_in_sync() const { return num_input_pipelines * num_local_replicas; }
  int64_t replica_id() const { return input_pipeline_id * num_local_replicas + local_replica; }
};

// Options of distribute().
struct DistributeOptions {
  bool global_batches = false;  // batch(n) means n over all replicas
  int64_t pass = 0;             // IteratorOptions::pass
};

// The part of a data set that one replica reads.
struct DistributedInput {
  std::unique_ptr<Iterator> iterator{};
  // Whether each process has data of its own, which may end earlier than the data of others.
  bool by_process = false;
  AutoShardPolicy applied = AutoShardPolicy::kOff;  // kFile, kData, kHint or kOff
  std::string why{};  // "files are divided: worker 1 of 3 reads 4 of 12"
};

// Returns the part that the replica at `place` reads of a data set that describes the data of all
// replicas, by its AutoShardPolicy. A data set that is sharded by hand describes the data of this
// process. `seed` is the run's. Throws what auto_shard() and Dataset::iterator() throw, on all
// replicas alike.
MUSTER_PART_EXPORT DistributedInput distribute(const Dataset& dataset, const ReplicaPlace& place,
                                               uint64_t seed,
                                               const DistributeOptions& options = {});

// Does the same with a data set that describes the data of this process alone: its batches go to
// the replicas of this process in turn.
DistributedInput distribute_locally(const Dataset& dataset, const ReplicaPlace& place,
                                    uint64_t seed, const DistributeOptions& options = {});

}  // namespace muster::inline v0_1::data
