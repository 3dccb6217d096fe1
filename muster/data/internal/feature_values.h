// The dtypes and given values of features, as the formats hold them. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/data/example.h"
#include "muster/formats/example.h"

namespace muster::inline v0_1::data::internal {

// Throws InvalidArgument, naming the key, for a dtype that tf.Examples do not have.
formats::FeatureKind kind_of(const FeatureDType& dtype, const std::string& key);
// The values of a default; throws InvalidArgument unless it is one value, or of `shape`.
formats::Feature values_of(const Value& value, const Shape& shape, formats::FeatureKind kind,
                           const std::string& key);
// One 0, or "".
formats::Feature zero_of(formats::FeatureKind kind);
// The bytes of a place that is padded with this value.
double padded_value_bytes(const formats::Feature& padding);

}  // namespace muster::inline v0_1::data::internal
