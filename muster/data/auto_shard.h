// Divides a pipeline between workers, by the rules of tf.data's auto-sharding. Strategies do this
// by themselves; call it where workers are started by other means. Thread safety: pure functions.
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
  Dataset dataset;            // of this worker; hand_sharded() when each worker has data of its own
  AutoShardPolicy applied{};  // kFile, kData, kHint or kOff
  std::string why{};          // "files are divided: worker 1 of 3 reads 4 of 12"
};

// Returns the part of worker `index`, by the policy given, or by that of `dataset.options()` when
// none is given. FILE goes from the end of the pipeline to the files it begins with, through the
// stages that tf.data goes through: not enumerate(), scan(), take_while(), unique(),
// group_by_window(), and what chooses among data sets. Each worker then reads every num_workers-th
// file. All branches of zip() and concatenate() must begin with files. A shuffle of file names
// happens after the division. DATA adds shard() at the end, before a last prefetch(). The sizes of
// a rebatch() there, which may be others on each worker, do not count then: every batch in front of
// it is cut into a piece of equal size for each worker, rounded up (for each size, where there are
// several to a worker), and the last pieces may have no rows. So all workers together read each row
// once. AUTO means FILE where that is possible, else DATA (of fewer
// files than workers it is an error here, as in tf.data; distribute() takes DATA then). HINT puts
// num_workers and index into shard(kShardHint, kShardHint). Throws InvalidArgument for an index
// outside of [0, num_workers), and, on every worker alike, for fewer files (or, with DATA, known
// elements) than workers. Throws NotFound when FILE is asked for and no files are found. A pipeline
// that is sharded by hand is left as it is.
MUSTER_EXPORT AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index);
MUSTER_EXPORT AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index,
                                     AutoShardPolicy policy);

// Divides by FILE where that is possible; returns nothing when the pipeline does not begin with
// files. With `why_not`, fewer files than workers are no error either, and it says which it is:
// "there are fewer files (1) than workers (2)".
MUSTER_EXPORT std::optional<AutoSharded> divide_files(const Dataset& dataset, int64_t num_workers,
                                                      int64_t index,
                                                      std::string* why_not = nullptr);

// Whether the pipeline reads what from_generator() or from_sequential() gives, as far as can be
// told without running it: to look at an element of a live stream may take long, and takes it away.
MUSTER_EXPORT bool reads_a_stream(const Dataset& dataset);
// Whether the pipeline ends with the batches of a global_batch().
MUSTER_EXPORT bool ends_with_global_batch(const Dataset& dataset);
// Returns the size of the batches that a pipeline ends with, in rows. Returns InvalidArgument,
// which says why, when it does not end with batches of one size.
MUSTER_EXPORT Result<int64_t> batch_size_of(const Dataset& dataset);
// Makes the batches of one worker out of batches for all of them, by rebatch(sizes). A batch is
// empty only when more rows follow, so that every step has rows on some worker.
MUSTER_EXPORT Dataset rebatch_for_worker(const Dataset& dataset, std::vector<int64_t> sizes);

}  // namespace muster::inline v0_1::data
