// The progress of a data set of a loop, as a checkpoint holds it. Thread safety: belongs to the
// thread that entered the scope.
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
  std::shared_ptr<Pass> current;          // the last one begun, until its end
  std::optional<nlohmann::json> resumed;  // where the next pass begins, instead of at the front
  // The position from a checkpoint, until the first pass shows that it belongs to this data set.
  std::optional<nlohmann::json> restored;
  nlohmann::json pipeline;  // the identity of the data; null if that cannot be compared

  // Where it is.
  struct Place {
    int64_t begun = 0, completed = 0;
    nlohmann::json pass{};  // the position in the one that is under way; null without one
  };
  // All replicas take part, unless Muster divides the data.
  Place place() const;
  // As a checkpoint holds it.
  nlohmann::json save(const Place& at) const;
  nlohmann::json save() const { return save(place()); }
  void restore(const nlohmann::json& state);
  // The replicas end that read it.
  void end();
};

}  // namespace muster::inline v0_1::distribute
