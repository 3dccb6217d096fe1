// What a replica reads: its part of a data set, where it stands in it, and batches of zero rows
// once it is used up.
// Thread safety: belongs to the replica's thread. The replica outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "muster/data/distribute.h"
#include "muster/data/iterator.h"
#include "muster/distribute/replica.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::distribute {

class ReplicaInput {
 public:
  // `for_this_process`: the data set describes the data of this process alone. Throws what
  // data::distribute() throws.
  ReplicaInput(Replica& replica, const Dataset& dataset, bool for_this_process,
               const data::DistributeOptions& options = {});

  // Whether each process has data of its own, which may end earlier than that of others.
  bool by_process() const { return by_process_; }
  Iterator& iterator() { return *iterator_; }
  const Iterator& iterator() const { return *iterator_; }

  // The batch this replica takes part with when its data is used up: zero rows, in the form of
  // `first`, which is its own first batch, or of another replica's where it has none (nullptr).
  // Nothing when no replica has any data. All replicas call it together, once. Throws
  // InvalidArgument when `first` is no batch.
  std::optional<Element> zero_rows(const Element* first);
  // How many batches are left until the data of the last process ends, where all can tell; else
  // below 0. All replicas call it together.
  int64_t remaining_over_all();

  // Where `position`, of this replica's iterator, stands over all replicas, as a checkpoint holds
  // it. All replicas call it together.
  nlohmann::json save(const nlohmann::json& position);
  // Continues there. Throws InvalidArgument when the data is divided in another way now, when
  // processes that read data of their own were not as many, and what Iterator::restore() throws.
  void restore(const nlohmann::json& state);

 private:
  Replica& replica_;
  std::unique_ptr<Iterator> iterator_;
  bool by_process_ = false;
};

}  // namespace muster::inline v0_1::distribute
