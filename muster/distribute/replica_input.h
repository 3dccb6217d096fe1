// What a replica reads: its part of a data set, and where that stands in a checkpoint.
// Thread safety: belongs to the replica's thread. The replica outlives it.
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
  // `for_this_process`: the data set describes the data of this process alone. Throws what
  // data::distribute() throws.
  ReplicaInput(Replica& replica, const Dataset& dataset, bool for_this_process,
               const data::DistributeOptions& options = {});

  // Whether each process has data of its own, which may end earlier than that of others.
  bool by_process() const { return by_process_; }
  // This replica's batches; of zero rows once they are used up, after agree_on_form().
  data::BatchesPastEnd& batches() { return batches_; }
  const data::BatchesPastEnd& batches() const { return batches_; }

  // Of data that Muster divides, all processes must see the same, in batches of the same size, and
  // none may divide it by itself. All replicas call it together, before they read. Throws
  // InvalidArgument on each of them listing who has what.
  void check_same_data();
  // Whether any replica has data; one that has none learns the form of its batches of zero rows
  // from another. All replicas call it together. Throws InvalidArgument for what is no batch, and
  // what check_same_data() throws.
  bool agree_on_form();
  // How many batches are left until the data of the last process ends, where all can tell; else
  // below 0. All replicas call it together.
  int64_t remaining_over_all();

  // Where all replicas stand, as a checkpoint holds it. All replicas call it together.
  nlohmann::json save();
  // Continues there. Throws InvalidArgument when the data is divided in another way now, when
  // processes that read data of their own were not as many, and what Iterator::restore() throws.
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
