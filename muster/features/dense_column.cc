#include "muster/features/dense_column.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/embedding_lookup.h"
#include "muster/features/internal/exact_numbers.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/tensor/bucketize.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::Cells;
using internal::Column;
using internal::ColumnValues;
using internal::FeatureReader;
using internal::Source;
using internal::TableRows;

int64_t product(const Shape& shape) {
  int64_t all = 1;
  for (const int64_t size : shape) all *= size;
  return all;
}

// [batch, shape...], also in a trace.
Tensor with_rows(const Tensor& numbers, const Shape& shape) {
  Shape sizes = shape;
  sizes.insert(sizes.begin(), -1);
  return numbers.reshape(sizes);
}

class NumericColumn final : public Source {
 public:
  NumericColumn(const std::string& key, NumericColumnOptions options)
      : Source(key), options_(std::move(options)) {}

  bool is_dense() const override { return true; }
  Shape variable_shape() const override { return options_.shape; }
  std::string definition() const override {
    // Functions cannot be compared, so only the column itself has the same.
    return fmt::format("numbers {}{}", describe(options_.shape),
                       options_.normalizer_fn
                           ? fmt::format(", normalized ({})", static_cast<const void*>(this))
                           : std::string());
  }

  nlohmann::json recipe() const override {
    if (options_.normalizer_fn) {
      throw invalid_argument(
          fmt::format("not supported: exporting how the column '{}' reads its numbers, for they "
                      "have a normalizer_fn, which is code",
                      name()),
          "cut numbers that are as they are: give the boundaries in their units");
    }
    return {{"kind", "numbers"},
            {"key", name()},
            {"shape", options_.shape},
            {"default", options_.default_value},
            {"dtype", muster::dtype_name(options_.dtype)}};
  }

  void add_features(data::FeatureSpec& spec) const override {
    data::FixedLenFeature feature{.shape = options_.shape, .dtype = options_.dtype};
    if (!options_.default_value.empty()) {
      const Tensor numbers = torch::tensor(options_.default_value, kFloat64).to(options_.dtype);
      feature.default_value = numbers.numel() == 1 ? numbers.expand(options_.shape).contiguous()
                                                   : numbers.reshape(options_.shape);
    }
    internal::add_feature(spec, fmt::format("the column '{}'", name()), name(), std::move(feature));
  }

  std::vector<internal::Entry> entries() const override {
    return {{name() + "/values", &ColumnValues::values}};
  }

  ColumnValues resolve(const FeatureReader& features) const override {
    const Tensor numbers = read(features);
    return {.values = options_.normalizer_fn ? numbers.to(kFloat32)
                                             : internal::as_floats(numbers, name())};
  }

  // float32 or float64 [batch, shape...]: as exact as the feature, and what the normalizer_fn makes
  // of that.
  Tensor read(const FeatureReader& features) const {
    const Value& value = features.feature(name(), name());
    if (features.find(name() + data::kRowLengths) != nullptr) {
      throw invalid_argument(
          fmt::format("the column '{}': a numeric_column takes as many numbers of each example, "
                      "and its feature has lengths, '{}{}'",
                      name(), name(), data::kRowLengths),
          "parse it with a FixedLenFeature, as make_parse_example_spec() has it");
    }
    if (!value.is_tensor() || value.tensor().is_complex()) {
      throw invalid_argument(
          fmt::format("the column '{}': its feature is {}", name(), value.describe()),
          "a numeric_column takes numbers; texts are for categorical columns");
    }
    const Tensor& given = value.tensor();
    if (product(given.sizes().slice(1).vec()) != product(options_.shape)) {
      throw invalid_argument(fmt::format("the column '{}': its feature is {}, and its shape {}",
                                         name(), value.describe(), describe(options_.shape)),
                             "give numeric_column() the shape of one example");
    }
    Tensor numbers = with_rows(internal::exact_numbers(given), options_.shape);
    if (!options_.normalizer_fn) return numbers;
    internal::check_dtype_of_requests(numbers, options_.dtype, name());
    return normalized(numbers);
  }
  DType dtype() const { return options_.dtype; }

  Tensor numbers(const ColumnValues& given, const TableRows&) const override {
    return given.values.flatten(1);
  }

 private:
  Tensor normalized(const Tensor& numbers) const {
    const Tensor result = options_.normalizer_fn(numbers);
    if (result.defined() && result.sizes() == numbers.sizes()) return result;
    throw invalid_argument(
        fmt::format("the column '{}': normalizer_fn was given {}, and gave {}", name(),
                    describe(numbers), result.defined() ? describe(result) : "nothing"),
        "it gives a number for each");
  }

  const NumericColumnOptions options_;
};

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

  // Of tensor operations alone, so that a model can be traced with it.
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

class IndicatorColumn final : public Column {
 public:
  explicit IndicatorColumn(std::shared_ptr<const CategoricalColumn> categorical)
      : Column(categorical->name() + "_indicator"), categorical_(std::move(categorical)) {}

  bool is_dense() const override { return true; }
  const Source& source() const override { return *categorical_; }
  Shape variable_shape() const override { return {1, categorical_->num_buckets()}; }
  std::string value_name(int64_t place) const override { return categorical_->value_name(place); }
  Tensor numbers(const ColumnValues& given, const TableRows&) const override {
    return internal::counted_ids(given, categorical_->num_buckets());
  }

 private:
  const std::shared_ptr<const CategoricalColumn> categorical_;
};

void check_numeric(const char* function, const std::string& key,
                   const NumericColumnOptions& options) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw invalid_argument(fmt::format("{} of '{}': {}", function, key, what), hint);
  };
  internal::check_shape(function, key, options.shape);
  internal::check_number_dtype(function, key, options.dtype);
  const std::vector<double>& given = options.default_value;
  if (given.size() > 1 && static_cast<int64_t>(given.size()) != product(options.shape)) {
    refuse(fmt::format("default_value has {} numbers, and shape is {}", given.size(),
                       describe(options.shape)),
           "give one number, or as many as the shape has");
  }
  if (at::isFloatingType(options.dtype)) return;
  for (const double number : given) {
    if (number == std::trunc(number)) continue;
    refuse(fmt::format("default_value is {}, and dtype is {}", number, dtype_name(options.dtype)),
           "give a whole number, or take dtype = kFloat32");
  }
}

void check_boundaries(const char* function, const std::string& key,
                      const std::vector<double>& boundaries) {
  const auto refuse = [&](const std::string& what) {
    throw invalid_argument(fmt::format("{} of '{}': boundaries {}", function, key, what),
                           "boundaries ascend, and each is there once");
  };
  if (boundaries.empty()) refuse("is empty");
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (std::isnan(boundaries[i])) refuse("has a NaN");
    if (i > 0 && boundaries[i] <= boundaries[i - 1]) {
      refuse(fmt::format("has {} behind {}", boundaries[i], boundaries[i - 1]));
    }
  }
}

}  // namespace

FeatureColumn numeric_column(const std::string& key, NumericColumnOptions options) {
  internal::check_key("numeric_column", key);
  check_numeric("numeric_column", key, options);
  return FeatureColumn(std::make_shared<const NumericColumn>(key, std::move(options)));
}

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

FeatureColumn indicator_column(const FeatureColumn& categorical) {
  return FeatureColumn(std::make_shared<const IndicatorColumn>(
      internal::as_categorical("indicator_column", categorical.shared_impl())));
}

}  // namespace muster::inline v0_1::feature_column
