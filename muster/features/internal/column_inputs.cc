#include "muster/features/internal/column_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column::internal {

ColumnInputs::ColumnInputs(const char* layer, const std::vector<FeatureColumn>& columns,
                           bool sequences)
    : columns_(columns) {
  if (columns_.empty()) {
    throw invalid_argument(fmt::format("{}: there are no columns", layer),
                           "give it at least one feature column");
  }
  std::sort(columns_.begin(), columns_.end(),
            [](const FeatureColumn& a, const FeatureColumn& b) { return a.name() < b.name(); });
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (i > 0 && columns_[i].name() == columns_[i - 1].name()) {
      throw invalid_argument(
          fmt::format("{}: two columns are named '{}'", layer, columns_[i].name()),
          "names of columns follow from their keys; leave one of them out, or give the feature "
          "another key too");
    }
    if (column(i).is_sequence() != sequences) {
      throw invalid_argument(
          fmt::format("{}: the column '{}' {}", layer, column(i).name(),
                      sequences ? "is not a sequence" : "is one of sequences"),
          sequences ? "give it to DenseFeatures, and join both by concatenate_context_input()"
                    : "give it to SequenceFeatures");
    }
    tensors_ += column(i).source().entries().size();
    const std::string table = column(i).table();
    const size_t first = table.empty() ? i : known.emplace(table, i).first->second;
    tables_.push_back(static_cast<int>(first));
    if (column(first).table_definition() == column(i).table_definition()) continue;
    throw invalid_argument(
        fmt::format("{}: the columns '{}' and '{}' share the table '{}', which is {} for one and "
                    "{} for the other",
                    layer, column(first).name(), column(i).name(), table,
                    column(first).table_definition(), column(i).table_definition()),
        "make them by one call of shared_embeddings(), or name one of the collections otherwise");
  }
}

std::shared_ptr<const ColumnInputs> ColumnInputs::of_dense(
    const char* layer, const std::vector<FeatureColumn>& columns, bool sequences) {
  for (const FeatureColumn& column : columns) {
    if (column.is_dense()) continue;
    throw invalid_argument(fmt::format("{}: the column '{}' is not dense", layer, column.name()),
                           "wrap it in an indicator_column() or an embedding_column()");
  }
  return std::make_shared<const ColumnInputs>(layer, columns, sequences);
}

namespace {

// An entry that is in the batch already, and may have this name by chance.
const Tensor& resolved_entry(const Source& source, const Entry& entry,
                             const FeatureReader& reader) {
  const Value& value = reader.feature(source.name(), entry.key);
  const auto is = [&](DType dtype, int64_t axes) {
    return value.is_tensor() && value.tensor().scalar_type() == dtype &&
           value.tensor().dim() == axes;
  };
  bool good = false;
  if (entry.tensor == &ColumnValues::lengths) {
    good = is(kInt64, 1);
  } else if (source.is_categorical()) {
    good = is(entry.tensor == &ColumnValues::weights ? kFloat32 : kInt64,
              source.gives_sequences() ? 3 : 2);
  } else if (value.is_tensor() && value.tensor().is_floating_point()) {
    const Shape shape = source.variable_shape();
    const auto sizes = value.tensor().sizes();
    good = sizes.size() > shape.size() && sizes.slice(sizes.size() - shape.size()) == shape;
  }
  if (good) return value.tensor();
  throw invalid_argument(
      fmt::format("the column '{}': the entry '{}' is {}, which resolve() does not give",
                  source.name(), entry.key, value.describe()),
      "map the batch by resolve() of the columns that the layer has, and call no feature so");
}

}  // namespace

LayerInputs ColumnInputs::inputs(const Features& features) const {
  const at::NoGradGuard no_grad;
  const FeatureReader reader(features.element());
  LayerInputs inputs;
  for (const FeatureColumn& column : columns_) {
    const Source& source = column.impl().source();
    const std::vector<Entry> entries = source.entries();
    const bool resolved = reader.find(entries.front().key) != nullptr;
    const ColumnValues values = resolved ? ColumnValues() : source.resolve(reader);
    for (const Entry& entry : entries) {
      inputs.tensors.push_back(resolved ? resolved_entry(source, entry, reader)
                                        : values.*entry.tensor);
    }
  }
  return inputs;
}

std::vector<ColumnValues> ColumnInputs::split(const LayerInputs& inputs, const std::string& name,
                                              Device device) const {
  if (inputs.tensors.size() != tensors_) {
    throw invalid_argument(fmt::format("layer {}: expected {} tensors, was given {}", name,
                                       tensors_, inputs.tensors.size()),
                           "call it with inputs(features) of the same columns");
  }
  std::vector<ColumnValues> values;
  for (size_t i = 0, at = 0; i < columns_.size(); ++i) {
    values.emplace_back();
    for (const Entry& entry : column(i).source().entries()) {
      values.back().*entry.tensor = inputs.tensors[at++].to(device);
    }
  }
  return values;
}

Tensor joined_numbers(const ColumnInputs& columns, const std::vector<ColumnValues>& given,
                      const LayerIdentity& layer, CallContext& context, bool trainable) {
  std::vector<Tensor> numbers;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto rows = [&](const VariableSpec& table, const Tensor& ids) {
      return context.rows(
          layer, columns.table_of(i), [&] { return with_trainable(table, trainable); }, ids);
    };
    numbers.push_back(columns.column(i).numbers(given[i], rows));
  }
  return numbers.size() == 1 ? numbers.front() : at::cat(numbers, /*dim=*/-1);
}

VariableSpec with_trainable(VariableSpec table, bool trainable) {
  table.trainable = table.trainable && trainable;
  table.row_sparse = table.trainable;
  return table;
}

}  // namespace muster::inline v0_1::feature_column::internal
