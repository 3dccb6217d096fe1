#include "muster/data/example.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/internal/feature_values.h"
#include "muster/data/internal/padding_limit.h"
#include "muster/formats/example_parser.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using formats::ExamplePlan;
using formats::FeatureColumn;
using formats::FeatureForm;
using formats::FeatureKind;
using formats::FeaturePlan;
using internal::kind_of;
using internal::values_of;
using internal::zero_of;

// The reader of a feature, and the padding of shorter rows.
struct Column {
  FeaturePlan plan;
  formats::Feature padding;
};

Column column_of(const std::string& key, const FixedLenFeature& feature) {
  const FeatureKind kind = kind_of(feature.dtype, key);
  Column column{.plan = {.key = key, .kind = kind, .shape = feature.shape}, .padding = {}};
  if (feature.default_value) {
    column.plan.default_value = values_of(*feature.default_value, feature.shape, kind, key);
  }
  return column;
}

Column column_of(const std::string& key, const VarLenFeature& feature) {
  const FeatureKind kind = kind_of(feature.dtype, key);
  return {.plan = {.key = key, .kind = kind, .form = FeatureForm::kVariable},
          .padding = zero_of(kind)};
}

Column column_of(const std::string& key, const FixedLenSequenceFeature& feature) {
  const FeatureKind kind = kind_of(feature.dtype, key);
  return {.plan = {.key = key,
                   .kind = kind,
                   .form = FeatureForm::kSequence,
                   .shape = feature.shape,
                   .allow_missing = feature.allow_missing},
          .padding = feature.padding_value ? values_of(*feature.padding_value, {}, kind, key)
                                           : zero_of(kind)};
}

// Rows of unequal lengths as [n, longest, ...], filled up with `padding`.
template <typename Number>
Tensor padded(const std::vector<Number>& values, const std::vector<int64_t>& lengths,
              const Shape& shape, int64_t width, DType dtype, Number padding) {
  Tensor out = torch::empty(shape, dtype);
  Number* to = out.data_ptr<Number>();
  const Number* from = values.data();
  for (const int64_t length : lengths) {
    to = std::copy_n(from, length, to);
    to = std::fill_n(to, width - length, padding);
    from += length;
  }
  return out;
}

