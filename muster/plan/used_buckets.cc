#include "muster/plan/used_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

// Of a loop whose sets do not repeat, nothing can be predicted, and little is kept.
constexpr size_t kMostSets = 16, kLongestHistory = 8, kMostHistories = 1024;

}  // namespace

std::vector<Bucket> used_parts(std::span<const FlatParameter> layout,
                               std::span<const Bucket> buckets, const std::vector<bool>& used,
                               int most_parts) {
  std::map<int64_t, int64_t> bytes_of;
  for (const FlatParameter& entry : layout) bytes_of[entry.parameter] = entry.bytes;
  std::vector<Bucket> result;
  for (const Bucket& bucket : buckets) {
    std::vector<Bucket> parts;
    bool open = false;
    int64_t offset = bucket.offset;
    for (const int64_t parameter : bucket.parameters) {
      if (parameter >= static_cast<int64_t>(used.size())) {
        throw invalid_argument(fmt::format(
            "whether parameter {} is used was not given, only for {}", parameter, used.size()));
      }
      const int64_t bytes = bytes_of.at(parameter);
      if (used[static_cast<size_t>(parameter)]) {
        if (!std::exchange(open, true)) parts.push_back({.dtype = bucket.dtype, .offset = offset});
        parts.back().bytes += bytes;
        parts.back().parameters.push_back(parameter);
      } else {
        open = false;
      }
      offset += bytes;
    }
    if (std::ssize(parts) > most_parts) {
      result.push_back(bucket);
    } else {
      std::ranges::move(parts, std::back_inserter(result));
    }
  }
  return result;
}

void UsePrediction::note(const std::vector<bool>& used) {
  auto found = std::ranges::find(sets_, used);
  if (found == sets_.end()) {
    if (sets_.size() == kMostSets) {
      sets_.clear();
      history_.clear();
      next_.clear();
    }
    found = sets_.insert(sets_.end(), used);
  }
  const auto set = static_cast<size_t>(found - sets_.begin());
  expected_ = sets_[set];
  if (sets_.size() == 1) return;
  if (next_.size() > kMostHistories) next_.clear();
  for (auto from = history_.begin(); from != history_.end(); ++from)
    next_[{from, history_.end()}] = set;
  if (history_.size() == kLongestHistory) history_.erase(history_.begin());
  history_.push_back(set);
  for (auto from = history_.begin(); from != history_.end(); ++from) {
    const auto next = next_.find({from, history_.end()});
    if (next == next_.end()) continue;
    expected_ = sets_[next->second];
    return;
  }
}

}  // namespace muster::inline v0_1::plan
