// Messages of protobuf, field by field: the common part of readers and writers of events. A field's
// name is an enum of the message it belongs to, with its number. Thread safety: values.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/wire.h"

namespace muster::inline v0_1::formats::internal {

// Writes a message.
template <typename Field>
class Builder {
 public:
  // A text, bytes, or a message that is encoded already.
  void put_bytes(Field field, std::string_view bytes) {
    append_field(out_, static_cast<uint32_t>(field), bytes);
  }
  // An integer, a bool or an enum.
  void put_varint(Field field, int64_t number) {
    append_tag(out_, {static_cast<uint32_t>(field), WireType::kVarint});
    append_varint(out_, static_cast<uint64_t>(number));
  }
  void put_fixed(Field field, float number) { fixed(field, WireType::kFixed32, number); }
  void put_fixed(Field field, double number) { fixed(field, WireType::kFixed64, number); }
  void put_fixed(Field field, uint32_t number) { fixed(field, WireType::kFixed32, number); }

  // A missing field reads as "" or 0, so these values are left out; -0 is another number.
  void add_bytes(Field field, std::string_view bytes) {
    if (!bytes.empty()) put_bytes(field, bytes);
  }
  void add_varint(Field field, int64_t number) {
    if (number != 0) put_varint(field, number);
  }
  void add_fixed(Field field, float number) {
    if (std::bit_cast<uint32_t>(number) != 0) put_fixed(field, number);
  }
  void add_fixed(Field field, double number) {
    if (std::bit_cast<uint64_t>(number) != 0) put_fixed(field, number);
  }
  void add_packed(Field field, const std::vector<double>& numbers) {
    add_bytes(field, text_of(std::as_bytes(std::span(numbers))));
  }

  // The bytes written so far; take() leaves the builder empty.
  const std::string& bytes() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  template <typename Number>
  void fixed(Field field, WireType type, Number number) {
    append_tag(out_, {static_cast<uint32_t>(field), type});
    append_little_endian(out_, number);
  }

  std::string out_;
};

// Reads a message from front to back; fields that no read() takes are skipped. All throw Corrupt if
// the bytes are not a message.
template <typename Field>
class Message {
 public:
  Message() = default;
  explicit Message(Bytes bytes) : left_(bytes) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (waits_) check(left_.skip(tag_));
    waits_ = !left_.done();
    if (waits_) check(left_.tag(&tag_));
    return waits_;
  }

  // Takes the value if the field is `field` and is written as values of this type are; else leaves
  // `to` unchanged, and returns false.
  bool read(Field field, Bytes* to) {
    if (!take(field, WireType::kBytes)) return false;
    check(left_.bytes(to));
    return true;
  }
  bool read(Field field, std::string* to) {
    Bytes bytes;
    if (!read(field, &bytes)) return false;
    to->assign(text_of(bytes));
    return true;
  }
  template <typename Inner>
  bool read(Field field, Message<Inner>* to) {
    Bytes bytes;
    if (!read(field, &bytes)) return false;
    *to = Message<Inner>(bytes);
    return true;
  }
  template <typename Number>
  bool read(Field field, Number* to) {
    if constexpr (std::is_floating_point_v<Number>) {
      if (!take(field, sizeof(Number) == 4 ? WireType::kFixed32 : WireType::kFixed64)) return false;
      check(left_.fixed(to));
    } else {
      uint64_t number = 0;
      if (!take(field, WireType::kVarint)) return false;
      check(left_.varint(&number));
      *to = static_cast<Number>(number);
    }
    return true;
  }
  // An integer of four bytes.
  bool read_fixed(Field field, uint32_t* to) {
    if (!take(field, WireType::kFixed32)) return false;
    check(left_.fixed(to));
    return true;
  }
  // Repeated numbers come packed into one field or one by one.
  template <typename Number>
  void read_all(Field field, std::vector<Number>* to) {
    Number number{};  // GCC does not see that read() sets it
    Bytes packed;
    if (read(field, &number)) {
      to->push_back(number);
    } else if (read(field, &packed) && !packed.empty()) {
      check(packed.size() % sizeof(Number) == 0);
      const size_t held = to->size();
      to->resize(held + packed.size() / sizeof(Number));
      std::memcpy(to->data() + held, packed.data(), packed.size());
    }
  }

  // Goes on to the next `field` of this type, and takes it; false when there is none.
  template <typename Value>
  bool find(Field field, Value* to) {
    while (next()) {
      if (read(field, to)) return true;
    }
    return false;
  }

 private:
  static void check(bool good) {
    if (!good) throw corrupt("a field is cut short, or written as no field is");
  }
  bool take(Field field, WireType type) {
    if (!waits_ || !tag_.is(static_cast<uint32_t>(field), type)) return false;
    waits_ = false;
    return true;
  }

  WireReader left_;
  WireTag tag_;
  bool waits_ = false;  // whether the value after tag_ is still to be read
};

// How many fields of this number a message has with a length in front: memory is taken for as many,
// and not for twice as many.
template <typename Field>
size_t count_fields(Message<Field> from, Field field) {
  size_t count = 0;
  for (Bytes bytes; from.find(field, &bytes);) ++count;
  return count;
}

// TensorFlow's TensorShapeProto.
enum class ShapeField : uint32_t { kDimension = 2 };  // repeated
enum class DimensionField : uint32_t { kSize = 1 };   // int64

inline std::string encode_shape(const std::vector<int64_t>& shape) {
  Builder<ShapeField> to;
  for (const int64_t size : shape) {
    Builder<DimensionField> dimension;
    dimension.add_varint(DimensionField::kSize, size);
    to.put_bytes(ShapeField::kDimension, dimension.bytes());
  }
  return to.take();
}

inline std::vector<int64_t> decode_shape(Message<ShapeField> from) {
  std::vector<int64_t> shape;
  for (Message<DimensionField> dimension; from.find(ShapeField::kDimension, &dimension);) {
    shape.push_back(0);
    while (dimension.find(DimensionField::kSize, &shape.back())) {
    }
  }
  return shape;
}

}  // namespace muster::inline v0_1::formats::internal
