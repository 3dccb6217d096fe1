#include "muster/features/internal/numeric_column.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/exact_numbers.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

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

}  // namespace

namespace internal {

NumericColumn::NumericColumn(const std::string& key, NumericColumnOptions options)
    : Source(key), options_(std::move(options)) {}

std::string NumericColumn::definition() const {
  // Functions cannot be compared, so only the column itself has the same.
  return fmt::format("numbers {}{}", describe(options_.shape),
                     options_.normalizer_fn
                         ? fmt::format(", normalized ({})", static_cast<const void*>(this))
                         : std::string());
}

nlohmann::json NumericColumn::recipe() const {
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

void NumericColumn::add_features(data::FeatureSpec& spec) const {
  data::FixedLenFeature feature{.shape = options_.shape, .dtype = options_.dtype};
  if (!options_.default_value.empty()) {
    const Tensor numbers = torch::tensor(options_.default_value, kFloat64).to(options_.dtype);
    feature.default_value = numbers.numel() == 1 ? numbers.expand(options_.shape).contiguous()
                                                 : numbers.reshape(options_.shape);
  }
  add_feature(spec, fmt::format("the column '{}'", name()), name(), std::move(feature));
}

std::vector<Entry> NumericColumn::entries() const {
  return {{name() + "/values", &ColumnValues::values}};
}

ColumnValues NumericColumn::resolve(const FeatureReader& features) const {
  const Tensor numbers = read(features);
  return {.values = options_.normalizer_fn ? numbers.to(kFloat32) : as_floats(numbers, name())};
}

Tensor NumericColumn::read(const FeatureReader& features) const {
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
  Tensor numbers = with_rows(exact_numbers(given), options_.shape);
  if (!options_.normalizer_fn) return numbers;
  check_dtype_of_requests(numbers, options_.dtype, name());
  return normalized(numbers);
}

Tensor NumericColumn::numbers(const ColumnValues& given, const TableRows&) const {
  return given.values.flatten(1);
}

Tensor NumericColumn::normalized(const Tensor& numbers) const {
  const Tensor result = options_.normalizer_fn(numbers);
  if (result.defined() && result.sizes() == numbers.sizes()) return result;
  throw invalid_argument(
      fmt::format("the column '{}': normalizer_fn was given {}, and gave {}", name(),
                  describe(numbers), result.defined() ? describe(result) : "nothing"),
      "it gives a number for each");
}

}  // namespace internal

FeatureColumn numeric_column(const std::string& key, NumericColumnOptions options) {
  internal::check_key("numeric_column", key);
  check_numeric("numeric_column", key, options);
  return FeatureColumn(std::make_shared<const internal::NumericColumn>(key, std::move(options)));
}

}  // namespace muster::inline v0_1::feature_column
