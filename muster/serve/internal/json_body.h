// The JSON of a request's body, which simdjson reads. Thread safety: one thread.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::inline v0_1::serve::internal {

// Nesting beyond this is refused; no array of a model has this many axes.
inline constexpr size_t kMaxDepth = 64;

// A value, where its parser holds it.
using JsonValue = simdjson::dom::element;
using JsonKind = simdjson::dom::element_type;

// Reads `text`; `parser` must outlive the result. Throws InvalidArgument with line and column for
// text that is not JSON (NaN and infinity are none), for a number that neither a double nor, if it
// is written as a whole one, 64 bits hold, and for nesting deeper than kMaxDepth.
JsonValue parse_body(simdjson::dom::parser& parser, std::string_view text);

// The content of a list or an object. REQUIRES: that the value is one.
inline simdjson::dom::array list_in(JsonValue value) { return value.get_array().value_unsafe(); }
inline simdjson::dom::object object_in(JsonValue value) {
  return value.get_object().value_unsafe();
}

// Values inside of a list or an object, each once; 0 of others.
int64_t count_in(JsonValue value);

// Returns "a text", "a list" and so on, for messages.
std::string_view kind_name(JsonValue value);

}  // namespace muster::inline v0_1::serve::internal
