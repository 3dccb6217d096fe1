#include "muster/formats/safetensors_parts.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/json.h"
#include "muster/base/outside_name.h"
#include "muster/formats/safetensors.h"

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;

// Throws Corrupt for a value that is not a whole number.
uint64_t count_of(const json& value) {
  if (!value.is_number_unsigned()) throw corrupt(value.dump() + " is not a whole number");
  return value.get<uint64_t>();
}

// Returns the fault of a tensor of the table; "" if there is none.
std::string fault_of(const SafetensorsParts::Tensor& tensor,
                     const std::vector<SafetensorsParts::File>& files) {
  const std::optional<uint64_t> expected = safetensors_bytes(tensor.dtype, tensor.shape);
  if (!expected) return "has an unknown dtype or an impossible shape";
  uint64_t total = 0;
  for (const TensorPiece& piece : tensor.pieces) {
    if (piece.file >= files.size()) return "lies in a part that is not listed";
    const uint64_t size = files[piece.file].bytes;
    if (piece.offset > size || piece.bytes > size - piece.offset)
      return "is after the end of '" + files[piece.file].name + "'";
    if (__builtin_add_overflow(total, piece.bytes, &total)) return "is too large";
  }
  if (total != *expected) {
    return "has pieces of " + std::to_string(total) + " bytes and takes " +
           std::to_string(*expected);
  }
  return "";
}

}  // namespace

std::string SafetensorsParts::to_text() const {
  json list = json::array(), table = json::object();
  for (const File& file : files) list.push_back({{"name", file.name}, {"bytes", file.bytes}});
  for (const auto& [name, tensor] : tensors) {
    json pieces = json::array();
    for (const TensorPiece& piece : tensor.pieces)
      pieces.push_back({piece.file, piece.offset, piece.bytes, piece.crc32c});
    table[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"pieces", std::move(pieces)}};
  }
  return json{{"files", std::move(list)}, {"tensors", std::move(table)}}.dump();
}

Result<SafetensorsParts> SafetensorsParts::parse(std::string_view text, const std::string& what) {
  const Result<json> parsed = parse_json(text, what, ErrorKind::kCorrupt);
  if (!parsed.ok()) return parsed.error();
  SafetensorsParts parts;
  try {
    for (const json& file : parsed.value().at("files")) {
      parts.files.push_back({file.at("name").get<std::string>(), count_of(file.at("bytes"))});
      if (!fault_of_name(parts.files.back().name).empty())
        return corrupt(what + ": a part is called " + file.at("name").dump() +
                       ", which is not a name of a file in the same directory");
    }
    for (const auto& [name, told] : parsed.value().at("tensors").items()) {
      Tensor tensor{.dtype = told.at("dtype").get<std::string>(),
                    .shape = told.at("shape").get<std::vector<int64_t>>()};
      for (const json& piece : told.at("pieces"))
        tensor.pieces.push_back({.file = count_of(piece.at(0)),
                                 .offset = count_of(piece.at(1)),
                                 .bytes = count_of(piece.at(2)),
                                 .crc32c = static_cast<uint32_t>(count_of(piece.at(3)))});
      if (const std::string fault = fault_of(tensor, parts.files); !fault.empty())
        return corrupt(what + ": the tensor '" + name + "' " + fault);
      parts.tensors.emplace(name, std::move(tensor));
    }
  } catch (const json::exception& error) {
    return corrupt(what + " are not as they should be: " + error.what());
  } catch (const Error& error) {
    return corrupt(what + " are not as they should be: " + error.message());
  }
  if (parts.files.empty()) return corrupt(what + " list no file");
  return parts;
}

}  // namespace muster::inline v0_1::formats
