// How far a data set of a loop has come: what a checkpoint holds of it.
// Thread safety: belongs to the thread that entered the scope.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/loop/distributed_dataset.h"

namespace muster::inline v0_1::distribute {

struct DistributedDataset::Progress {
  int64_t begun = 0;  // passes
  int64_t completed = 0;
  std::shared_ptr<Pass> current;          // the last one begun, until it comes to its end
  std::optional<nlohmann::json> resumed;  // where the next pass begins, instead of at the front
  // What a checkpoint said, until the first pass shows that it is of this data set.
  std::optional<nlohmann::json> restored;
  nlohmann::json pipeline;  // the identity of what was read; null when that cannot be compared

  // All replicas take part.
  nlohmann::json save() const;
  void restore(const nlohmann::json& state);
};

}  // namespace muster::inline v0_1::distribute
