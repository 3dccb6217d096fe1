// Feature columns and batches of features, as programs of cases describe them:
// tools/peers/cases/columns.py says how.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/features/combiner.h"
#include "muster/features/feature_column.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// The columns of a list; a dict of shared_embeddings() gives several. Vocabulary files are written
// into `folder`. Throws std::runtime_error for a type that no function here has.
std::vector<FeatureColumn> peer_columns(const nlohmann::json& specs, const std::string& folder);

// The features of a batch; with `examples` they were written as tf.Examples and read again,
// according to make_parse_example_spec() of the columns.
Element peer_features(const nlohmann::json& features, const std::vector<FeatureColumn>& columns,
                      bool examples);

// Sets the field to the option of that name, if it is given.
template <typename T, typename Field>
void take_option(const nlohmann::json& options, const char* name, Field& field) {
  if (options.contains(name)) field = options.at(name).get<T>();
}

feature_column::Combiner peer_combiner(const std::string& name);

}  // namespace muster::inline v0_1
