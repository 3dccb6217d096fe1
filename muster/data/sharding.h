// The rows of each batch that belong to each replica. Thread safety: a value.
#pragma once

#include <cstdint>

namespace muster::inline v0_1 {

// The replica that an iterator reads for. With n > 1 replicas, the rows of the last batch(b) or
// global_batch() of the pipeline are divided: round k covers elements [k·n·b, (k+1)·n·b) of its
// input's order, and replica r gets the r-th b of them. A rebatch() after it gives its batches to
// the replicas in turn. All replicas get the same number of rounds; in the last one a replica may
// get fewer rows, or a batch of zero rows.
struct Sharding {
  int64_t num_replicas = 1;
  int64_t replica = 0;
  bool global_batches = false;  // batch(n) means n over all replicas, as global_batch(n) does
  bool in_sync = true;  // false: one replica's batch makes an update, so both calls mean n per
                        // replica

  // Whether a batch, global or not, is divided between the replicas.
  bool divides(bool global) const { return in_sync && (global || global_batches); }
};

}  // namespace muster::inline v0_1
