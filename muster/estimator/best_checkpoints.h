// Keeps the best checkpoints of a model_dir beside the newest ones, by the evaluations of
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

// Which checkpoints are the best. A metric that is no number is worse than any other; of equal ones
// the earlier is better.
struct MUSTER_EXPORT KeepBest {
  int64_t count = 1;  // so many are kept, besides the keep_checkpoint_max newest; at least 1
  std::string metric = "loss";
  // Unset: as the name of the metric tells (better_by_name()); a name that does not is refused.
  std::optional<bool> higher_is_better = {};
  std::string evaluation = {};  // EvalSpec::name of the evaluations that count
  bool operator==(const KeepBest&) const = default;

  // Whether higher values are better. Throws InvalidArgument where nobody says.
  bool higher() const;
};

// One of them.
struct BestCheckpoint {
  std::string prefix{};  // "m/model.ckpt-120"
  int64_t global_step = 0;
  double value = 0;  // of the metric
};

// Those that best_checkpoints.json in model_dir names and that are there, the best one first; empty
// when nothing was kept for being good. Throws Corrupt, naming the file, when it is damaged, and
// what reading it throws.
MUSTER_EXPORT std::vector<BestCheckpoint> best_checkpoints(const std::string& model_dir,
                                                           FileSystem& fs = file_systems());

}  // namespace muster::inline v0_1
