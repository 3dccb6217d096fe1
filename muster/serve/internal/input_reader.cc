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

std::string counted_values(int64_t count) {
  return fmt::format("{} value{}", count, count == 1 ? "" : "s");
}

}  // namespace

InputReader::InputReader(const JsonTape& tape, const std::string& name, const ArrayInfo& info)
    : tape_(tape), name_(name), info_(info), lengths_(info.shape) {
  if (info.shape.empty()) {
    throw internal_error(fmt::format("input '{}' has no axis for the batch", name));
  }
  array_.type = info.type;
  for (const int64_t length : info.shape) stated_.push_back(length >= 0);
  // The batch grows with what is read.
  lengths_.front() = 0;
}

void InputReader::read_rows(size_t index, const std::string& place) {
  place_ = place;
  path_.clear();
  if (tape_[index].kind != TokenKind::kArray) {
    refuse(fmt::format("is {}, a list of rows was expected", tape_.kind_name(index)));
  }
  lengths_.front() = tape_[index].count;
  read_list(index, 0);
}

void InputReader::read_row(size_t index, const std::string& place) {
  place_ = place;
  path_.clear();
  ++lengths_.front();
  read_axis(index, 1);
}

void InputReader::read_feature(size_t index, const std::string& place) {
  const bool list = tape_[index].kind == TokenKind::kArray;
  const int64_t elements = row_elements();
  const size_t rank = lengths_.size();
  const bool nested = list && tape_[index].count > 0 && tape_[index + 1].kind == TokenKind::kArray;
  if (elements < 0 || nested || (list && rank == 2) || (!list && elements != 1)) {
    return read_row(index, place);
  }
  place_ = place;
  path_.clear();
  ++lengths_.front();
  if (!list) return read_leaf(index);
  if (tape_[index].count != elements) {
    refuse(fmt::format("has {}, expected {}", counted_values(tape_[index].count), elements));
  }
  path_.push_back(0);
  for (size_t at = index + 1; at < tape_.behind(index); at = tape_.behind(at), ++path_.back()) {
    read_leaf(at);
  }
}

Array InputReader::take() {
  array_.shape = lengths_;
  // Lists that hold nothing say nothing of the axes below them.
  std::ranges::replace(array_.shape, -1, 0);
  return std::move(array_);
}

void InputReader::read_axis(size_t index, size_t axis) {
  if (axis == lengths_.size()) return read_leaf(index);
  if (tape_[index].kind != TokenKind::kArray) {
    if (axis == 1 && info_.may_be_bare && row_elements() == 1) return read_leaf(index);
    refuse(fmt::format("is {}, a list was expected", tape_.kind_name(index)));
  }
  const int64_t count = tape_[index].count;
  if (lengths_[axis] < 0) lengths_[axis] = count;
  if (lengths_[axis] != count) {
    refuse(fmt::format("has {}, expected {}{}", counted_values(count), lengths_[axis],
                       stated_[axis] ? "" : ", as in the lists before"));
  }
  read_list(index, axis);
}

void InputReader::read_list(size_t index, size_t axis) {
  const size_t end = tape_.behind(index);
  path_.push_back(0);
  for (size_t at = index + 1; at < end; at = tape_.behind(at)) {
    read_axis(at, axis + 1);
    ++path_.back();
  }
  path_.pop_back();
}

void InputReader::read_leaf(size_t index) {
  switch (info_.type) {
    case ElementType::kBool:
      if (tape_[index].kind != TokenKind::kBool) {
        refuse(fmt::format("is {}, true or false was expected", tape_.kind_name(index)));
      }
      return append(array_.data, tape_[index].truth);
    case ElementType::kUint8:
      return append_integer<uint8_t>(index);
    case ElementType::kInt8:
      return append_integer<int8_t>(index);
    case ElementType::kInt16:
      return append_integer<int16_t>(index);
    case ElementType::kInt32:
      return append_integer<int32_t>(index);
    case ElementType::kInt64:
      return append_integer<int64_t>(index);
    case ElementType::kFloat32:
      return append_float<float>(index);
    case ElementType::kFloat64:
      return append_float<double>(index);
    case ElementType::kBytes:
      return append_bytes(index);
  }
}

void InputReader::append_bytes(size_t index) {
  if (tape_[index].kind == TokenKind::kText) {
    array_.texts.emplace_back(tape_.text(tape_[index]));
    return;
  }
  if (tape_[index].kind == TokenKind::kNull && info_.may_be_missing) {
    array_.texts.emplace_back();
    return;
  }
  const bool object = tape_[index].kind == TokenKind::kObject && tape_[index].count == 1;
  if (!object || tape_.text(tape_[index + 1]) != "b64" ||
      tape_[index + 2].kind != TokenKind::kText) {
    refuse(
        fmt::format("is {}, a text or {{\"b64\": \"...\"}} was expected", tape_.kind_name(index)));
  }
  auto bytes = from_base64(tape_.text(tape_[index + 2]));
  if (!bytes) refuse("has a \"b64\" that is no base64 (A-Z, a-z, 0-9, + and /, padded with =)");
  array_.texts.push_back(*std::move(bytes));
}

template <typename T>
void InputReader::append_float(size_t index) {
  const Token& token = tape_[index];
  double number = 0;
  if (token.kind == TokenKind::kInteger) {
    number = static_cast<double>(token.integer);
  } else if (token.kind == TokenKind::kNumber) {
    number = token.number;
  } else if (token.kind == TokenKind::kNull && info_.may_be_missing) {
    return append(array_.data, std::numeric_limits<T>::quiet_NaN());
  } else {
    refuse(fmt::format("is {}, a number was expected", tape_.kind_name(index)));
  }
  const auto rounded = static_cast<T>(number);
  if (!std::isfinite(rounded)) {
    refuse(fmt::format("is {:g}, which {} does not hold", number, to_string(info_.type)));
  }
  append(array_.data, rounded);
}

template <typename T>
void InputReader::append_integer(size_t index) {
  const Token& token = tape_[index];
  if (token.kind == TokenKind::kNumber && token.number == std::trunc(token.number)) {
    refuse(fmt::format("is {:g}; {} takes whole numbers of its range, written without a point",
                       token.number, to_string(info_.type)));
  }
  if (token.kind != TokenKind::kInteger) {
    refuse(fmt::format("is {}, a whole number was expected", tape_.kind_name(index)));
  }
  if (token.integer < std::numeric_limits<T>::min() ||
      token.integer > std::numeric_limits<T>::max()) {
    refuse(fmt::format("is {}, which {} does not hold", token.integer, to_string(info_.type)));
  }
  append(array_.data, static_cast<T>(token.integer));
}

int64_t InputReader::row_elements() const {
  int64_t elements = 1;
  for (size_t axis = 1; axis < lengths_.size(); ++axis) {
    if (!stated_[axis]) return -1;
    elements *= lengths_[axis];
  }
  return elements;
}

void InputReader::refuse(const std::string& what) const {
  std::string place = place_;
  for (const int64_t at : path_) place += fmt::format("[{}]", at);
  throw invalid_argument(
      fmt::format("{} {}; input '{}' is {}", place, what, name_, info_.describe()));
}

}  // namespace muster::inline v0_1::serve::internal
