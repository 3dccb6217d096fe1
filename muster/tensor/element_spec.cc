#include "muster/tensor/element_spec.h"

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

json structure_to_json(const Structure& structure) {
  if (structure.kind == Structure::Kind::kLeaf) return "leaf";
  json children = json::array();
  for (const Structure& child : structure.children) children.push_back(structure_to_json(child));
  if (structure.kind == Structure::Kind::kTuple) return {{"tuple", children}};
  return {{"dict", children}, {"keys", structure.keys}};
}

Structure structure_from_json(const json& text) {
  if (text.is_string()) return {};
  const bool dict = text.contains("dict");
  Structure structure{.kind = dict ? Structure::Kind::kDict : Structure::Kind::kTuple};
  if (dict) structure.keys = text.at("keys").get<std::vector<std::string>>();
  for (const json& child : text.at(dict ? "dict" : "tuple"))
    structure.children.push_back(structure_from_json(child));
  return structure;
}

}  // namespace

std::string encode_batch_spec(const Element& batch) {
  json values = json::array();
  for (const Value& value : batch.values()) {
    Shape shape = value.is_tensor() ? value.tensor().sizes().vec() : value.strings().shape();
    shape.at(0) = 0;
    values.push_back(
        {{"shape", shape},
         {"dtype", value.is_tensor() ? static_cast<int>(value.tensor().scalar_type()) : -1}});
  }
  return json{{"structure", structure_to_json(batch.structure())}, {"values", values}}.dump();
}

Element zero_rows(const std::string& spec) {
  try {
    const json text = json::parse(spec);
    std::vector<Value> values;
    for (const json& value : text.at("values")) {
      const Shape shape = value.at("shape").get<Shape>();
      const int dtype = value.at("dtype").get<int>();
      if (dtype < 0) {
        values.emplace_back(Strings(shape, {0}, ""));
      } else {
        values.emplace_back(torch::empty(shape, static_cast<DType>(dtype)));
      }
    }
    return Element::make(
        std::make_shared<const Structure>(structure_from_json(text.at("structure"))),
        std::move(values));
  } catch (const json::exception& error) {
    throw internal_error(
        fmt::format("the description of a batch is damaged ({}): {}", error.what(), spec));
  }
}

}  // namespace muster::inline v0_1
