// Describes the identity of a pipeline, as far as its stages show it: for files that keep its
// elements. Thread safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "muster/data/internal/node.h"

namespace muster::inline v0_1::data::internal {

using nlohmann::json;

// The stages that change elements, from the sources on, each with its kind, name and parameters,
// and for sources that are read by index or from files a digest of the first element, and by index
// also of the last; without it if the element cannot be read. Functions have no identity: only
// their given name and place are known.
json fingerprint_of(const Node& node);
// A digest of the stages alone, whatever the data is.
std::string digest_of_stages(const json& fingerprint);
// The difference, such as "its stage 2 was map 'a', here it is map"; empty if there is none. A
// digest that one of the two lacks is not compared.
std::string difference_of(const json& was, const json& is);

}  // namespace muster::inline v0_1::data::internal
