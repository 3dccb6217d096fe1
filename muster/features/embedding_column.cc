#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/features/dense_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/embedding_lookup.h"
#include "muster/files/file_systems.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::Column;
using internal::ColumnValues;
using internal::Source;
using internal::TableRows;

class EmbeddingColumn final : public Column {
 public:
  // `collection` names the table; empty: it is the column's own.
  EmbeddingColumn(const std::string& name, std::shared_ptr<const CategoricalColumn> categorical,
                  int64_t dimension, EmbeddingColumnOptions options, const std::string& collection)
      : Column(name),
        categorical_(std::move(categorical)),
        dimension_(dimension),
        options_(std::move(options)),
        table_((collection.empty() ? name : collection) + "/embedding_weights") {}

  bool is_dense() const override { return true; }
  const Source& source() const override { return *categorical_; }
  Shape variable_shape() const override { return {dimension_}; }
  std::string table() const override { return table_; }
  std::string table_definition() const override {
    return fmt::format("{} by {}{}", categorical_->num_buckets(), dimension_,
                       options_.trainable ? "" : ", not trainable");
  }

  Tensor numbers(const ColumnValues& given, const TableRows& rows) const override {
    const auto rows_of = [&](const Tensor& ids) {
      return rows({.name = table_,
                   .shape = {categorical_->num_buckets(), dimension_},
                   .initializer = options_.initializer,
                   .trainable = options_.trainable,
                   .row_sparse = options_.trainable},
                  ids);
    };
    return internal::combined_rows(given, options_.combiner, rows_of, options_.max_norm);
  }

 private:
  const std::shared_ptr<const CategoricalColumn> categorical_;
  const int64_t dimension_;
  const EmbeddingColumnOptions options_;
  const std::string table_;
};

// Takes a tensor of a checkpoint as the initial value.
Initializer from_checkpoint(const std::string& checkpoint, const std::string& name) {
  return [=](const Shape& shape, DType dtype, RandomKey) {
    const Checkpoint saved = read_checkpoint(file_systems(), checkpoint);
    const auto found = saved.tensors.find(name);
    if (found == saved.tensors.end()) {
      std::vector<std::string> names;
      for (const auto& [known, tensor] : saved.tensors) names.push_back(known);
      throw not_found(fmt::format("the checkpoint {} has no tensor '{}'; it has {}", checkpoint,
                                  name, join_quoted(names)),
                      nearest_hint(name, names, "tensor_name_in_ckpt is one of them"));
    }
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      throw invalid_argument(
          fmt::format("the tensor '{}' of the checkpoint {} is {}, and the table {}", name,
                      checkpoint, describe(found->second), describe(shape)),
          "a table is [num_buckets, dimension]");
    }
    return found->second.to(dtype);
  };
}

// Returns the options with an initializer in any case.
EmbeddingColumnOptions checked(const char* function, const std::string& name, int64_t dimension,
                               EmbeddingColumnOptions options) {
  internal::check_at_least(function, name, "dimension", dimension, 1);
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw invalid_argument(fmt::format("{} of '{}': {}", function, name, what), hint);
  };
  if (options.ckpt_to_load_from.empty() != options.tensor_name_in_ckpt.empty()) {
    refuse(fmt::format("ckpt_to_load_from is '{}', and tensor_name_in_ckpt '{}'",
                       options.ckpt_to_load_from, options.tensor_name_in_ckpt),
           "give both of them, or none");
  }
  if (options.max_norm && !(*options.max_norm > 0)) {
    refuse(fmt::format("max_norm is {}", *options.max_norm), "max_norm must be above 0");
  }
  if (!options.ckpt_to_load_from.empty()) {
    options.initializer = from_checkpoint(options.ckpt_to_load_from, options.tensor_name_in_ckpt);
  } else if (!options.initializer) {
    options.initializer =
        initializers::truncated_normal(0, 1 / std::sqrt(static_cast<double>(dimension)));
  }
  return options;
}

}  // namespace

FeatureColumn embedding_column(const FeatureColumn& categorical, int64_t dimension,
                               const EmbeddingColumnOptions& options) {
  constexpr const char* kFunction = "embedding_column";
  auto inner = internal::as_categorical(kFunction, categorical.shared_impl());
  const EmbeddingColumnOptions all = checked(kFunction, inner->name(), dimension, options);
  const std::string name = inner->name() + "_embedding";
  return FeatureColumn(
      std::make_shared<const EmbeddingColumn>(name, std::move(inner), dimension, all, ""));
}

std::vector<FeatureColumn> shared_embeddings(const std::vector<FeatureColumn>& categorical_columns,
                                             int64_t dimension,
                                             const SharedEmbeddingsOptions& options) {
  constexpr const char* kFunction = "shared_embeddings";
  if (categorical_columns.empty()) {
    throw invalid_argument(fmt::format("{}: categorical_columns is empty", kFunction),
                           "give it at least one categorical column");
  }
  std::vector<std::shared_ptr<const CategoricalColumn>> inner;
  std::vector<std::string> names;
  for (const FeatureColumn& column : categorical_columns) {
    inner.push_back(internal::as_categorical(kFunction, column.shared_impl()));
    names.push_back(column.name());
    if (inner.back()->num_buckets() == inner.front()->num_buckets()) continue;
    throw invalid_argument(
        fmt::format("{}: the column '{}' has {} buckets, and '{}' has {}", kFunction, names.front(),
                    inner.front()->num_buckets(), names.back(), inner.back()->num_buckets()),
        "columns of one table have one number of buckets");
  }
  std::string collection = options.shared_embedding_collection_name;
  if (collection.empty()) {
    std::sort(names.begin(), names.end());
    collection = join(names, "_") + "_shared_embedding";
  }
  const EmbeddingColumnOptions all = checked(kFunction, collection, dimension,
                                             {.combiner = options.combiner,
                                              .initializer = options.initializer,
                                              .ckpt_to_load_from = options.ckpt_to_load_from,
                                              .tensor_name_in_ckpt = options.tensor_name_in_ckpt,
                                              .max_norm = options.max_norm,
                                              .trainable = options.trainable});
  std::vector<FeatureColumn> shared;
  for (const auto& column : inner) {
    shared.emplace_back(std::make_shared<const EmbeddingColumn>(
        column->name() + "_shared_embedding", column, dimension, all, collection));
  }
  return shared;
}

}  // namespace muster::inline v0_1::feature_column
