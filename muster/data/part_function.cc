#include "muster/data/part_function.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::data {
namespace {

constexpr const char* kTypes =
    "a parameter is a Tensor, Strings, std::string, Features (also of a dict) or an Element";

const Value& leaf_of(const Element& part, const char* wanted) {
  if (part.is_leaf()) return part.value();
  throw invalid_argument(
      fmt::format("the function asks for {}, and the part is {}", wanted, part.describe()), kTypes);
}

[[noreturn]] void throw_kind(const Element& part, const char* wanted) {
  throw invalid_argument(
      fmt::format("the function asks for {}, and the part is {}", wanted, part.describe()), kTypes);
}

}  // namespace

ElementPart::operator Tensor() const {
  const Value& value = leaf_of(element_, "a Tensor");
  if (!value.is_tensor()) throw_kind(element_, "a Tensor");
  return value.tensor();
}

ElementPart::operator Strings() const {
  const Value& value = leaf_of(element_, "Strings");
  if (!value.is_strings()) throw_kind(element_, "Strings");
  return value.strings();
}

ElementPart::operator std::string() const {
  const Value& value = leaf_of(element_, "a std::string");
  if (!value.is_strings() || !value.strings().shape().empty()) {
    throw_kind(element_, "a std::string");
  }
  return std::string(value.strings()[0]);
}

ElementPart::operator Value() const { return leaf_of(element_, "a Value"); }

std::vector<ElementPart> parts_of(const Element& element, size_t count) {
  const bool tuple = element.structure().kind == Structure::Kind::kTuple;
  if (count == 1 && (!tuple || element.size() != 1)) return {ElementPart(element)};
  if (!tuple && !element.is_leaf()) {
    throw invalid_argument(
        fmt::format("the function takes {} parts, but the element is a dict, {}, whose entries "
                    "have names and no order",
                    count, element.describe()),
        "take one const Features& and ask it by name: features[\"" +
            (element.structure().keys.empty() ? "name" : element.structure().keys.front()) + "\"]");
  }
  if (!tuple || static_cast<size_t>(element.size()) != count) {
    throw invalid_argument(fmt::format("the function takes {} parts, and the element has {}: {}",
                                       count, element.size(), element.describe()),
                           "give it one parameter for each part, or one const Element&");
  }
  std::vector<ElementPart> parts;
  for (int64_t i = 0; i < element.size(); ++i) parts.emplace_back(element.part(i));
  return parts;
}

}  // namespace muster::inline v0_1::data
