// Adds features to a specification, and sees that they agree. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/data/example.h"

namespace muster::inline v0_1::feature_column::internal {

using ParsedFeature = data::FeatureSpec::mapped_type;

// Adds the feature that `reader`, as "the column 'age'", reads. Throws InvalidArgument if the key
// exists with another dtype, shape, kind or default.
void add_feature(data::FeatureSpec& spec, const std::string& reader, const std::string& key,
                 ParsedFeature feature);

}  // namespace muster::inline v0_1::feature_column::internal
