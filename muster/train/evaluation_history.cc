#include "muster/train/evaluation_history.h"

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

bool EvaluationHistory::read() {
  // The objects of a store do not grow: what is there was read, or is new.
  const bool grows = !is_remote(eval_dir_);
  const std::vector<std::string> paths = formats::list_event_files(fs_, eval_dir_).value();
  std::map<std::string, uint64_t> sizes;
  for (const std::string& path : paths) sizes[path] = grows ? fs_.file_size(path).value() : 0;
  if (sizes == sizes_) return false;
  const std::map<std::string, uint64_t> before = std::exchange(sizes_, std::move(sizes));
  if (grows) values_.clear();
  for (const std::string& path : paths) {
    if (!grows && before.contains(path)) continue;
    for (const formats::Event& event : formats::read_events(fs_, path).value().events) {
      for (const formats::SummaryValue& value : event.values) {
        if (const float* number = std::get_if<float>(&value.value))
          values_[value.tag][event.step] = *number;
      }
    }
  }
  return true;
}

void EvaluationHistory::add(int64_t global_step, const std::map<std::string, double>& results) {
  for (const auto& [name, value] : results) {
    // A step is no result, in events neither.
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
