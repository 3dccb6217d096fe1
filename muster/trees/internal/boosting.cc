#include "muster/trees/internal/boosting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::trees {
namespace {

Tensor doubles(const std::vector<double>& values) {
  Tensor made = torch::empty({1, static_cast<int64_t>(values.size())}, kFloat64);
  std::ranges::copy(values, made.data_ptr<double>());
  return made;
}

// Infinite if one is NaN.
double largest_size(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) {
    const float size = std::abs(value);
    if (!(size <= std::numeric_limits<float>::max()))
      return std::numeric_limits<double>::infinity();
    largest = std::max(largest, size);
  }
  return largest;
}

// The largest weight, and the smallest one with a minus; without rows both are below all others.
std::vector<double> ends_of_weights(const Rows& rows) {
  constexpr double kNone = std::numeric_limits<double>::lowest();
  if (rows.size() == 0) return {kNone, kNone};
  if (rows.weights.empty()) return {1, -1};
  const auto [least, largest] = std::ranges::minmax(rows.weights);
  return {largest, -least};
}

// Derivatives are whole numbers in units of the largest one: a weight far below it is rounded.
void warn_of_weights(double largest, double smallest) {
  constexpr double kMostTimes = 256;
  if (largest <= kMostTimes * smallest) return;
  log::warning(
      fmt::format("weights range from {:g} to {:g}: boosted trees store them with 16 bits of the "
                  "largest, so the smallest are rounded by up to {:.2g} %",
                  smallest, largest, std::min(100.0, 100 * largest / 131072 / smallest)));
}

}  // namespace

Boosting::Boosting(Rows rows, const BoostingOptions& options, Ensemble ensemble,
                   distribute::Exchange& exchange, int64_t replicas)
    : options_(options),
      ensemble_(std::move(ensemble)),
      exchange_(exchange),
      replicas_(replicas),
      rows_(std::move(rows)) {
  const Tensor count =
      exchange_.reduce(distribute::ReduceOp::kSum, torch::full({1}, rows_.size(), kInt64));
  if (count.item<int64_t>() == 0)
    throw invalid_argument("boosted trees got no rows whose weight is above 0",
                           "check the data and the weight column");
  const std::vector<double> weights = largest_of_all(ends_of_weights(rows_));
  if (options_.speaks) warn_of_weights(weights[0], -weights[1]);
  if (ensemble_.trees.empty()) center(rows_);
  const auto size = static_cast<size_t>(rows_.size());
  scores_.assign(static_cast<size_t>(ensemble_.outputs), std::vector<double>(size));
  std::vector<double> row(rows_.columns.size());
  std::vector<double> logits(scores_.size());
  for (size_t i = 0; i < size; ++i) {
    for (size_t f = 0; f < row.size(); ++f) row[f] = rows_.value(f, i);
    std::ranges::fill(logits, 0.0);
    ensemble_.add_logits(row.data(), logits.data());
    for (size_t k = 0; k < logits.size(); ++k) scores_[k][i] = logits[k];
  }
  bins_ = make_bins(rows_, options_.category, exchange_);
  binned_ = bin_rows(rows_, bins_);
  rows_.columns = {};
  rows_.doubles = {};
  grower_ = std::make_unique<Grower>(bins_, binned_, options_.grow, exchange_, replicas_);
}

Boosting::~Boosting() = default;

std::vector<double> Boosting::largest_of_all(const std::vector<double>& values) {
  std::vector<double> largest = values;
  if (replicas_ == 1) return largest;
  for (const Tensor& other : exchange_.gather(doubles(values), 0)) {
    const auto* of = other.data_ptr<double>();
    for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], of[i]);
  }
  return largest;
}

// The bias with which the mean prediction is the mean label. Sums are of whole numbers, like sums
// of derivatives, with as many bits as the number of rows leaves.
void Boosting::center(const Rows& rows) {
  ensemble_.bias.assign(static_cast<size_t>(ensemble_.outputs), 0.0);
  if (!options_.center_bias) return;
  const auto weight = [&](size_t i) {
    return rows.weights.empty() ? 1.0 : static_cast<double>(rows.weights[i]);
  };
  const auto size = static_cast<size_t>(rows.size());
  double largest_label = 0, largest_weight = 0;
  for (size_t i = 0; i < size; ++i) {
    largest_weight = std::max(largest_weight, weight(i));
    largest_label = std::max(largest_label, std::abs(weight(i) * rows.labels[i]));
  }
  const std::vector<double> largest = largest_of_all({largest_label, largest_weight});
  constexpr int kBits = 30;  // so that the sums of 2^32 rows fit
  const auto unit = [&](double of) {
    int exponent = 0;
    std::frexp(of, &exponent);
    return std::ldexp(1.0, exponent - kBits);
  };
  const double label_unit = unit(largest[0]), weight_unit = unit(largest[1]);
  Tensor sums = torch::zeros({2}, kInt64);
  auto* sum = sums.data_ptr<int64_t>();
  for (size_t i = 0; i < size; ++i) {
    sum[0] += std::llround(weight(i) * rows.labels[i] / label_unit);
    sum[1] += std::llround(weight(i) / weight_unit);
  }
  sums = exchange_.reduce(distribute::ReduceOp::kSum, sums);
  sum = sums.data_ptr<int64_t>();
  const double mean =
      static_cast<double>(sum[0]) * label_unit / (static_cast<double>(sum[1]) * weight_unit);
  if (options_.loss == Loss::kSquared) {
    ensemble_.bias[0] = mean;
  } else {
    constexpr double kSure = 1e-6;  // where all labels are the same
    const double probability = std::clamp(mean, kSure, 1 - kSure);
    ensemble_.bias[0] = std::log(probability / (1 - probability));
  }
}

int64_t Boosting::round(Requests* requests) {
  const std::vector<Derivatives> derivatives = derivatives_of(options_.loss, rows_, scores_);
  std::vector<double> mine{requests->stop ? 1.0 : 0.0, requests->save ? 1.0 : 0.0};
  for (const Derivatives& of : derivatives) {
    mine.push_back(largest_size(of.gradients));
    mine.push_back(largest_size(of.hessians));
  }
  const std::vector<double> all = largest_of_all(mine);
  *requests = {.stop = all[0] > 0, .save = all[1] > 0};
  for (size_t i = 2; i < all.size(); ++i) {
    if (std::isfinite(all[i])) continue;
    throw Error(ErrorKind::kNonFinite,
                fmt::format("after {} trees a derivative of the loss is not a number, or too large",
                            ensemble_.rounds()),
                "take a smaller learning_rate, and look at the size of labels and weights");
  }
  int64_t layers = 0;
  for (size_t k = 0; k < derivatives.size(); ++k) {
    const Scale scale = scale_for(all[2 + 2 * k], all[3 + 2 * k]);
    Grower::Grown grown = grower_->grow(quantize(derivatives[k], scale), scale);
    grower_->add_leaves(&scores_[k]);
    ensemble_.trees.push_back(std::move(grown.tree));
    layers = std::max(layers, grown.layers);
  }
  return layers;
}

double Boosting::loss() {
  double weight = static_cast<double>(rows_.size());
  if (!rows_.weights.empty()) {
    weight = 0;
    for (const float of : rows_.weights) weight += of;
  }
  const Tensor sums = exchange_.reduce(distribute::ReduceOp::kSum,
                                       doubles({loss_sum(options_.loss, rows_, scores_), weight}));
  return sums[0][0].item<double>() / sums[0][1].item<double>();
}

}  // namespace muster::inline v0_1::trees
