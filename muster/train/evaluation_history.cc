#include "muster/train/evaluation_history.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/base/uri.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1 {

EvaluationHistory::EvaluationHistory(FileSystem& fs, std::string eval_dir)
    : fs_(fs), eval_dir_(std::move(eval_dir)) {}

std::map<std::string, uint64_t> EvaluationHistory::sizes_there() const {
  std::map<std::string, uint64_t> sizes;
  const Result<std::vector<DirectoryEntry>> entries = fs_.list_entries(eval_dir_);
  if (!entries.ok() && entries.error().kind() == ErrorKind::kNotFound) return sizes;
  for (const DirectoryEntry& entry : entries.value()) {
    if (formats::is_event_file(entry.name))
      sizes[join_path(eval_dir_, entry.name)] = entry.info.size;
  }
  return sizes;
}

bool EvaluationHistory::read() {
  const bool remote = is_remote(eval_dir_);
  // A writer in a store joins old files: one may have been removed since the list.
  constexpr int kMostLists = 4;
  for (int list = 1;; ++list) {
    std::map<std::string, uint64_t> sizes = sizes_there();
    if (sizes == sizes_) return list > 1;
    // In a store what is there was read, or is new; but a file that grew took over others, which
    // may have come and gone since. Then all count again, in their order.
    const bool all = !remote || std::ranges::any_of(sizes_, [&](const auto& before) {
      const auto now = sizes.find(before.first);
      return now != sizes.end() && now->second != before.second;
    });
    if (!remote) values_.clear();
    bool whole = true;
    for (const auto& [path, size] : sizes) {
      if (!all && sizes_.contains(path)) continue;
      const Result<formats::EventFile> file = formats::read_events(fs_, path);
      whole = file.ok() || file.error().kind() != ErrorKind::kNotFound || list == kMostLists;
      if (!whole) break;
      for (const formats::Event& event : file.value().events) {
        for (const formats::SummaryValue& value : event.values) {
          if (const float* number = std::get_if<float>(&value.value))
            values_[value.tag][event.step] = *number;
        }
      }
    }
    if (!whole) continue;
    sizes_ = std::move(sizes);
    return true;
  }
}

void EvaluationHistory::add(int64_t global_step, const std::map<std::string, double>& results) {
  for (const auto& [name, value] : results) {
    // A step is not a result, in events neither.
    if (name != "global_step") values_[name][global_step] = static_cast<float>(value);
  }
}

std::map<int64_t, double> EvaluationHistory::values(const std::string& metric, int64_t first_step,
                                                    int64_t last_step) const {
  std::map<int64_t, double> wanted;
  const auto found = values_.find(metric);
  if (found == values_.end()) {
    if (values_.empty()) return wanted;
    std::vector<std::string> names;
    for (const auto& [name, values] : values_) names.push_back(name);
    throw unknown_name("the evaluation history in " + eval_dir_, "metric", metric, names,
                       "eval_metrics of the model function, or \"loss\"");
  }
  for (const auto& [step, value] : found->second) {
    if (step >= first_step && step <= last_step) wanted[step] = value;
  }
  return wanted;
}

}  // namespace muster::inline v0_1
