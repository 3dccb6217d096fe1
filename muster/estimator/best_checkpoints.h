// Keeps the best checkpoints of a model_dir in addition to the newest, ranked by the evaluations of
// train_and_evaluate(). Thread safety: values and free functions.
//
//   RunConfig config{.model_dir = "m", .keep_best = KeepBest{.metric = "accuracy"}};
//   ...
//   estimator.evaluate(test, {.checkpoint_path = best_checkpoints("m").at(0).prefix});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1 {

// Which checkpoints are best. A NaN metric is worse than any other; of equal metrics the earlier
// checkpoint is better.
struct MUSTER_EXPORT KeepBest {
  int64_t count = 1;  // how many to keep, besides the keep_checkpoint_max newest; at least 1
  std::string metric = "loss";
  // Unset: by the name of the metric (better_by_name()); a name that does not tell is refused.
  std::optional<bool> higher_is_better = {};
  std::string evaluation = {};  // the EvalSpec::name whose evaluations rank them
  bool operator==(const KeepBest&) const = default;

  // Whether higher values are better. Throws InvalidArgument if neither the field nor the name
  // tells.
  bool higher() const;
};

// One of the best checkpoints.
struct BestCheckpoint {
  std::string prefix{};  // "m/model.ckpt-120"
  int64_t global_step = 0;
  double value = 0;  // of the metric
};

// Returns the checkpoints in best_checkpoints.json of model_dir that still exist, the best first;
// empty if none was kept as best. Throws Corrupt with the file's name when the file is damaged, and
// the error of reading it.
MUSTER_EXPORT std::vector<BestCheckpoint> best_checkpoints(const std::string& model_dir,
                                                           FileSystem& fs = file_systems());

}  // namespace muster::inline v0_1
