// The part of a pipeline that must agree for a saved position to belong to it. Thread safety: pure
// functions.
#pragma once

#include <nlohmann/json.hpp>

namespace muster::inline v0_1::data::internal {

// The members of an identity that count its files, and replace their names.
inline constexpr const char* kFileCount = "files";
inline constexpr const char* kFileNames = "names";

using nlohmann::json;

// Throws InvalidArgument naming the first difference when `saved` does not belong to the pipeline
// `here` describes.
void check_identity(const json& saved, const json& here);

}  // namespace muster::inline v0_1::data::internal
