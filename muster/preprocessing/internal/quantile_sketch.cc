#include "muster/preprocessing/internal/quantile_sketch.h"

#include <algorithm>
#include <cmath>

namespace muster::inline v0_1::internal {

QuantileSketch::QuantileSketch(double epsilon, size_t block)
    : kept_(static_cast<int64_t>(std::ceil(std::min(2 / epsilon, static_cast<double>(block))))),
      block_(block) {}

void QuantileSketch::add(std::span<const double> values) {
  count_ += static_cast<int64_t>(values.size());
  while (!values.empty()) {
    const size_t taken = std::min(values.size(), block_ - values_.size());
    values_.insert(values_.end(), values.begin(), values.begin() + static_cast<ptrdiff_t>(taken));
    values = values.subspan(taken);
    if (values_.size() == block_) summarize();
  }
}

void QuantileSketch::summarize() {
  std::sort(values_.begin(), values_.end());
  const auto size = static_cast<int64_t>(block_);
  int64_t before = 0;
  for (int64_t i = 1; i <= kept_; ++i) {
    const int64_t rank = (i * size + kept_ - 1) / kept_;
    summaries_.push_back({values_[static_cast<size_t>(rank - 1)], rank - before});
    before = rank;
  }
  values_.clear();
}

std::vector<double> QuantileSketch::boundaries(int64_t bins) const {
  std::vector<Weighted> all = summaries_;
  for (const double value : values_) all.push_back({value, 1});
  std::sort(all.begin(), all.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  std::vector<double> cuts;
  if (static_cast<int64_t>(all.size()) < bins) {
    for (size_t i = 0; i + 1 < all.size(); ++i) cuts.push_back(all[i].value);
    return cuts;
  }
  size_t at = 0;
  int64_t up_to = all[0].weight;  // the weight of all[0 ... at]
  for (int64_t i = 1; i < bins; ++i) {
    const double wanted =
        static_cast<double>(i) * static_cast<double>(count_) / static_cast<double>(bins);
    while (static_cast<double>(up_to) < wanted) up_to += all[++at].weight;
    const double beyond = static_cast<double>(up_to) - wanted;
    const double step = at == 0 ? 0 : all[at].value - all[at - 1].value;
    cuts.push_back(all[at].value - step * beyond / static_cast<double>(all[at].weight));
  }
  return cuts;
}

}  // namespace muster::inline v0_1::internal
