#include "muster/features/internal/column_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column::internal {

ColumnInputs::ColumnInputs(const char* layer, const std::vector<FeatureColumn>& columns)
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

LayerInputs ColumnInputs::inputs(const Features& features) const {
  const at::NoGradGuard no_grad;
  const FeatureReader reader(features.element());
  LayerInputs inputs;
  for (const FeatureColumn& column : columns_) {
    const Source& source = column.impl().source();
    const std::vector<std::string> entries = source.entries();
    if (reader.find(entries.front()) != nullptr) {
      for (const std::string& entry : entries) {
        inputs.tensors.push_back(reader.feature(column.name(), entry).tensor());
      }
      continue;
    }
    ColumnValues values = source.resolve(reader);
    inputs.tensors.push_back(std::move(values.values));
    if (entries.size() > 1) inputs.tensors.push_back(std::move(values.weights));
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
    values.push_back({.values = inputs.tensors[at++].to(device), .weights = {}});
    if (column(i).source().entries().size() == 1) continue;
    values.back().weights = inputs.tensors[at++].to(device);
  }
  return values;
}

VariableSpec with_trainable(VariableSpec table, bool trainable) {
  table.trainable = table.trainable && trainable;
  table.row_sparse = table.trainable;
  return table;
}

}  // namespace muster::inline v0_1::feature_column::internal
