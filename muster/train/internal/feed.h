// What a replica trains on: the batches of its input function, and where it stands in them.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/distribute/replica_input.h"
#include "muster/train/input_fn.h"

namespace muster::inline v0_1 {

class Feed {
 public:
  // `replica` outlives it.
  Feed(const InputFn& input_fn, distribute::Replica& replica);

  // The batch the model is built with: the first, or zero rows of another replica's. Throws
  // InvalidArgument when there is no data at all. All replicas call it together.
  Element first();
  // False when this replica is out of data; then *out has zero rows.
  bool next(Element* out);

  // All replicas call it together. The position behind the last batch next() gave: the batch the
  // model was built with is still to come.
  nlohmann::json save();
  // Throws InvalidArgument when this input cannot continue where that one stood.
  void restore(const nlohmann::json& state);

  Position position() const;
  // Where the time of this replica's pipeline went.
  std::vector<StageTime> times() const { return input_.iterator().times(); }
  // Of its shuffles: the one it was restored with, if it was.
  uint64_t seed() const;
  // Batches until the data ends, where that can be told; otherwise below 0. Of workers that shard
  // themselves, the last to end decides, whom this one does not know.
  int64_t batches_left() const;

 private:
  Feed(const Dataset& dataset, bool for_this_process, distribute::Replica& replica);

  distribute::Replica& replica_;
  std::string description_;
  distribute::ReplicaInput input_;
  nlohmann::json start_;  // before the pending batch
  Position start_position_;
  Element pending_;
  bool has_pending_ = false;
  bool exhausted_ = false;
  Element empty_;
};

}  // namespace muster::inline v0_1
