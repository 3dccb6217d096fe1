#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/features/dense_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/embedding_lookup.h"
#include "muster/features/internal/exact_numbers.h"
#include "muster/features/internal/numeric_column.h"
#include "muster/tensor/bucketize.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::Cells;
using internal::ColumnValues;
using internal::FeatureReader;
using internal::NumericColumn;
using internal::TableRows;

class BucketizedColumn final : public CategoricalColumn {
 public:
  BucketizedColumn(std::shared_ptr<const NumericColumn> source, std::vector<double> boundaries)
      : CategoricalColumn(source->name() + "_bucketized"),
        source_(std::move(source)),
        buckets_(static_cast<int64_t>(boundaries.size()) + 1),
        boundaries_(std::move(boundaries)) {}

  bool is_dense() const override { return true; }
  Shape variable_shape() const override { return {source_->variable_shape()[0], buckets_}; }
  int64_t num_buckets() const override { return source_->variable_shape()[0] * buckets_; }
  std::string definition() const override {
    return fmt::format("{} cut at {}", source_->definition(), fmt::join(boundaries_, " "));
  }
  nlohmann::json recipe() const override {
    return {{"kind", "buckets"}, {"numbers", source_->recipe()}, {"boundaries", boundaries_}};
  }
  void add_features(data::FeatureSpec& spec) const override { source_->add_features(spec); }

  // Uses only tensor operations, so that a model can be traced with it.
  ColumnValues resolve(const FeatureReader& features) const override {
    const Tensor numbers = source_->read(features);
    internal::check_dtype_of_requests(numbers, source_->dtype(), source_->name());
    const Tensor buckets = bucketize(numbers, boundaries_);
    if (buckets.size(1) == 1) return {.values = buckets};
    const Tensor first = at::arange(buckets.size(1), buckets.options()) * buckets_;
    return {.values = buckets + first};
  }

  std::string value_name(int64_t place) const override {
    const auto bucket = static_cast<size_t>(place % buckets_);
    std::string range;
    if (bucket == 0) {
      range = fmt::format("below {}", boundaries_.front());
    } else if (bucket == boundaries_.size()) {
      range = fmt::format("{} or more", boundaries_.back());
    } else {
      range = fmt::format("{} to {}", boundaries_[bucket - 1], boundaries_[bucket]);
    }
    return num_buckets() == buckets_ ? range : fmt::format("[{}] {}", place / buckets_, range);
  }

  Cells ids(const FeatureReader& features) const override {
    const Tensor ids = resolve(features).values.cpu().contiguous();
    Cells cells(ids.size(0), ids.size(1));
    for (int64_t i = 0; i < ids.numel(); ++i) cells.set(i, ids.data_ptr<int64_t>()[i]);
    return cells;
  }

  Tensor numbers(const ColumnValues& given, const TableRows&) const override {
    return internal::counted_ids(given, num_buckets());
  }

 private:
  const std::shared_ptr<const NumericColumn> source_;
  const int64_t buckets_;  // of one number
  const std::vector<double> boundaries_;
};

void check_boundaries(const char* function, const std::string& key,
                      const std::vector<double>& boundaries) {
  const auto refuse = [&](const std::string& what) {
    throw invalid_argument(fmt::format("{} of '{}': boundaries {}", function, key, what),
                           "boundaries must ascend strictly");
  };
  if (boundaries.empty()) refuse("is empty");
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (std::isnan(boundaries[i])) refuse("has a NaN");
    if (i > 0 && boundaries[i] <= boundaries[i - 1]) {
      refuse(fmt::format("has {} after {}", boundaries[i], boundaries[i - 1]));
    }
  }
}

}  // namespace

FeatureColumn bucketized_column(const FeatureColumn& source,
                                const std::vector<double>& boundaries) {
  constexpr const char* kFunction = "bucketized_column";
  auto numeric = std::dynamic_pointer_cast<const NumericColumn>(source.shared_impl());
  if (numeric == nullptr) {
    throw invalid_argument(
        fmt::format("{}: the column '{}' is not a numeric_column", kFunction, source.name()),
        "give it a numeric_column()");
  }
  if (numeric->variable_shape().size() != 1) {
    throw invalid_argument(fmt::format("{}: the column '{}' has the shape {}", kFunction,
                                       source.name(), describe(numeric->variable_shape())),
                           "give it a numeric_column() with a shape of one axis");
  }
  check_boundaries(kFunction, source.name(), boundaries);
  return FeatureColumn(std::make_shared<const BucketizedColumn>(std::move(numeric), boundaries));
}

}  // namespace muster::inline v0_1::feature_column
