#include "muster/serve/internal/input_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/base64.h"
#include "muster/base/error.h"

namespace muster::inline v0_1::serve::internal {
namespace {

template <typename T>
void append(std::vector<std::byte>& data, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  data.insert(data.end(), bytes, bytes + sizeof value);
}

// Base64 without the blanks and line ends that many encoders put in, and with the padding that
// others leave out.
std::string padded(std::string_view encoded) {
  std::string text(encoded);
  std::erase_if(text,
                [](char letter) { return letter == ' ' || (letter >= '\t' && letter <= '\r'); });
  if (text.size() % 4 > 1 && text.find('=') == std::string::npos)
    text.append(4 - text.size() % 4, '=');
  return text;
}

std::string counted_values(int64_t count) {
  return fmt::format("{} value{}", count, count == 1 ? "" : "s");
}

}  // namespace

InputReader::InputReader(const std::string& name, const ArrayInfo& info)
    : name_(name), info_(info), lengths_(info.shape) {
  if (info.shape.empty()) {
    throw internal_error(fmt::format("input '{}' has no axis for the batch", name));
  }
  array_.type = info.type;
  for (const int64_t length : info.shape) stated_.push_back(length >= 0);
  // The batch grows with the rows read.
  lengths_.front() = 0;
}

void InputReader::read_rows(JsonValue value, const std::string& place) {
  place_ = place;
  path_.clear();
  if (!value.is_array()) {
    refuse(fmt::format("is {}, a list of rows was expected", kind_name(value)));
  }
  lengths_.front() = count_in(value);
  read_list(value, 0);
}

void InputReader::read_row(JsonValue value, const std::string& place) {
  place_ = place;
  path_.clear();
  ++lengths_.front();
  read_axis(value, 1);
}

void InputReader::read_feature(JsonValue value, const std::string& place) {
  const bool list = value.is_array();
  const int64_t elements = row_elements();
  const size_t rank = lengths_.size();
  const bool nested = list && value.at(0).is_array();
  if (elements < 0 || nested || (list && rank == 2) || (!list && elements != 1)) {
    return read_row(value, place);
  }
  place_ = place;
  path_.clear();
  ++lengths_.front();
  if (!list) return read_leaf(value);
  if (count_in(value) != elements) {
    refuse(fmt::format("has {}, expected {}", counted_values(count_in(value)), elements));
  }
  path_.push_back(0);
  for (const JsonValue one : list_in(value)) {
    read_leaf(one);
    ++path_.back();
  }
}

Array InputReader::take() {
  array_.shape = lengths_;
  // Lists that hold nothing say nothing of the axes below them.
  std::ranges::replace(array_.shape, -1, 0);
  return std::move(array_);
}

void InputReader::read_axis(JsonValue value, size_t axis) {
  if (axis == lengths_.size()) return read_leaf(value);
  if (!value.is_array()) {
    if (axis == 1 && info_.may_be_bare && row_elements() == 1) return read_leaf(value);
    refuse(fmt::format("is {}, a list was expected", kind_name(value)));
  }
  const int64_t count = count_in(value);
  if (lengths_[axis] < 0) lengths_[axis] = count;
  if (lengths_[axis] != count) {
    refuse(fmt::format("has {}, expected {}{}", counted_values(count), lengths_[axis],
                       stated_[axis] ? "" : ", as in the lists before"),
           stated_[axis] ? ""
                         : "pad the rows of a request to one length, or send rows of other lengths "
                           "in requests of their own");
  }
  read_list(value, axis);
}

void InputReader::read_list(JsonValue value, size_t axis) {
  path_.push_back(0);
  for (const JsonValue one : list_in(value)) {
    read_axis(one, axis + 1);
    ++path_.back();
  }
  path_.pop_back();
}

void InputReader::read_leaf(JsonValue value) {
  switch (info_.type) {
    case ElementType::kBool:
      if (!value.is_bool()) {
        refuse(fmt::format("is {}, true or false was expected", kind_name(value)));
      }
      return append(array_.data, value.get_bool().value_unsafe());
    case ElementType::kUint8:
      return append_integer<uint8_t>(value);
    case ElementType::kInt8:
      return append_integer<int8_t>(value);
    case ElementType::kInt16:
      return append_integer<int16_t>(value);
    case ElementType::kInt32:
      return append_integer<int32_t>(value);
    case ElementType::kInt64:
      return append_integer<int64_t>(value);
    case ElementType::kFloat32:
      return append_float<float>(value);
    case ElementType::kFloat64:
      return append_float<double>(value);
    case ElementType::kBytes:
      return append_bytes(value);
  }
}

void InputReader::append_bytes(JsonValue value) {
  if (value.is_string()) {
    array_.texts.emplace_back(value.get_string().value_unsafe());
    return;
  }
  if (value.is_null() && info_.may_be_missing) {
    array_.texts.emplace_back();
    return;
  }
  std::string_view encoded;
  if (count_in(value) != 1 || value.at_key("b64").get(encoded) != simdjson::SUCCESS) {
    refuse(fmt::format("is {}, a text or {{\"b64\": \"...\"}} was expected", kind_name(value)));
  }
  auto bytes = from_base64(padded(encoded));
  if (!bytes) refuse("has a \"b64\" that is not base64 (A-Z, a-z, 0-9, + and /, padded with =)");
  array_.texts.push_back(*std::move(bytes));
}

template <typename T>
void InputReader::append_float(JsonValue value) {
  if (value.is_null() && info_.may_be_missing)
    return append(array_.data, std::numeric_limits<T>::quiet_NaN());
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS)
    refuse(fmt::format("is {}, a number was expected", kind_name(value)));
  const auto rounded = static_cast<T>(number);
  if (!std::isfinite(rounded)) {
    refuse(fmt::format("is {:g}, which {} does not hold", number, to_string(info_.type)));
  }
  append(array_.data, rounded);
}

template <typename T>
void InputReader::append_integer(JsonValue value) {
  int64_t integer = 0;
  if (double number = 0;
      !value.is_int64() && value.get(number) == simdjson::SUCCESS && number == std::trunc(number)) {
    refuse(fmt::format("is {:g}; {} takes whole numbers of its range, written without a point",
                       number, to_string(info_.type)));
  }
  if (!value.is_int64() || value.get(integer) != simdjson::SUCCESS) {
    refuse(fmt::format("is {}, a whole number was expected", kind_name(value)));
  }
  if (integer < std::numeric_limits<T>::min() || integer > std::numeric_limits<T>::max()) {
    refuse(fmt::format("is {}, which {} does not hold", integer, to_string(info_.type)));
  }
  append(array_.data, static_cast<T>(integer));
}

int64_t InputReader::row_elements() const {
  int64_t elements = 1;
  for (size_t axis = 1; axis < lengths_.size(); ++axis) {
    if (!stated_[axis]) return -1;
    elements *= lengths_[axis];
  }
  return elements;
}

void InputReader::refuse(const std::string& what, const std::string& hint) const {
  std::string place = place_;
  for (const int64_t at : path_) place += fmt::format("[{}]", at);
  throw invalid_argument(
      fmt::format("{} {}; input '{}' is {}", place, what, name_, info_.describe()), hint);
}

}  // namespace muster::inline v0_1::serve::internal
