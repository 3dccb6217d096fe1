// A data set whose batches are divided between the replicas of the entered strategy:
//
//   for (const auto& batch : strategy->distribute(dataset)) strategy->run(step, batch);
//
// Thread safety: belongs to the thread that entered the scope.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/distribute/per_replica.h"
#include "muster/distribute/strategy.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/input_context.h"

namespace muster::inline v0_1::distribute {

class Loop;

class MUSTER_EXPORT DistributedDataset {
 public:
  class Pass;
  struct Progress;
  // An input iterator; equal to the end when no replica of any process has data left. A replica
  // whose data ends earlier gets batches of zero rows.
  class Iterator {
   public:
    using value_type = PerReplica<Batch>;               // a part for each replica here
    using difference_type = std::ptrdiff_t;             // std::input_iterator requires it
    using iterator_category = std::input_iterator_tag;  // read once, forwards

    Iterator() = default;
    explicit Iterator(std::shared_ptr<Pass> pass);
    const PerReplica<Batch>& operator*() const { return batch_; }
    const PerReplica<Batch>* operator->() const { return &batch_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return pass_ == other.pass_; }

   private:
    std::shared_ptr<Pass> pass_;  // null at the end
    PerReplica<Batch> batch_;
  };

  // Begins a pass over the data; each pass shuffles in another order, like the passes of a
  // repeat(). All processes begin it together. Throws InvalidArgument for elements that are not
  // batches, and, with several replicas, for a data set without batch().
  Iterator begin();
  Iterator end() const { return {}; }
  // The number of finished passes, including those before the checkpoint that Scope::restore()
  // loaded. The first begin() after that continues the pass that was in progress, or was left, at
  // Scope::save().
  int64_t completed_passes() const;

 private:
  friend class Loop;
  DistributedDataset(std::shared_ptr<Loop> loop, Dataset dataset, bool for_this_process,
                     std::shared_ptr<Progress> progress);

  std::shared_ptr<Loop> loop_;
  Dataset dataset_;
  bool for_this_process_;  // false: it describes all data, in global batches
  std::shared_ptr<Progress> progress_;
};

// Implement Strategy::distribute() and distribute_from_function().
MUSTER_EXPORT DistributedDataset distribute_data(const Strategy& strategy, const Dataset& dataset);
MUSTER_EXPORT DistributedDataset
distribute_data(const Strategy& strategy, const std::function<Dataset(const InputContext&)>& fn);

// Definitions of Strategy's functions that return types of this folder.
inline DistributedDataset Strategy::distribute(const Dataset& dataset) const {
  return distribute_data(*this, dataset);
}
inline DistributedDataset Strategy::distribute_from_function(
    const std::function<Dataset(const InputContext&)>& fn) const {
  return distribute_data(*this, fn);
}

}  // namespace muster::inline v0_1::distribute
