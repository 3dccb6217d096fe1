// How a global batch is divided between the replicas of several workers. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::inline v0_1::plan {

// The sizes worker `index` of `num_workers` cuts its global batches of `global_batch` rows into,
// one after another, each worker having data of its own: the floor or ceiling of an equal share for
// each of the num_workers * replicas_per_worker replicas, which add up to the global batch; turned
// by replicas_per_worker places for each worker, so that the first batches of all workers make one
// global batch, and so do the next. Source: tf.data's batch_sizes_for_worker.
// REQUIRES: 0 <= index < num_workers; global_batch and replicas_per_worker at least 1.
std::vector<int64_t> batch_sizes_for_worker(int64_t global_batch, int64_t num_workers,
                                            int64_t replicas_per_worker, int64_t index);

}  // namespace muster::inline v0_1::plan
