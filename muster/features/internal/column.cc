#include "muster/features/internal/column.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1::feature_column::internal {

Shape Column::variable_shape() const {
  throw invalid_argument(fmt::format("the column '{}' is not dense, and has no shape", name()),
                         "wrap it in an indicator_column() or an embedding_column()");
}

Tensor Column::numbers(const ColumnValues&, const TableRows&) const {
  throw internal_error("numbers were asked of the column " + name());
}

std::string Column::value_name(int64_t place) const {
  return c10::multiply_integers(variable_shape()) == 1 ? std::string() : fmt::format("[{}]", place);
}

void CategoricalColumn::seen(const FeatureReader&, const TellSeen&) const {}

bool Column::is_sequence() const { return source().gives_sequences(); }

std::vector<Entry> CategoricalColumn::entries() const {
  std::vector<Entry> all{{name() + "/ids", &ColumnValues::values}};
  if (is_weighted()) all.push_back({name() + "/weights", &ColumnValues::weights});
  return all;
}

ColumnValues CategoricalColumn::resolve(const FeatureReader& features) const {
  refuse_tracing(fmt::format("the column '{}'", name()), "it looks up ids itself");
  const Cells cells = ids(features);
  Tensor resolved = torch::empty({cells.rows, cells.width}, at::TensorOptions(kInt64));
  int64_t* id = resolved.data_ptr<int64_t>();
  for (size_t i = 0; i < cells.values.size(); ++i) {
    const bool there = (cells.present[i] != 0) & (cells.values[i] >= 0);
    id[i] = there ? cells.values[i] : -1;
  }
  return {.values = std::move(resolved)};
}

std::shared_ptr<const CategoricalColumn> as_categorical(
    const std::string& function, const std::shared_ptr<const Column>& column) {
  auto categorical = std::dynamic_pointer_cast<const CategoricalColumn>(column);
  if (categorical == nullptr) {
    throw invalid_argument(
        fmt::format("{}: the column '{}' is not categorical", function, column->name()),
        "give it a categorical_column_with_...(), a crossed_column() or a bucketized_column()");
  }
  return categorical;
}

void check_key(const std::string& function, const std::string& key) {
  if (!key.empty()) return;
  throw invalid_argument(function + ": the key is empty", "give the name of a feature");
}

void check_at_least(const std::string& function, const std::string& name, const char* argument,
                    int64_t value, int64_t least) {
  if (value >= least) return;
  throw invalid_argument(fmt::format("{} of '{}': {} is {}", function, name, argument, value),
                         fmt::format("{} must be at least {}", argument, least));
}

void check_shape(const std::string& function, const std::string& name, const Shape& shape) {
  const bool positive =
      std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 1; });
  if (positive && !shape.empty()) return;
  throw invalid_argument(fmt::format("{} of '{}': shape is {}", function, name, describe(shape)),
                         "shape has at least one axis, and sizes of at least 1");
}

}  // namespace muster::inline v0_1::feature_column::internal
