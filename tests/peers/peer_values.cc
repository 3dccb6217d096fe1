#include "tests/peers/peer_values.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

namespace muster::inline v0_1 {

Value peer_value(const PeerArray& array) {
  if (array.dtype != "string") return array.tensor();
  std::string bytes;
  std::vector<int64_t> offsets = {0};
  for (const std::string& text : array.texts()) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(array.shape, offsets, bytes);
}

PeerArray peer_array(const Value& value) {
  if (value.is_tensor()) return PeerArray::of(value.tensor());
  const Strings& strings = value.strings();
  PeerArray array{"string", strings.shape(), nlohmann::json::array()};
  for (int64_t i = 0; i < strings.size(); ++i) array.values.push_back(std::string(strings[i]));
  return array;
}

std::string bytes_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) throw std::runtime_error("an odd number of digits is not bytes");
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string hex_of_bytes(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::string text_of(const Value& value) {
  const PeerArray array = peer_array(value);
  std::string text = fmt::format("{}[{}] ", array.dtype, fmt::join(array.shape, ", "));
  const char* before = "";
  for (const nlohmann::json& one : array.values) {
    text += before;
    if (array.dtype == "string") {
      text += '"' + one.get<std::string>() + '"';
    } else if (array.dtype.starts_with("float") && one.is_number()) {
      text += fmt::format("{:g}", one.get<double>());
    } else {
      text += one.is_string() ? one.get<std::string>() : one.dump();
    }
    before = " ";
  }
  return text;
}

}  // namespace muster::inline v0_1
