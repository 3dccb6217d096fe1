#include "muster/features/sequence_column.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/exact_numbers.h"
#include "muster/features/internal/feature_specs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::Cells;
using internal::ColumnValues;
using internal::Entry;
using internal::FeatureReader;
using internal::Source;
using internal::TableRows;

// Returns the same texts in another shape.
Strings reshaped(const Strings& texts, const Shape& shape) {
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (int64_t i = 0; i < texts.size(); ++i) {
    bytes += texts[i];
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(shape, std::move(offsets), std::move(bytes));
}

Error no_recipe(const std::string& name) {
  return invalid_argument(
      fmt::format("not supported: exporting how the column '{}', one of sequences, reads its "
                  "features",
                  name),
      "ask the export for ids and lengths, as resolve() gives them");
}

// Reads each step as a row of another column.
class SequenceCategoricalColumn final : public CategoricalColumn {
 public:
  explicit SequenceCategoricalColumn(std::shared_ptr<const CategoricalColumn> of_step)
      : CategoricalColumn(of_step->name()), of_step_(std::move(of_step)) {}

  int64_t num_buckets() const override { return of_step_->num_buckets(); }
  std::string value_name(int64_t place) const override { return of_step_->value_name(place); }
  bool gives_sequences() const override { return true; }
  bool can_be_crossed() const override { return false; }
  std::string definition() const override { return "sequences of " + of_step_->definition(); }
  nlohmann::json recipe() const override { throw no_recipe(name()); }
  void add_features(data::FeatureSpec& spec) const override { of_step_->add_features(spec); }
  std::vector<Entry> entries() const override {
    return {{name() + "/ids", &ColumnValues::values},
            {name() + "/lengths", &ColumnValues::lengths}};
  }

  Cells ids(const FeatureReader&) const override {
    throw internal_error("the ids of a sequence were asked for without its steps: " + name());
  }

  ColumnValues resolve(const FeatureReader& features) const override {
    const Value& value = features.feature(name(), name());
    const Shape shape = value.is_tensor() ? value.tensor().sizes().vec() : value.strings().shape();
    if (shape.size() != 2 && shape.size() != 3) {
      throw invalid_argument(
          fmt::format("the column '{}': its feature is {}", name(), value.describe()),
          "sequences are [batch, steps], or [batch, steps, values]");
    }
    const int64_t rows = shape[0], steps = shape[1], width = shape.size() == 3 ? shape[2] : 1;
    const Tensor given = features.row_lengths(name(), name(), rows, steps);
    if (given.defined() && shape.size() == 3) {
      throw invalid_argument(fmt::format("the column '{}': its feature is {}, and has lengths",
                                         name(), value.describe()),
                             "lengths are for features of one value in each step");
    }
    const Cells cells = of_step_->ids(FeatureReader(steps_of(value, rows * steps, width, given)));
    ColumnValues resolved{.values =
                              torch::full({rows, steps, width}, -1, at::TensorOptions(kInt64))};
    int64_t* id = resolved.values.data_ptr<int64_t>();
    std::vector<int64_t> lengths(static_cast<size_t>(rows), 0);
    for (size_t i = 0; i < cells.values.size(); ++i) {
      if (cells.present[i] == 0) continue;
      id[i] = std::max<int64_t>(cells.values[i], -1);
      const auto step = static_cast<int64_t>(i) / width;
      lengths[static_cast<size_t>(step / steps)] = step % steps + 1;
    }
    resolved.lengths = torch::tensor(lengths, kInt64);
    return resolved;
  }

 private:
  // The feature with a row for each step, and 1 value in those up to the length of their sequence.
  Element steps_of(const Value& value, int64_t count, int64_t width, const Tensor& lengths) const {
    std::vector<std::pair<std::string, Element>> entries;
    if (value.is_strings()) {
      entries.emplace_back(name(), reshaped(value.strings(), {count, width}));
    } else {
      entries.emplace_back(name(), value.tensor().reshape({count, width}));
    }
    if (lengths.defined()) {
      const int64_t steps = lengths.size(0) == 0 ? 0 : count / lengths.size(0);
      entries.emplace_back(name() + data::kRowLengths, at::arange(steps, lengths.options())
                                                           .lt(lengths.unsqueeze(1))
                                                           .to(kInt64)
                                                           .reshape({count}));
    }
    return Element::dict(std::move(entries));
  }

  const std::shared_ptr<const CategoricalColumn> of_step_;
};

class SequenceNumericColumn final : public Source {
 public:
  SequenceNumericColumn(const std::string& key, SequenceNumericOptions options)
      : Source(key), options_(std::move(options)), width_(c10::multiply_integers(options_.shape)) {}

  bool is_dense() const override { return true; }
  bool gives_sequences() const override { return true; }
  Shape variable_shape() const override { return options_.shape; }
  std::string definition() const override {
    return fmt::format("sequences of numbers {}, {} behind them ({})", describe(options_.shape),
                       options_.default_value,
                       options_.normalizer_fn ? static_cast<const void*>(this) : nullptr);
  }
  nlohmann::json recipe() const override { throw no_recipe(name()); }
  void add_features(data::FeatureSpec& spec) const override {
    internal::add_feature(spec, fmt::format("the column '{}'", name()), name(),
                          data::VarLenFeature{options_.dtype});
  }
  std::vector<Entry> entries() const override {
    return {{name() + "/values", &ColumnValues::values},
            {name() + "/lengths", &ColumnValues::lengths}};
  }

  ColumnValues resolve(const FeatureReader& features) const override {
    const Value& value = features.feature(name(), name());
    const auto refuse = [&](const char* hint) {
      throw invalid_argument(
          fmt::format("the column '{}': its feature is {}, and the shape of a step {}", name(),
                      value.describe(), describe(options_.shape)),
          hint);
    };
    if (!value.is_tensor() || value.tensor().is_complex()) refuse("it takes numbers");
    Tensor numbers = internal::exact_numbers(value.tensor().detach());
    const int64_t rows = numbers.size(0);
    Tensor given =
        features.row_lengths(name(), name(), rows, numbers.dim() > 1 ? numbers.size(1) : 1);
    numbers = options_.normalizer_fn ? normalized(numbers) : internal::as_floats(numbers, name());
    Shape shape = options_.shape;
    if (given.defined()) {
      // One step lies after another; the last may be cut off.
      if (numbers.dim() != 2) refuse("with lengths it is [batch, values]");
      const int64_t steps = (numbers.size(1) + width_ - 1) / width_;
      numbers = at::constant_pad_nd(numbers, {0, steps * width_ - numbers.size(1)});
      const Tensor there = at::arange(steps * width_, given.options()).lt(given.unsqueeze(1));
      numbers = at::where(there.to(numbers.device()), numbers,
                          at::full_like(numbers, options_.default_value));
      shape.insert(shape.begin(), {rows, steps});
      given = at::floor_divide(given + (width_ - 1), width_);
    } else {
      if (numbers.dim() < 2 || c10::multiply_integers(numbers.sizes().slice(2)) != width_) {
        refuse("it is [batch, steps, shape...]");
      }
      given = at::full({rows}, numbers.size(1), at::TensorOptions(kInt64));
      shape.insert(shape.begin(), {rows, numbers.size(1)});
    }
    numbers = numbers.reshape(shape);
    return {.values = std::move(numbers), .weights = {}, .lengths = std::move(given)};
  }

  Tensor numbers(const ColumnValues& given, const TableRows&) const override {
    return given.values.dim() == 2 ? given.values.unsqueeze(2) : given.values.flatten(2);
  }

 private:
  // Runs before the values after the lengths get the default_value, as there.
  Tensor normalized(const Tensor& numbers) const {
    const Tensor result = options_.normalizer_fn(numbers);
    if (!result.defined() || result.sizes() != numbers.sizes()) {
      throw invalid_argument(
          fmt::format("the column '{}': normalizer_fn was given {}, and gave {}", name(),
                      describe(numbers), result.defined() ? describe(result) : "nothing"),
          "it gives a number for each");
    }
    return result.to(kFloat32);
  }

  const SequenceNumericOptions options_;
  const int64_t width_;
};

FeatureColumn sequence_of(const FeatureColumn& of_step) {
  return FeatureColumn(std::make_shared<const SequenceCategoricalColumn>(
      internal::as_categorical("sequence", of_step.shared_impl())));
}

}  // namespace

