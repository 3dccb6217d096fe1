// Dividing a pipeline between workers, by the rules of tf.data's auto-sharding. Strategies do this
// by themselves; call it where workers are started by other means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/result.h"
#include "muster/data/dataset.h"

namespace muster::inline v0_1::data {

// A worker's part of a pipeline.
struct AutoSharded {
  Dataset dataset;          // of this worker; hand_sharded() when each worker has data of its own
  AutoShardPolicy applied;  // kFile, kData or kOff
  std::string why;          // "files are divided: worker 1 of 3 reads 4 of 12"
};

// The part of worker `index`, by the policy given, which is `dataset.options()` unless said.
// FILE: goes from the end of the pipeline to the files it begins with, through stages that keep
// elements apart; of the n-th of num_workers, every num_workers-th file. All branches of zip() and
// concatenate() must begin with files. A shuffle of file names is done behind the division.
// DATA: shard() at the end, before a last prefetch(). AUTO: FILE where it can be, else DATA.
// Throws InvalidArgument for a worker that cannot be, and, on every worker alike, for fewer files
// (or, by DATA, known elements) than workers; NotFound when FILE is asked for and no files are
// found. One that is sharded by hand is left as it is.
AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index);
AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index,
                       AutoShardPolicy policy);

// FILE sharding where it can be: nothing when the pipeline does not begin with files.
std::optional<AutoSharded> divide_files(const Dataset& dataset, int64_t num_workers, int64_t index);

// Whether the batches a pipeline ends with are those of a global_batch().
bool ends_with_global_batch(const Dataset& dataset);
// How large the batches are that a pipeline ends with. InvalidArgument, saying why, when it does
// not end with batches of one size.
Result<int64_t> batch_size_of(const Dataset& dataset);
// Of batches for all workers those of one: rebatch(sizes), of which only batches before rows that
// are left are empty, so that no step has no rows on any worker.
Dataset rebatch_for_worker(const Dataset& dataset, std::vector<int64_t> sizes);

}  // namespace muster::inline v0_1::data
