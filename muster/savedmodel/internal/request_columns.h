// Feature columns in a TensorFlow graph: the ids that a model takes, from the features of a
// request, as muster/features computes them. For sources alone. Thread safety: one thread.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/export/signature.h"
#include "muster/savedmodel/internal/lookup_tables.h"
#include "muster/savedmodel/internal/nodes.h"

namespace muster::inline v0_1::saved_model::internal {

// Whether a column crosses features and other columns in such an order that tf.Examples and dense
// features have other hashes, as in TensorFlow: it hashes features that are dense last.
bool crosses_in_two_orders(const nlohmann::json& recipe);

class ColumnNodes {
 public:
  // `feature` gives the value of a feature by key: numbers [rows, ...], categories string or int64
  // [rows, values] with the marks of example_features.h. With `dense` they are hashed as features
  // that are dense.
  ColumnNodes(TensorflowGraph& graph, LookupTables& tables, bool dense,
              std::function<std::string(const std::string& key)> feature)
      : graph_(graph),
        tables_(tables),
        nodes_(graph),
        dense_(dense),
        feature_(std::move(feature)) {}

  // Adds the nodes of a column, and returns the inputs of the model that they are, by name:
  // "city/ids", int64 [rows, values], and "city_weighted_by_amount/weights", float32. `inputs` are
  // those that the model takes; a call with more values of an example fails.
  std::map<std::string, std::string> add(const nlohmann::json& recipe,
                                         const std::map<std::string, TensorInfo>& inputs);

 private:
  // Values [rows, values], and which of them are there, bool of the same shape.
  struct Cells {
    std::string values{}, present{};
  };

  Cells texts(const std::string& key);
  Cells integers(const std::string& key);
  // The values of a column's feature as texts.
  Cells words(const nlohmann::json& recipe);
  Cells ids(const nlohmann::json& recipe);
  Cells vocabulary_ids(const nlohmann::json& recipe);
  Cells identity_ids(const nlohmann::json& recipe);
  Cells buckets(const nlohmann::json& recipe);
  std::string crossed_ids(const nlohmann::json& recipe, int64_t width);
  std::string widened(const std::string& rows, int64_t width);

  TensorflowGraph& graph_;
  LookupTables& tables_;
  const Nodes nodes_;
  const bool dense_;
  const std::function<std::string(const std::string& key)> feature_;
};

}  // namespace muster::inline v0_1::saved_model::internal
