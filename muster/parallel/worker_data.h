// One worker's part of a data set in a loop of LibTorch. Cluster::distribute() makes it.
//
//   auto data = cluster.distribute(digits.shuffle(60000).global_batch(64));
//   checkpoint.add("data", data);
//   while (data.passes() < epochs) {
//     while (auto batch = data.next()) {
//       const torch::Tensor& x = batch->features, & y = batch->labels;
//       ...
//     }
//     cluster.join();
//   }
//
// Thread safety: belongs to the thread of its Cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "muster/base/export.h"
#include "muster/tensor/batch.h"

namespace muster::inline v0_1 {

// Copies share the position.
class MUSTER_EXPORT WorkerData {
 public:
  class Impl;
  explicit WorkerData(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  // The next batch of this worker, on the CPU; nothing at the end of a pass over the data. The call
  // after that begins the next pass, which shuffles in another order. If the last batch has no rows
  // for this worker, the pass ends one batch earlier here: call Cluster::join() after each pass.
  // Throws InvalidArgument for a batch without rows that is not the last one, and the errors of the
  // data set.
  std::optional<Batch> next();
  // How many passes have ended on this worker, those before a restore() included.
  int64_t passes() const;

 private:
  friend class LoopCheckpoint;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1
