// Divides a pipeline between workers, by the rules of tf.data's auto-sharding. Strategies call this
// themselves; call it if you start workers by other means. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/result.h"
#include "muster/data/dataset.h"

namespace muster::inline v0_1::data {

// A worker's part of a pipeline.
struct AutoSharded {
  Dataset dataset;            // this worker's part; hand_sharded() when each worker has its own
                              // data
  AutoShardPolicy applied{};  // kFile, kData, kHint or kOff
  std::string why{};          // "files are divided: worker 1 of 3 reads 4 of 12"
};

// Returns the part of worker `index`, by `policy`, or by the policy of `dataset.options()` if none
// is given. Policies:
//
// - FILE: each worker reads every num_workers-th file. The files are found from the end of the
//   pipeline through the stages that tf.data passes: not enumerate(), scan(), take_while(),
//   unique(), group_by_window(), or stages that choose among data sets. All branches of zip() and
//   concatenate() must begin with files. A shuffle of file names happens after the division.
// - DATA: adds shard() at the end, before a last prefetch(). If the pipeline ends with a rebatch(),
//   its sizes, which may differ between workers, are ignored: every batch before it is cut into a
//   piece of equal size for each worker, rounded up (for each size, if a worker has several), and
//   the last pieces may have no rows. All workers together read each row once.
// - AUTO: FILE where possible, else DATA. With fewer files than workers it is an error here, as in
//   tf.data; distribute() uses DATA then.
// - HINT: puts num_workers and index into shard(kShardHint, kShardHint).
//
// A pipeline with a shard() of its own is returned unchanged. Throws InvalidArgument for an index
// outside of [0, num_workers), and, on every worker, for fewer files (or, with DATA, known
// elements) than workers. Throws NotFound for FILE without files.
MUSTER_EXPORT AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index);
MUSTER_EXPORT AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index,
                                     AutoShardPolicy policy);

// Divides by FILE if possible; returns nothing when the pipeline does not begin with files. With
// `why_not`, fewer files than workers is not an error either, and `why_not` gets the reason: "there
// are fewer files (1) than workers (2)".
MUSTER_EXPORT std::optional<AutoSharded> divide_files(const Dataset& dataset, int64_t num_workers,
                                                      int64_t index,
                                                      std::string* why_not = nullptr);

// Whether the pipeline reads from from_generator() or from_sequential(), as far as its description
// tells: reading an element of a live stream may take long and would consume it.
MUSTER_EXPORT bool reads_a_stream(const Dataset& dataset);
// Whether the pipeline ends with the batches of a global_batch().
MUSTER_EXPORT bool ends_with_global_batch(const Dataset& dataset);
// Returns the number of rows in the batches at the end of the pipeline. Returns InvalidArgument
// with the reason if the pipeline does not end with batches of one size.
MUSTER_EXPORT Result<int64_t> batch_size_of(const Dataset& dataset);
// Makes the batches of one worker from batches for all workers, by rebatch(sizes). A batch is empty
// only if more rows follow, so every step has rows on some worker.
MUSTER_EXPORT Dataset rebatch_for_worker(const Dataset& dataset, std::vector<int64_t> sizes);

}  // namespace muster::inline v0_1::data
