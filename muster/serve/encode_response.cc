#include "muster/serve/encode_response.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::serve {
namespace {

void write_text(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename T>
T element(const Array& array, int64_t index) {
  T value;
  std::memcpy(&value, array.data.data() + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

// The fewest digits that read back as the same number, and always one that reads as a fraction.
template <typename T>
void write_float(std::string& out, T value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  const size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

template <typename T>
void write_integer(std::string& out, T value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}

void write_element(std::string& out, const Array& array, int64_t index, bool binary) {
  switch (array.type) {
    case ElementType::kBool:
      out += element<uint8_t>(array, index) != 0 ? "true" : "false";
      return;
    case ElementType::kUint8:
      return write_integer(out, element<uint8_t>(array, index));
    case ElementType::kInt8:
      return write_integer(out, element<int8_t>(array, index));
    case ElementType::kInt16:
      return write_integer(out, element<int16_t>(array, index));
    case ElementType::kInt32:
      return write_integer(out, element<int32_t>(array, index));
    case ElementType::kInt64:
      return write_integer(out, element<int64_t>(array, index));
    case ElementType::kFloat32:
      return write_float(out, element<float>(array, index));
    case ElementType::kFloat64:
      return write_float(out, element<double>(array, index));
    case ElementType::kBytes:
      break;
  }
  const std::string& bytes = array.texts[static_cast<size_t>(index)];
  if (!binary && is_utf8(bytes)) return write_text(out, bytes);
  out += "{\"b64\": \"" + to_base64(bytes) + "\"}";
}

// Writes the elements below `axis`, from element `first` on; returns the element after them.
int64_t write_axis(std::string& out, const Array& array, size_t axis, int64_t first, bool binary) {
  if (axis >= array.shape.size()) {
    write_element(out, array, first, binary);
    return first + 1;
  }
  out += '[';
  for (int64_t at = 0; at < array.shape[axis]; ++at) {
    if (at > 0) out += ", ";
    first = write_axis(out, array, axis + 1, first, binary);
  }
  out += ']';
  return first;
}

bool is_binary(const std::string& name) { return name.ends_with("_bytes"); }

// Checks that an output has the form its verb asks for.
const Array& output_of(const Arrays& outputs, const char* name, size_t min_rank, size_t max_rank) {
  const auto found = outputs.find(name);
  if (found == outputs.end() || found->second.shape.size() < min_rank ||
      found->second.shape.size() > max_rank || found->second.type == ElementType::kBytes) {
    throw internal_error(
        fmt::format("the model gave no '{}' of {} to {} axes", name, min_rank, max_rank));
  }
  return found->second;
}

}  // namespace

std::string encode_predictions(const Arrays& outputs, int64_t rows) {
  for (const auto& [name, array] : outputs) {
    if (!array.shape.empty() && array.shape.front() == rows) continue;
    throw invalid_argument(fmt::format(
        "output '{}' has no row for each of the {} instances; ask with 'inputs' (columns)", name,
        rows));
  }
  std::string out = "{\"predictions\": [";
  // How far each output is written.
  std::map<std::string, int64_t> next;
  for (int64_t row = 0; row < rows; ++row) {
    if (row > 0) out += ", ";
    if (outputs.size() != 1) out += '{';
    bool first = true;
    for (const auto& [name, array] : outputs) {
      if (!first) out += ", ";
      first = false;
      if (outputs.size() != 1) {
        write_text(out, name);
        out += ": ";
      }
      int64_t& at = next[name];
      at = write_axis(out, array, 1, at, is_binary(name));
    }
    if (outputs.size() != 1) out += '}';
  }
  return out + "]}";
}

std::string encode_columns(const Arrays& outputs) {
  std::string out = "{\"outputs\": ";
  if (outputs.size() == 1) {
    const auto& [name, array] = *outputs.begin();
    write_axis(out, array, 0, 0, is_binary(name));
    return out + "}";
  }
  out += '{';
  bool first = true;
  for (const auto& [name, array] : outputs) {
    if (!first) out += ", ";
    first = false;
    write_text(out, name);
    out += ": ";
    write_axis(out, array, 0, 0, is_binary(name));
  }
  return out + "}}";
}

std::string encode_classes(const Signature& signature, const Arrays& outputs) {
  const Array& scores = output_of(outputs, "scores", 2, 2);
  std::vector<std::string> labels;
  for (int64_t at = 0; at < scores.shape[1]; ++at) {
    const auto index = static_cast<size_t>(at);
    std::string& label = labels.emplace_back();
    write_text(label,
               index < signature.classes.size() ? signature.classes[index] : std::to_string(at));
  }
  std::string out = "{\"results\": [";
  int64_t next = 0;
  for (int64_t row = 0; row < scores.shape[0]; ++row) {
    out += row > 0 ? ", [" : "[";
    for (size_t at = 0; at < labels.size(); ++at) {
      out += (at > 0 ? ", [" : "[") + labels[at] + ", ";
      write_element(out, scores, next++, false);
      out += ']';
    }
    out += ']';
  }
  return out + "]}";
}

std::string encode_regressions(const Arrays& outputs) {
  const Array& values = output_of(outputs, "outputs", 1, 2);
  Array flat = values;
  if (flat.shape.size() == 2 && flat.shape[1] == 1) flat.shape.pop_back();
  std::string out = "{\"results\": ";
  write_axis(out, flat, 0, 0, false);
  return out + "}";
}

std::string encode_error(std::string_view message) {
  std::string out = "{\"error\": ";
  write_text(out, message);
  return out + "}\n";
}

}  // namespace muster::inline v0_1::serve