Strings padded(const FeatureColumn& column, const Shape& shape, int64_t width,
               const std::string& padding) {
  std::string bytes;
  bytes.reserve(column.bytes.size());
  std::vector<int64_t> offsets{0};
  size_t at = 0;
  for (const int64_t length : column.row_lengths) {
    for (int64_t i = 0; i < width; ++i) {
      if (i < length) {
        const auto begin = static_cast<size_t>(column.ends[at]);
        bytes.append(column.bytes, begin, static_cast<size_t>(column.ends[at + 1]) - begin);
        ++at;
      } else {
        bytes += padding;
      }
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  return Strings(shape, std::move(offsets), std::move(bytes));
}

}  // namespace

struct ExampleParser::Compiled {
  ExamplePlan plan;
  std::vector<formats::Feature> paddings{};      // one per feature of the plan
  std::shared_ptr<const Structure> structure{};  // of a call's results
  std::vector<std::pair<size_t, bool>> leaves;   // feature, and whether it is its row_lengths

  // The feature's values for all rows; uses up the parser's output. Throws InvalidArgument if
  // padding rows of unequal lengths takes too much memory for the bytes that were read.
  Value values(size_t i, int64_t rows, FeatureColumn& column, Tensor&& fixed,
               uint64_t read_bytes) const;
};

ExampleParser::ExampleParser(const FeatureSpec& spec) {
  std::vector<FeaturePlan> plans;
  std::vector<formats::Feature> paddings;
  std::map<std::string, std::pair<size_t, bool>> keys;  // in the order of a dict
  for (const auto& [key, feature] : spec) {
    Column column =
        std::visit([&key = key](const auto& each) { return column_of(key, each); }, feature);
    const size_t place = plans.size();
    bool free = keys.emplace(key, std::pair(place, false)).second;
    if (column.plan.form == FeatureForm::kVariable) {
      free &= keys.emplace(key + kRowLengths, std::pair(place, true)).second;
    }
    if (!free) {
      throw invalid_argument(
          fmt::format("the feature \"{}\" would be there twice: once for the lengths of another",
                      key),
          "leave one of them out");
    }
    plans.push_back(std::move(column.plan));
    paddings.push_back(std::move(column.padding));
  }
  Structure structure{.kind = Structure::Kind::kDict};
  std::vector<std::pair<size_t, bool>> leaves;
  for (const auto& [key, leaf] : keys) {
    structure.keys.push_back(key);
    structure.children.emplace_back();
    leaves.push_back(leaf);
  }
  compiled_ = std::make_shared<const Compiled>(
      Compiled{.plan = ExamplePlan::compile(std::move(plans)).value(),
               .paddings = std::move(paddings),
               .structure = std::make_shared<const Structure>(std::move(structure)),
               .leaves = std::move(leaves)});
}

Value ExampleParser::Compiled::values(size_t i, int64_t rows, FeatureColumn& column, Tensor&& fixed,
                                      uint64_t read_bytes) const {
  const FeaturePlan& feature = plan.features()[i];
  Shape shape = feature.shape;
  if (feature.form == FeatureForm::kFixed) {
    if (feature.kind != FeatureKind::kBytes) return std::move(fixed);
    shape.insert(shape.begin(), rows);
    return Strings(std::move(shape), std::move(column.ends), std::move(column.bytes));
  }
  const std::vector<int64_t>& lengths = column.row_lengths;
  const int64_t width = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  shape.insert(shape.begin(), {rows, width / plan.width(i)});
  const formats::Feature& padding = paddings[i];
  internal::check_padding(fmt::format("ExampleParser: \"{}\" of {} examples, of up to {} values",
                                      feature.key, rows, width),
                          static_cast<double>(rows) * static_cast<double>(width) *
                              internal::padded_value_bytes(padding),
                          read_bytes);
  switch (feature.kind) {
    case FeatureKind::kFloat:
      return padded(column.float_values, lengths, shape, width, kFloat32,
                    std::get<std::vector<float>>(padding).front());
    case FeatureKind::kInt64:
      return padded(column.integer_values, lengths, shape, width, kInt64,
                    std::get<std::vector<int64_t>>(padding).front());
    default:
      return padded(column, shape, width, std::get<std::vector<std::string>>(padding).front());
  }
}

Element ExampleParser::operator()(const Element& serialized) const {
  if (!serialized.is_leaf() || !serialized.value().is_strings() ||
      serialized.value().strings().shape().size() > 1) {
    throw invalid_argument(
        "tf.Examples are parsed from strings, one for each; this is " + serialized.describe(),
        "give the records of a TFRecord file, of which map() sees one or a batch");
  }
  const Strings& records = serialized.value().strings();
  const int64_t rows = records.size();
  const ExamplePlan& plan = compiled_->plan;
  std::vector<FeatureColumn> columns(plan.features().size());
  std::vector<Tensor> fixed(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const FeaturePlan& feature = plan.features()[i];
    if (feature.form != FeatureForm::kFixed || feature.kind == FeatureKind::kBytes) continue;
    Shape shape = feature.shape;
    shape.insert(shape.begin(), rows);
    if (feature.kind == FeatureKind::kFloat) {
      fixed[i] = torch::empty(shape, kFloat32);
      columns[i].floats = fixed[i].data_ptr<float>();
    } else {
      fixed[i] = torch::empty(shape, kInt64);
      columns[i].integers = fixed[i].data_ptr<int64_t>();
    }
  }
  formats::ExampleBatch batch(plan, columns);
  uint64_t read_bytes = 0;
  for (int64_t row = 0; row < rows; ++row) {
    read_bytes += records[row].size();
    const Status added = batch.add(bytes_of(records[row]));
    if (added.ok()) continue;
    const Error& error = added.error();
    throw Error(
        error.kind(),
        rows == 1 ? error.message() : fmt::format("row {} of {}: {}", row, rows, error.message()),
        error.hint());
  }
  std::vector<Value> values;
  for (const auto& [i, is_lengths] : compiled_->leaves) {
    if (is_lengths) {
      Tensor lengths = torch::empty({rows}, kInt64);
      std::copy(columns[i].row_lengths.begin(), columns[i].row_lengths.end(),
                lengths.data_ptr<int64_t>());
      values.emplace_back(std::move(lengths));
    } else {
      values.push_back(compiled_->values(i, rows, columns[i], std::move(fixed[i]), read_bytes));
    }
    if (serialized.value().strings().shape().empty()) values.back() = values.back().row(0);
  }
  return Element::make(compiled_->structure, std::move(values));
}

}  // namespace muster::inline v0_1::data
