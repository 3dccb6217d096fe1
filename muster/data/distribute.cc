#include "muster/data/distribute.h"

#include <optional>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/auto_shard.h"
#include "muster/plan/data_shards.h"

namespace muster::inline v0_1::data {
namespace {

// The part of a pipeline that describes all data which the process at `place` reads.
AutoSharded share_of(const Dataset& dataset, const ReplicaPlace& place) {
  if (dataset.hand_sharded()) {
    return {dataset, AutoShardPolicy::kOff,
            "the data set has its own shard(); every worker reads all of its elements"};
  }
  const int64_t n = place.num_input_pipelines, id = place.input_pipeline_id;
  if (n == 1) return {dataset, AutoShardPolicy::kOff, "there is one worker"};
  const AutoShardPolicy policy = dataset.options().auto_shard_policy;
  std::string why = "as asked";
  if (policy == AutoShardPolicy::kAuto) {
    std::optional<AutoSharded> files = divide_files(dataset, n, id, &why);
    if (files) return *std::move(files);
    why = "since " + why;
  } else if (policy != AutoShardPolicy::kData) {
    return auto_shard(dataset, n, id, policy);
  }
  return {dataset, AutoShardPolicy::kData,
          "rows are divided, " + why + ": each replica takes its part of every batch"};
}

std::unique_ptr<Iterator> iterator_of(const Dataset& dataset, uint64_t seed, Sharding sharding,
                                      const DistributeOptions& options) {
  sharding.global_batches = options.global_batches;
  return dataset.iterator({.seed = seed, .sharding = sharding, .pass = options.pass});
}

std::unique_ptr<Iterator> over_all_replicas(const Dataset& dataset, const ReplicaPlace& place,
                                            uint64_t seed, const DistributeOptions& options) {
  return iterator_of(dataset, seed,
                     {.num_replicas = place.num_replicas_in_sync(),
                      .replica = place.replica_id(),
                      .in_sync = place.in_sync},
                     options);
}

std::unique_ptr<Iterator> over_local_replicas(const Dataset& dataset, const ReplicaPlace& place,
                                              uint64_t seed, const DistributeOptions& options) {
  return iterator_of(dataset, seed,
                     {.num_replicas = place.num_local_replicas, .replica = place.local_replica},
                     options);
}

// The data of this process, `share`, which was divided without a look at its batches.
std::unique_ptr<Iterator> of_own_share(const Dataset& dataset, const Dataset& share,
                                       const ReplicaPlace& place, uint64_t seed,
                                       DistributeOptions options) {
  const bool global = place.in_sync && (options.global_batches || ends_with_global_batch(dataset));
  options.global_batches = false;
  // Each process draws an order of its own, for shared data or for its own files.
  seed = derive_key(seed, {id_of("worker"), static_cast<uint64_t>(place.input_pipeline_id)}).key;
  if (!global) return over_local_replicas(share, place, seed, options);
  // The batches are meant for all processes.
  std::vector<int64_t> sizes =
      plan::batch_sizes_for_worker(batch_size_of(dataset).value(), place.num_input_pipelines,
                                   place.num_local_replicas, place.input_pipeline_id);
  return over_local_replicas(rebatch_for_worker(share, std::move(sizes)), place, seed, options);
}

}  // namespace

DistributedInput distribute(const Dataset& dataset, const ReplicaPlace& place, uint64_t seed,
                            const DistributeOptions& options) {
  AutoSharded share = share_of(dataset, place);
  DistributedInput input{.applied = share.applied, .why = std::move(share.why)};
  input.by_process = share.dataset.hand_sharded();
  if (!input.by_process) {
    input.iterator = over_all_replicas(dataset, place, seed, options);
  } else if (dataset.hand_sharded()) {
    input.iterator = over_local_replicas(dataset, place, seed, {.pass = options.pass});
  } else {
    input.iterator = of_own_share(dataset, share.dataset, place, seed, options);
  }
  return input;
}

DistributedInput distribute_locally(const Dataset& dataset, const ReplicaPlace& place,
                                    uint64_t seed, const DistributeOptions& options) {
  return {.iterator = over_local_replicas(dataset, place, seed, options),
          .by_process = true,
          .applied = AutoShardPolicy::kOff,
          .why = "the data set describes the data of this process"};
}

}  // namespace muster::inline v0_1::data
