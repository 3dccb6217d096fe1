// The inputs of a layer of columns, made from the features. Thread safety: immutable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/features/feature_column.h"
#include "muster/features/internal/column.h"
#include "muster/layers/call_context.h"
#include "muster/layers/layer_values.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1::feature_column::internal {

class ColumnInputs {
 public:
  // Sorts the columns by name. Throws InvalidArgument "<layer>: ..." for no columns, two of one
  // name, two that share a table and differ in it, and for sequences, unless all are to be
  // sequences.
  ColumnInputs(const char* layer, const std::vector<FeatureColumn>& columns,
               bool sequences = false);
  // Throws InvalidArgument also for a column that is not dense.
  static std::shared_ptr<const ColumnInputs> of_dense(const char* layer,
                                                      const std::vector<FeatureColumn>& columns,
                                                      bool sequences = false);

  size_t size() const { return columns_.size(); }
  const Column& column(size_t i) const { return columns_[i].impl(); }
  // The number of the table that column i asks for: the number of the first column with its name.
  int table_of(size_t i) const { return tables_[i]; }

  // Returns the inputs of the layer: the entries of all columns, one after another; missing entries
  // are resolved.
  LayerInputs inputs(const Features& features) const;
  // Splits the inputs between the columns, on the device. Throws InvalidArgument naming `name`, the
  // layer, for another number of tensors.
  std::vector<ColumnValues> split(const LayerInputs& inputs, const std::string& name,
                                  Device device) const;

 private:
  std::vector<FeatureColumn> columns_;
  std::vector<int> tables_;
  size_t tensors_ = 0;
};

// Returns the numbers of all columns, one after another: the last axis is theirs. Their tables are
// variables of the layer.
Tensor joined_numbers(const ColumnInputs& columns, const std::vector<ColumnValues>& given,
                      const LayerIdentity& layer, CallContext& context, bool trainable);

// Returns the table for a layer that trains, or does not.
VariableSpec with_trainable(VariableSpec table, bool trainable);

}  // namespace muster::inline v0_1::feature_column::internal
