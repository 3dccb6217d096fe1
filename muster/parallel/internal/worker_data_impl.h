// The state of a WorkerData. Thread safety: belongs to the thread of its Cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "muster/data/dataset.h"
#include "muster/distribute/replica_input.h"
#include "muster/parallel/internal/cluster_impl.h"
#include "muster/parallel/worker_data.h"

namespace muster::inline v0_1 {

class WorkerData::Impl {
 public:
  // All workers call it together. Throws InvalidArgument where their data sets differ.
  Impl(std::shared_ptr<Cluster::Impl> cluster, Dataset dataset);

  std::optional<Batch> next();
  int64_t passes() const { return pass_ + (ended_ ? 1 : 0); }

  // The position of all workers, as a checkpoint holds it, and back. All workers call them
  // together. restore() throws InvalidArgument if the data is another one now, or is divided in
  // another way, or workers that read data of their own have changed in number.
  nlohmann::json save();
  void restore(const nlohmann::json& state);

 private:
  void open();

  const std::shared_ptr<Cluster::Impl> cluster_;
  const Dataset dataset_;
  int64_t pass_ = 0;
  bool ended_ = false;  // the pass, on this worker
  std::optional<distribute::ReplicaInput> input_;
};

}  // namespace muster::inline v0_1
