// What stands in front of an exported model over feature columns: the columns read texts and
// numbers as a client knows them, and give the ids that the module takes. Thread safety: immutable;
// calls may come from several threads at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/example.h"
#include "muster/export/signature.h"
#include "muster/features/feature_column.h"
#include "muster/features/resolve.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::internal {

class RawFeatures {
 public:
  using Tensors = std::map<std::string, Tensor>;

  // `inputs` are those of the module. `numbers` says how those that no column makes are parsed;
  // unset: tf.Examples are not taken.
  RawFeatures(const std::vector<FeatureColumn>& columns,
              const std::map<std::string, TensorInfo>& inputs,
              const std::optional<data::FeatureSpec>& numbers);

  // What a client gives.
  const std::map<std::string, RawFeature>& features() const { return features_; }
  // How serialized tf.Examples become these; unset where they cannot.
  const std::optional<data::ExampleParser>& parser() const { return parser_; }

  // Throws for a batch that is no dict, and naming the feature for one that is missing, unknown, or
  // text where numbers are asked.
  void check(const Element& batch) const;
  // Gives the module's inputs for a batch, a dict of these features, as a client or the parser
  // gives it. Throws InvalidArgument naming the feature or the column for one of another kind or
  // shape, or with more values of an example than the module takes.
  Tensors inputs_of(const Element& batch) const;

 private:
  const std::map<std::string, TensorInfo> inputs_;
  const feature_column::FeatureTransform resolve_;
  std::map<std::string, RawFeature> features_;
  std::optional<data::ExampleParser> parser_;
};

}  // namespace muster::inline v0_1::internal
