#include "muster/estimator/permutation_importance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/better.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/unknown_name.h"
#include "muster/data/example.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr std::string_view kIds = "/ids";

// The feature that an entry belongs to.
std::string feature_of(const std::string& key) {
  for (const std::string_view end :
       {kIds, std::string_view("/values"), std::string_view("/weights"),
        std::string_view("/lengths"), std::string_view(data::kRowLengths)}) {
    if (key.size() > end.size() && key.ends_with(end))
      return key.substr(0, key.size() - end.size());
  }
  return key;
}

bool larger_is_better(const PermutationImportanceOptions& options) {
  if (options.larger_is_better) return *options.larger_is_better;
  const Better better = better_by_name(options.metric);
  if (better != Better::kUnknown) return better == Better::kHigher;
  throw invalid_argument(
      fmt::format("permutation_importance does not know whether a larger '{}' is better",
                  options.metric),
      "set .larger_is_better = true or false; names such as \"loss\" and \"accuracy\" are known");
}

// Rows of axis 1 padded to `width`, with the value that means nothing.
Value padded(const Value& value, int64_t width, bool is_ids) {
  if (value.is_tensor()) {
    const Tensor& rows = value.tensor();
    if (rows.size(1) == width) return value;
    Shape shape = rows.sizes().vec();
    shape[1] = width - shape[1];
    return at::cat({rows, at::full(shape, is_ids ? -1 : 0, rows.options())}, 1);
  }
  const Strings& texts = value.strings();
  const int64_t own = texts.shape()[1];
  if (own == width) return value;
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (int64_t row = 0; row < texts.shape()[0]; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      if (i < own) bytes += texts[row * own + i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  return Strings({texts.shape()[0], width}, std::move(offsets), std::move(bytes));
}

const Shape& shape_of(const Value& value, Shape& of_tensor) {
  if (value.is_strings()) return value.strings().shape();
  of_tensor = value.tensor().sizes().vec();
  return of_tensor;
}

// Joins one value of all batches.
Value joined(std::vector<Value> parts, const std::string& key) {
  int64_t width = 0;
  bool uneven = false;
  for (const Value& part : parts) {
    Shape own;
    const Shape& shape = shape_of(part, own);
    if (shape.size() < 2 || (part.is_strings() && shape.size() > 2)) continue;
    uneven = uneven || (&part != &parts.front() && shape[1] != width);
    width = std::max(width, shape[1]);
  }
  if (uneven) {
    const bool is_ids = key.ends_with(kIds);
    for (Value& part : parts) part = padded(part, width, is_ids);
  }
  return Value::concatenate(parts);
}

// The whole input, joined, with the places of each feature's values in it.
struct Rows {
  Element element{};  // features, or (features, labels, ...)
  int64_t count = 0;
  int64_t batch = 0;
  std::map<std::string, std::vector<size_t>> features{};

  Dataset dataset(const Element& rows, const Dataset::MapFunction& transform) const {
    const Dataset batches = Dataset::from_tensor_slices(rows).batch(batch);
    return transform ? batches.map(transform) : batches;
  }
  // With the values of one feature in another order.
  Element shuffled(const std::string& feature, RandomKey key) const {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    Random random(key);
    for (size_t left = order.size(); left > 1; --left)
      std::swap(order[left - 1], order[random.uniform_below(left)]);
    std::vector<Value> values = element.values();
    for (const size_t place : features.at(feature)) values[place] = values[place].gather(order);
    return Element::make(element.shared_structure(), std::move(values));
  }
};

Rows read(const InputFn& input_fn) {
  const Dataset dataset = input_fn({});
  if (dataset.cardinality() == kInfinite) {
    throw invalid_argument("permutation_importance got data without end: " + dataset.describe(),
                           "leave repeat() out, or take() a part");
  }
  Rows rows;
  std::vector<std::vector<Value>> values;  // of each leaf, by batch
  std::shared_ptr<const Structure> structure;
  const auto iterator = dataset.iterator();
  while (const auto batch = iterator->next()) {
    if (batch->values().empty() || batch->rows() == 0) continue;
    if (structure == nullptr) {
      structure = batch->shared_structure();
      values.resize(batch->values().size());
    }
    if (!(batch->structure() == *structure)) {
      throw invalid_argument("the batches of the input differ: " + structure->describe() + " and " +
                                 batch->structure().describe(),
                             "give all of them the same features");
    }
    for (size_t i = 0; i < values.size(); ++i) values[i].push_back(batch->values()[i]);
    rows.batch = std::max(rows.batch, batch->rows());
    rows.count += batch->rows();
  }
  if (rows.count == 0)
    throw invalid_argument("the input function gave no data: " + dataset.describe(),
                           "check the data directory and the transformations");
  const bool tuple = structure->kind == Structure::Kind::kTuple && !structure->children.empty();
  const Structure& features = tuple ? structure->children.front() : *structure;
  if (features.kind != Structure::Kind::kDict ||
      features.leaves() != static_cast<int64_t>(features.keys.size())) {
    throw invalid_argument(
        "permutation_importance needs features by name, and got " + structure->describe(),
        "give a dict: Element::dict({{\"age\", ages}, ...})");
  }
  std::vector<Value> all;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_feature = i < features.keys.size();
    if (is_feature) rows.features[feature_of(features.keys[i])].push_back(i);
    all.push_back(joined(std::move(values[i]), is_feature ? features.keys[i] : std::string()));
  }
  rows.element = Element::make(structure, std::move(all));
  return rows;
}

double measured_metric(const EvalResult& result, const std::string& metric) {
  const auto found = result.find(metric);
  if (found == result.end()) {
    std::vector<std::string> known;
    for (const auto& [name, value] : result) known.push_back(name);
    throw unknown_name("the evaluation", "metric", metric, known);
  }
  if (!std::isfinite(found->second))
    throw invalid_argument(fmt::format("the metric '{}' is {}", metric, found->second),
                           "choose one that is a number on these rows");
  return found->second;
}

}  // namespace

