// One entry of a data element is a Tensor or Strings, because LibTorch has no string tensors. More
// kinds may follow, such as sparse and ragged values, so callers ask for the kind they need and get
// an error for others. Thread safety: values; concurrent reads are safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// A dense array of byte strings: element i is bytes[offsets[i], offsets[i + 1]).
class MUSTER_EXPORT Strings {
 public:
  Strings() = default;
  // Makes a one-dimensional array.
  explicit Strings(const std::vector<std::string>& values);
  // Throws InvalidArgument unless `offsets` has one entry more than `shape` has elements.
  Strings(Shape shape, std::vector<int64_t> offsets, std::string bytes);
  // Makes a scalar: one text, without axes.
  static Strings scalar(std::string text);

  const Shape& shape() const { return shape_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Returns element i, counted over all axes. On a temporary object it returns a copy.
  std::string_view operator[](int64_t i) const&;
  std::string operator[](int64_t i) && { return std::string(std::as_const(*this)[i]); }

 private:
  Shape shape_{0};
  std::vector<int64_t> offsets_{0};
  std::string bytes_;
};

class MUSTER_EXPORT Value {
 public:
  Value() = default;                                     // an undefined tensor
  Value(Tensor tensor) : data_(std::move(tensor)) {}     // NOLINT(google-explicit-constructor)
  Value(Strings strings) : data_(std::move(strings)) {}  // NOLINT(google-explicit-constructor)
  // A scalar string.
  Value(std::string text)  // NOLINT(google-explicit-constructor)
      : data_(Strings::scalar(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  Value(std::nullptr_t) = delete;                        // and 0, which would be one

  bool is_tensor() const { return std::holds_alternative<Tensor>(data_); }
  bool is_strings() const { return std::holds_alternative<Strings>(data_); }
  // Returns the content. Throws InvalidArgument when it is of another kind. On a temporary object
  // it returns a copy, so `const Strings& names = batch.at("names").value().strings();` stays
  // valid.
  const Tensor& tensor() const&;
  Tensor tensor() &&;
  const Strings& strings() const&;
  Strings strings() &&;

  // Returns the size of axis 0. Throws InvalidArgument for a scalar.
  int64_t rows() const;
  // Returns rows [begin, end) of axis 0; for a tensor this is a view.
  Value slice(int64_t begin, int64_t end) const;
  // Returns row i, without axis 0.
  Value row(int64_t i) const;
  // Returns the rows with these numbers, in this order: [indices.size(), ...].
  Value gather(std::span<const int64_t> indices) const;
  // Joins values of one kind, dtype and shape along a new axis 0. Throws InvalidArgument with the
  // two shapes that differ.
  static Value stack(const std::vector<Value>& values);
  // Joins values along their axis 0.
  static Value concatenate(const std::vector<Value>& values);

  // "float32[64, 28, 28, 1]" or "string[64]".
  std::string describe() const;

 private:
  std::variant<Tensor, Strings> data_;
};

}  // namespace muster::inline v0_1
