// Losses and metrics since an epoch, or an evaluation, began: each replica of this process adds up
// its own, and at the end all are merged. Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/distribute/strategy.h"
#include "muster/keras/callback.h"
#include "muster/metrics/metric.h"

namespace muster::inline v0_1::keras::internal {

class Tally {
 public:
  explicit Tally(std::vector<std::string> names) : names_(std::move(names)) {}

  // A batch: its loss over all replicas, the examples of all, and the metrics of each replica here.
  void add(double loss, int64_t rows, const std::deque<std::vector<Metric>>& metrics);
  int64_t rows() const { return rows_; }
  // The sums of this process's replicas, and the loss of all.
  Logs here() const;
  // The sums of all replicas. All processes call it together. `so_far`: more is to come, so that
  // metrics that are not defined yet give no message (Metric::result()).
  Logs over_all(const distribute::Strategy& strategy, bool so_far = false) const;
  // The same as JSON that restore() takes, for a backup. All processes call it together.
  nlohmann::json save(const distribute::Strategy& strategy) const;
  // Of an elastic run: the sums of this process alone, as a JSON; and what save() returns, made of
  // those of several processes, with the loss and the rows of another tally. Sums are lost where
  // this process has none, and so does not know of what they are.
  nlohmann::json save_here() const;
  nlohmann::json save_all(const std::vector<nlohmann::json>& of_processes, double loss,
                          int64_t rows) const;
  // The mean loss times the rows; each process has that of all.
  double loss_sum() const { return loss_; }
  // Continues with the result of save(); `first`: whether this process has the first replica, which
  // takes the sums.
  void restore(const nlohmann::json& state, bool first);

 private:
  std::vector<Metric> merged(const distribute::Strategy& strategy) const;
  Logs logs_of(const std::vector<Metric>& metrics, bool so_far) const;

  std::vector<std::string> names_;
  double loss_ = 0;  // times rows
  int64_t rows_ = 0;
  std::deque<std::vector<Metric>> metrics_;    // by replica of this process
  std::vector<std::vector<double>> restored_;  // states that wait for the first batch
  Logs restored_logs_;                         // their values
};

}  // namespace muster::inline v0_1::keras::internal
