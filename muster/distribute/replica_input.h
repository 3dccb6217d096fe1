// The input of a replica: its part of a data set, and the position of that in a checkpoint. Thread
// safety: belongs to the replica's thread. The replica outlives it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/base/export.h"
#include "muster/base/result.h"
#include "muster/data/batches_past_end.h"
#include "muster/data/distribute.h"
#include "muster/distribute/replica.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::distribute {

class MUSTER_PART_EXPORT ReplicaInput {
 public:
  // `for_this_process`: the data set describes the data of this process alone. Throws the errors of
  // data::distribute().
  ReplicaInput(Replica& replica, const Dataset& dataset, bool for_this_process,
               const data::DistributeOptions& options = {});

  // Whether each process has data of its own, which may end earlier than the data of others.
  bool by_process() const { return by_process_; }
  // This replica's batches; of zero rows once they are used up, after agree_on_form().
  data::BatchesPastEnd& batches() { return batches_; }
  const data::BatchesPastEnd& batches() const { return batches_; }

  // All processes must see the same data if Muster divides it, in batches of the same size, and
  // none may divide it by itself. All replicas call it together, before they read. Throws
  // InvalidArgument on each of them listing the value of each process.
  void check_same_data();
  // Whether any replica has data; a replica without data learns the form of its batches of zero
  // rows from another. All replicas call it together. Throws InvalidArgument for an element that is
  // no batch, and the errors of check_same_data().
  bool agree_on_form();
  // How many batches are left until the data of the last process ends, if all know; else below 0.
  // All replicas call it together.
  int64_t remaining_over_all();

  // The positions of all replicas, as a checkpoint holds them. All replicas call it together.
  nlohmann::json save();
  // Continues there. Throws InvalidArgument if the data is divided in another way now, or if
  // processes that read data of their own have changed in number, and the errors of
  // Iterator::restore().
  void restore(const nlohmann::json& state);

 private:
  ReplicaInput(Replica& replica, data::DistributedInput input, bool for_this_process,
               const Result<int64_t>& batch_size);

  Replica& replica_;
  bool by_process_;
  bool for_this_process_;  // the program divided the data, and may want batches of several sizes
  std::string batch_size_;
  data::BatchesPastEnd batches_;
};

}  // namespace muster::inline v0_1::distribute