FeatureColumn sequence_numeric_column(const std::string& key, SequenceNumericOptions options) {
  constexpr const char* kFunction = "sequence_numeric_column";
  internal::check_key(kFunction, key);
  internal::check_number_dtype(kFunction, key, options.dtype);
  internal::check_shape(kFunction, key, options.shape);
  return FeatureColumn(std::make_shared<const SequenceNumericColumn>(key, std::move(options)));
}

FeatureColumn sequence_categorical_column_with_hash_bucket(const std::string& key,
                                                           int64_t hash_bucket_size,
                                                           const HashBucketOptions& options) {
  return sequence_of(categorical_column_with_hash_bucket(key, hash_bucket_size, options));
}

FeatureColumn sequence_categorical_column_with_vocabulary_list(
    const std::string& key, const Vocabulary& vocabulary_list,
    const VocabularyListOptions& options) {
  return sequence_of(categorical_column_with_vocabulary_list(key, vocabulary_list, options));
}

FeatureColumn sequence_categorical_column_with_vocabulary_file(
    const std::string& key, const std::string& vocabulary_file,
    const VocabularyFileOptions& options) {
  return sequence_of(categorical_column_with_vocabulary_file(key, vocabulary_file, options));
}

FeatureColumn sequence_categorical_column_with_identity(const std::string& key, int64_t num_buckets,
                                                        const IdentityOptions& options) {
  return sequence_of(categorical_column_with_identity(key, num_buckets, options));
}

}  // namespace muster::inline v0_1::feature_column