Explanation permutation_importance(const EvaluateFn& evaluate, const InputFn& input_fn,
                                   const PermutationImportanceOptions& options) {
  if (!evaluate || !input_fn)
    throw invalid_argument("permutation_importance needs a function that evaluates, and an input");
  if (options.repeats < 1) {
    throw invalid_argument(fmt::format(
        "permutation_importance got repeats = {}; it must be at least 1", options.repeats));
  }
  const double sign = larger_is_better(options) ? -1 : 1;
  const Rows rows = read(input_fn);
  std::vector<std::string> columns;
  for (const auto& [name, places] : rows.features) columns.push_back(name);
  if (!options.columns.empty()) {
    for (const std::string& name : options.columns) {
      if (!rows.features.contains(name)) throw unknown_name("the input", "feature", name, columns);
    }
    columns = options.columns;
  }
  const auto measured = [&](const Element& element) {
    const Dataset dataset = rows.dataset(element, options.transform);
    return measured_metric(evaluate([&dataset] { return dataset; }), options.metric);
  };
  const double before = measured(rows.element);
  Explanation result{.measures = {"importance", "deviation"},
                     .note = fmt::format("{} is {:.4g}; how much worse it is when a column is "
                                         "shuffled",
                                         options.metric, before)};
  for (const std::string& column : columns) {
    std::vector<double> worse;
    for (int64_t repeat = 0; repeat < options.repeats; ++repeat) {
      const RandomKey key = derive_key(
          options.seed,
          {id_of("permutation_importance"), id_of(column), static_cast<uint64_t>(repeat)});
      worse.push_back(sign * (measured(rows.shuffled(column, key)) - before));
    }
    const auto count = static_cast<double>(worse.size());
    const double mean = std::accumulate(worse.begin(), worse.end(), 0.0) / count;
    double squares = 0;
    for (const double each : worse) squares += (each - mean) * (each - mean);
    // -0 of a metric that did not change is 0.
    result.rows.push_back(
        {.column = column,
         .value = {},
         .output = {},
         .numbers = {mean + 0.0, count > 1 ? std::sqrt(squares / (count - 1)) : 0.0}});
  }
  std::ranges::stable_sort(result.rows, std::ranges::greater(),
                           [](const Explanation::Row& row) { return row.numbers[0]; });
  return result;
}

}  // namespace muster::inline v0_1
