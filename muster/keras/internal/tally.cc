#include "muster/keras/internal/tally.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/distribute/per_replica.h"
#include "muster/keras/internal/json_number.h"

namespace muster::inline v0_1::keras::internal {

using nlohmann::json;

void Tally::add(double loss, int64_t rows, const std::deque<std::vector<Metric>>& metrics) {
  loss_ += loss * static_cast<double>(rows);
  rows_ += rows;
  if (metrics_.empty()) {
    metrics_ = metrics;
    // Sums from before are added to those of the first replica.
    for (size_t m = 0; m < restored_.size() && m < metrics_.front().size(); ++m) {
      Metric before = metrics_.front()[m].with_state(restored_[m]);
      before.merge(metrics_.front()[m]);
      metrics_.front()[m] = std::move(before);
    }
    restored_.clear();
    return;
  }
  for (size_t replica = 0; replica < metrics.size(); ++replica) {
    for (size_t m = 0; m < metrics[replica].size(); ++m)
      metrics_[replica][m].merge(metrics[replica][m]);
  }
}

Logs Tally::logs_of(const std::vector<Metric>& metrics, bool so_far) const {
  Logs logs{{"loss", rows_ > 0 ? loss_ / static_cast<double>(rows_)
                               : std::numeric_limits<double>::quiet_NaN()}};
  for (size_t m = 0; m < metrics.size(); ++m) {
    logs[names_[m]] = so_far ? metrics[m].result_so_far() : metrics[m].result();
    const std::vector<double> parts = metrics[m].parts();
    for (size_t p = 0; p < parts.size(); ++p)
      logs[names_[m] + "/" + metrics[m].definition()->part_names[p]] = parts[p];
  }
  return logs;
}

Logs Tally::here() const {
  if (metrics_.empty()) return logs_of({}, true);
  std::vector<Metric> all = metrics_.front();
  for (size_t replica = 1; replica < metrics_.size(); ++replica) {
    for (size_t m = 0; m < all.size(); ++m) all[m].merge(metrics_[replica][m]);
  }
  return logs_of(all, /*so_far=*/true);
}

std::vector<Metric> Tally::merged(const distribute::Strategy& strategy) const {
  std::vector<Metric> all;
  for (size_t m = 0; m < names_.size() && !metrics_.empty(); ++m) {
    std::deque<Metric> each;
    for (const std::vector<Metric>& of_replica : metrics_) each.push_back(of_replica[m]);
    all.push_back(strategy.reduce(distribute::PerReplica<Metric>(std::move(each))));
  }
  return all;
}

Logs Tally::over_all(const distribute::Strategy& strategy, bool so_far) const {
  if (metrics_.empty() && !restored_logs_.empty()) return restored_logs_;
  return logs_of(merged(strategy), so_far);
}

json Tally::save(const distribute::Strategy& strategy) const {
  json states = json::array();
  for (const Metric& metric : merged(strategy)) states.push_back(metric.state());
  return {{"loss", loss_},
          {"rows", rows_},
          {"metrics", states},
          {"logs", over_all(strategy, /*so_far=*/true)}};
}

json Tally::save_here() const {
  json states = json::array();
  if (metrics_.empty()) {
    for (const auto& state : restored_) states.push_back(state);
    return states;
  }
  std::vector<Metric> all = metrics_.front();
  for (size_t m = 0; m < all.size(); ++m) {
    for (size_t replica = 1; replica < metrics_.size(); ++replica)
      all[m].merge(metrics_[replica][m]);
    states.push_back(all[m].state());
  }
  return states;
}

json Tally::save_all(const std::vector<json>& of_processes, double loss, int64_t rows) const {
  Tally all(names_);
  all.loss_ = loss;
  all.rows_ = rows;
  json states = json::array();
  std::vector<Metric> merged;
  for (const json& process : of_processes) {
    for (size_t m = 0; !metrics_.empty() && m < process.size(); ++m) {
      std::vector<double> values;
      for (const json& value : process[m]) values.push_back(json_number(value));
      const Metric of_process = metrics_.front()[m].with_state(values);
      if (m < merged.size()) {
        merged[m].merge(of_process);
      } else {
        merged.push_back(of_process);
      }
    }
  }
  for (const Metric& metric : merged) states.push_back(metric.state());
  Logs logs = all.logs_of(merged, /*so_far=*/true);
  // Nothing was added since the last change.
  if (metrics_.empty() && !restored_logs_.empty()) {
    states = of_processes.front();
    const double mean = logs.at("loss");
    logs = restored_logs_;
    logs["loss"] = mean;
  }
  return {{"loss", loss}, {"rows", rows}, {"metrics", states}, {"logs", logs}};
}

void Tally::restore(const json& state, bool first) {
  loss_ = json_number(state.at("loss"));
  rows_ = state.at("rows").get<int64_t>();
  restored_logs_.clear();
  restored_.clear();
  // Without an example yet the mean loss is NaN.
  for (const auto& [name, value] : state.at("logs").items())
    restored_logs_[name] = json_number(value);
  if (!first) return;
  for (const json& metric : state.at("metrics")) {
    restored_.emplace_back();
    for (const json& value : metric) restored_.back().push_back(json_number(value));
  }
}

}  // namespace muster::inline v0_1::keras::internal
