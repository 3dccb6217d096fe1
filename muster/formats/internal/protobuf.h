// What the writers and readers of protobuf messages here have in common: protozero's types by short
// names, and fields that are left out where they hold the default. Thread safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_message.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::formats::internal {

// A builder inside a builder leaves out what stays empty; add_message() does not.
template <typename Field>
using Builder = protozero::pbf_builder<Field>;
template <typename Field>
using Message = protozero::pbf_message<Field>;

inline protozero::data_view view_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline Bytes bytes_in(protozero::data_view view) {
  return bytes_of(std::string_view(view.data(), view.size()));
}

// How many fields of this number a message has with a length in front: memory is taken for as many,
// and not for twice as many. Throws what protozero throws.
template <typename Field>
size_t count_fields(Message<Field> from, Field field) {
  size_t count = 0;
  while (from.next(field, protozero::pbf_wire_type::length_delimited)) {
    from.skip();
    ++count;
  }
  return count;
}

// A field that is not there reads as 0, so 0 is not written; -0 is another number.
template <typename Field>
void add_double(Builder<Field>& to, Field field, double value) {
  if (std::bit_cast<uint64_t>(value) != 0) to.add_double(field, value);
}

template <typename Field>
void add_number(Builder<Field>& to, Field field, int64_t value) {
  if (value != 0) to.add_int64(field, value);
}

template <typename Field>
void add_text(Builder<Field>& to, Field field, std::string_view text) {
  if (!text.empty()) to.add_bytes(field, text.data(), text.size());
}

// TensorFlow's TensorShapeProto.
enum class ShapeField : protozero::pbf_tag_type { kDimension = 2 };  // repeated
enum class DimensionField : protozero::pbf_tag_type { kSize = 1 };   // int64

inline std::string encode_shape(const std::vector<int64_t>& shape) {
  std::string bytes;
  Builder<ShapeField> to(bytes);
  for (const int64_t size : shape) {
    std::string dimension;
    Builder<DimensionField> to_size(dimension);
    add_number(to_size, DimensionField::kSize, size);
    to.add_message(ShapeField::kDimension, dimension);
  }
  return bytes;
}

inline std::vector<int64_t> decode_shape(Message<ShapeField> from) {
  using protozero::pbf_wire_type;
  std::vector<int64_t> shape;
  while (from.next(ShapeField::kDimension, pbf_wire_type::length_delimited)) {
    Message<DimensionField> dimension(from.get_message());
    int64_t size = 0;
    while (dimension.next(DimensionField::kSize, pbf_wire_type::varint))
      size = dimension.get_int64();
    shape.push_back(size);
  }
  return shape;
}

}  // namespace muster::inline v0_1::formats::internal
