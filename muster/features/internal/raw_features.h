// The part before an exported model over feature columns: the columns read texts and numbers as a
// client knows them, and return the ids that the module takes. Thread safety: immutable; calls may
// come from several threads at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/example.h"
#include "muster/export/request_columns.h"
#include "muster/export/signature.h"
#include "muster/features/feature_column.h"
#include "muster/features/resolve.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::feature_column::internal {

class RawFeatures final : public RequestReader {
 public:
  using Tensors = std::map<std::string, Tensor>;

  // As RequestColumns::reader() says.
  RawFeatures(const std::vector<FeatureColumn>& columns,
              const std::map<std::string, TensorInfo>& inputs,
              const std::optional<data::FeatureSpec>& numbers);

  const std::map<std::string, RawFeature>& features() const override { return features_; }
  const std::optional<data::ExampleParser>& parser() const override { return parser_; }
  void check(const Element& batch) const override;
  Tensors inputs_of(const Element& batch) const override;

 private:
  const std::map<std::string, TensorInfo> inputs_;
  const feature_column::FeatureTransform resolve_;
  std::map<std::string, RawFeature> features_;
  std::optional<data::ExampleParser> parser_;
};

}  // namespace muster::inline v0_1::feature_column::internal
