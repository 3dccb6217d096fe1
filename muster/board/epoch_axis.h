// Epochs on the x axis of a chart: the epoch of each step of a run. Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/board/run_data.h"
#include "muster/board/run_store.h"

namespace muster::inline v0_1::board {

// The scalar that says in which epoch a step is, as PyTorch Lightning writes it.
inline constexpr const char* kEpochTag = "epoch";

// The epochs of one run's steps.
class EpochAxis {
 public:
  // Knows no epochs.
  EpochAxis() = default;
  // With `steps_per_epoch` it is step / steps_per_epoch. Without it, the epochs are those of the
  // run's scalar "epoch", and between two of its points on a line between them.
  EpochAxis(const RunData& run, std::optional<double> steps_per_epoch);

  // Whether the epochs of the run are known.
  bool is_known() const { return steps_per_epoch_.has_value() || !points_.empty(); }
  // The epoch of a step. Before the first point and after the last one it is that of the point.
  double at(double step) const;
  // The steps whose epochs are in this range; an empty bound stays empty.
  std::pair<std::optional<double>, std::optional<double>> steps(std::optional<double> from,
                                                                std::optional<double> to) const;

 private:
  std::optional<double> steps_per_epoch_;
  std::vector<std::pair<double, double>> points_;  // of step and epoch, by step
};

// The epochs of the run of this name: its own, or those of the run that its folder is in.
EpochAxis epochs_of(const RunStore& store, std::string name, std::optional<double> steps_per_epoch);

}  // namespace muster::inline v0_1::board
