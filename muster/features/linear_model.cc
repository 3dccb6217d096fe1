#include "muster/features/linear_model.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/features/internal/column_inputs.h"
#include "muster/features/internal/embedding_lookup.h"
#include "muster/features/internal/linear_sum.h"
#include "muster/layers/initializers.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::internal::CategoricalColumn;
using feature_column::internal::Column;
using feature_column::internal::ColumnInputs;
using feature_column::internal::ColumnValues;
using feature_column::internal::is_linear_term;
using feature_column::internal::linear_sum;
using feature_column::internal::LinearTerm;

class LinearModelImpl final : public LayerImpl {
 public:
  LinearModelImpl(std::shared_ptr<const ColumnInputs> columns, LinearModelOptions options)
      : LayerImpl("linear_model", options.name),
        columns_(std::move(columns)),
        options_(std::move(options)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const std::vector<ColumnValues> given =
        columns_->split(inputs, context.name_of(identity()), context.device());
    std::vector<LinearTerm> terms;
    std::vector<Tensor> parts;  // parts with a graph of their own
    for (size_t i = 0; i < given.size(); ++i) {
      if (!columns_->column(i).is_categorical()) {
        LinearTerm term = of_numbers(i, given[i], context);
        if (is_tracing() || !is_linear_term(term)) {
          parts.push_back(term.amounts.matmul(term.weights));
        } else {
          terms.push_back(std::move(term));
        }
      } else if (is_tracing() || !context.device().is_cpu() ||
                 options_.sparse_combiner != feature_column::Combiner::kSum) {
        parts.push_back(combined(i, given[i], context));
      } else {
        terms.push_back(of_ids(i, given[i], context));
      }
    }
    const int slot = 2 * static_cast<int>(columns_->size());
    const Tensor& bias = context.variable(
        identity(), slot, [this] { return weights("bias_weights", {options_.units}); });
    Tensor sum = terms.empty() ? bias : linear_sum(terms, bias);
    for (const Tensor& part : parts) sum = part + sum;
    return {.tensors = {std::move(sum)}};
  }

 private:
  VariableSpec weights(const std::string& name, Shape shape) const {
    return {.name = name,
            .shape = std::move(shape),
            .initializer = initializers::zeros(),
            .trainable = options_.trainable};
  }

  // The weights of column i are in the slots after all tables.
  int slot_of(size_t i) const { return static_cast<int>(columns_->size() + i); }

  VariableSpec table_of(const CategoricalColumn& column) const {
    VariableSpec spec = weights(column.name() + "/weights", {column.num_buckets(), options_.units});
    spec.row_sparse = options_.trainable;
    return spec;
  }

  LinearTerm of_ids(size_t i, const ColumnValues& given, CallContext& context) const {
    const auto& column = static_cast<const CategoricalColumn&>(columns_->column(i));
    Variable::PlacedRows rows = context.placed_rows(
        identity(), slot_of(i), [&] { return table_of(column); }, given.values);
    return {.weights = std::move(rows.rows),
            .places = std::move(rows.places),
            .amounts = given.weights};
  }

  // By LibTorch's operations, which leave a trace and know all devices.
  Tensor combined(size_t i, const ColumnValues& given, CallContext& context) const {
    const auto& column = static_cast<const CategoricalColumn&>(columns_->column(i));
    const auto rows = [&](const Tensor& ids) {
      return context.rows(
          identity(), slot_of(i), [&] { return table_of(column); }, ids);
    };
    return feature_column::internal::combined_rows(given, options_.sparse_combiner, rows);
  }

  LinearTerm of_numbers(size_t i, const ColumnValues& given, CallContext& context) const {
    const Column& column = columns_->column(i);
    const auto rows = [&](const VariableSpec& table, const Tensor& ids) {
      return context.rows(
          identity(), columns_->table_of(i),
          [&] { return feature_column::internal::with_trainable(table, options_.trainable); }, ids);
    };
    Tensor numbers = column.numbers(given, rows);
    return {.weights = context.variable(
                identity(), slot_of(i),
                [&] {
                  return weights(column.name() + "/weights",
                                 {c10::multiply_integers(column.variable_shape()), options_.units});
                }),
            .amounts = std::move(numbers)};
  }

  const std::shared_ptr<const ColumnInputs> columns_;
  const LinearModelOptions options_;
};

std::shared_ptr<const ColumnInputs> linear_inputs(const std::vector<FeatureColumn>& columns,
                                                  int64_t units) {
  if (units < 1) {
    throw invalid_argument("LinearModel: units is " + std::to_string(units),
                           "units must be at least 1");
  }
  return std::make_shared<const ColumnInputs>("LinearModel", columns);
}

}  // namespace

LinearModel::LinearModel(const std::vector<FeatureColumn>& columns, LinearModelOptions options)
    : inputs_(linear_inputs(columns, options.units)),
      layer_(std::make_shared<LinearModelImpl>(inputs_, std::move(options))) {}

LayerInputs LinearModel::inputs(const Features& features) const {
  return inputs_->inputs(features);
}

Tensor LinearModel::operator()(const Features& features, CallContext& context) const {
  return layer_(inputs(features), context).tensors.front();
}

Tensor LinearModel::operator()(const Features& features) const {
  return layer_(inputs(features)).tensors.front();
}

std::vector<LinearModel::Terms> LinearModel::terms(const Features& features) const {
  const std::vector<ColumnValues> given =
      inputs_->split(inputs(features), "linear_model", at::kCPU);
  std::vector<Terms> terms;
  for (size_t i = 0; i < given.size(); ++i) {
    const Column& column = inputs_->column(i);
    if (column.is_categorical()) {
      terms.push_back(
          {.column = column.name(), .ids = given[i].values, .values = given[i].weights});
      continue;
    }
    const auto no_table = [&](const VariableSpec& table, const Tensor&) -> Tensor {
      throw invalid_argument(
          "the column '" + column.name() + "' has a table, " + table.name + ", which is trained",
          "leave embeddings to an optimizer of gradients");
    };
    terms.push_back({.column = column.name(), .values = column.numbers(given[i], no_table)});
  }
  return terms;
}

}  // namespace muster::inline v0_1
