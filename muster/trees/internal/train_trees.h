// A training run of boosted trees: on each replica, from its rows to the saved ensemble.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/run_config.h"
#include "muster/train/input_fn.h"
#include "muster/train/results.h"
#include "muster/trees/internal/boosting.h"
#include "muster/trees/internal/read_features.h"

namespace muster::inline v0_1::trees {

// The parameters of a run.
struct TrainTreesOptions {
  InputForm form{};
  int64_t n_trees = 100;  // rounds
  bool center_bias = false;
  GrowOptions grow{};
  std::vector<std::string> categorical_features{};
  std::optional<int64_t> steps{};
  std::optional<int64_t> max_steps{};
  std::string model_dir{};
  const RunConfig* config = nullptr;  // how often it saves and speaks
  // Whether the program asks the run to end; empty: never.
  std::function<bool()> asked_to_end{};
  std::function<bool()> cancelled{};  // the same, or a signal: ends waits; empty: a signal does
};

// Implements BoostedTrees::train(), on the replicas of `strategy`.
TrainResult train_trees(const InputFn& input_fn, const TrainTreesOptions& options,
                        const distribute::Strategy& strategy,
                        const distribute::StartOptions& start);

}  // namespace muster::inline v0_1::trees
