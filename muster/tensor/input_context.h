// Tells an input function which part of the data it must read. Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

struct InputContext {
  int64_t num_input_pipelines = 1;
  int64_t input_pipeline_id = 0;
  int64_t num_replicas_in_sync = 1;
  // A seed for random numbers and shuffles of the input function. Each pipeline has its own, which
  // is the same in every run with the same seed.
  uint64_t seed = 0;

  // Returns global / num_replicas_in_sync. Throws InvalidArgument when that is not a whole number.
  int64_t per_replica_batch_size(int64_t global_batch_size) const {
    if (global_batch_size % num_replicas_in_sync != 0) {
      throw invalid_argument("the global batch size " + std::to_string(global_batch_size) +
                                 " is not divisible by the " +
                                 std::to_string(num_replicas_in_sync) + " replicas in sync",
                             "choose a multiple of the number of replicas");
    }
    return global_batch_size / num_replicas_in_sync;
  }
};

}  // namespace muster::inline v0_1
