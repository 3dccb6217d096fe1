#include "muster/serve/internal/json_body.h"

#include <fmt/format.h>

#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::inline v0_1::serve::internal {
namespace {

template <typename Container>
int64_t exact_count(const Container& of) {
  constexpr size_t kSaturated = 0xFFFFFF;  // size() returns this also for more
  const size_t count = of.size();
  return count < kSaturated ? static_cast<int64_t>(count) : std::distance(of.begin(), of.end());
}

}  // namespace

JsonValue parse_body(simdjson::dom::parser& parser, std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  JsonValue root;
  simdjson::error_code code = parser.allocate(text.size(), kMaxDepth + 1);
  if (code == simdjson::SUCCESS) code = parser.parse(text.data(), text.size()).get(root);
  if (code == simdjson::SUCCESS) return root;
  if (code == simdjson::MEMALLOC) throw std::bad_alloc();
  if (code == simdjson::EMPTY)
    throw invalid_argument("the body is empty; a JSON object was expected");
  if (code == simdjson::DEPTH_ERROR) {
    throw invalid_argument(fmt::format(
        "the body is nested deeper than {} levels; no input has this many axes", kMaxDepth));
  }
  // It does not say where.
  const Result<nlohmann::json> read = parse_json(text, "the body");
  const bool strange =
      text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
  if (!read.ok())
    throw strange ? read.error().with_detail("NaN and infinity are not JSON numbers")
                  : read.error();
  throw invalid_argument(
      fmt::format("the body cannot be read: {}", simdjson::error_message(code)),
      "a whole number that 64 bits do not hold is written with an exponent, such as 1e20");
}

int64_t count_in(JsonValue value) {
  if (value.is_array()) return exact_count(list_in(value));
  return value.is_object() ? exact_count(object_in(value)) : 0;
}

std::string_view kind_name(JsonValue value) {
  switch (value.type()) {
    case JsonKind::NULL_VALUE:
      return "null";
    case JsonKind::BOOL:
      return "a bool";
    case JsonKind::INT64:
      return "a whole number";
    case JsonKind::UINT64:
    case JsonKind::DOUBLE:
      return "a number";
    case JsonKind::STRING:
      return "a text";
    case JsonKind::ARRAY:
      return "a list";
    case JsonKind::OBJECT:
      return "an object";
  }
  return "?";
}

}  // namespace muster::inline v0_1::serve::internal
