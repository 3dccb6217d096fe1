// Columns as JSON: an exported model needs it to read requests as the pipeline read its data.
// Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "muster/features/feature_column.h"

namespace muster::inline v0_1::feature_column {

// Says how the columns read their features; of an indicator or an embedding, how the column inside
// does. Throws InvalidArgument, naming the column, for one of sequences, and for a normalizer_fn,
// which is code.
nlohmann::json recipe_of(const std::vector<FeatureColumn>& columns);

// Makes columns that read their features in that way. Throws InvalidArgument for JSON that
// recipe_of() does not write, and nlohmann's exception for a missing part.
std::vector<FeatureColumn> columns_of(const nlohmann::json& recipe);

}  // namespace muster::inline v0_1::feature_column
