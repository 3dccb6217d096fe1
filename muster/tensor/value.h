// What one entry of a data element can be: a Tensor or Strings (LibTorch has no string tensors).
// The list of kinds is open: sparse and ragged values join it, so callers ask for the kind they
// need and get an error otherwise. Thread safety: values; concurrent reads are safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// A dense array of byte strings: element i is bytes[offsets[i], offsets[i + 1]).
class Strings {
 public:
  Strings() = default;
  // One-dimensional.
  explicit Strings(const std::vector<std::string>& values);
  // `offsets` has one entry more than `shape` has elements; throws InvalidArgument otherwise.
  Strings(Shape shape, std::vector<int64_t> offsets, std::string bytes);

  const Shape& shape() const { return shape_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Element i, counted through all axes. Of a temporary it is a text of its own.
  std::string_view operator[](int64_t i) const&;
  std::string operator[](int64_t i) && { return std::string(std::as_const(*this)[i]); }

 private:
  Shape shape_{0};
  std::vector<int64_t> offsets_{0};
  std::string bytes_;
};

class Value {
 public:
  Value() = default;                                     // an undefined tensor
  Value(Tensor tensor) : data_(std::move(tensor)) {}     // NOLINT(google-explicit-constructor)
  Value(Strings strings) : data_(std::move(strings)) {}  // NOLINT(google-explicit-constructor)

  bool is_tensor() const { return std::holds_alternative<Tensor>(data_); }
  bool is_strings() const { return std::holds_alternative<Strings>(data_); }
  // The content; throws InvalidArgument when it is of another kind. Of a temporary it is a value of
  // its own: `const Strings& names = batch.at("names").value().strings();` holds.
  const Tensor& tensor() const&;
  Tensor tensor() &&;
  const Strings& strings() const&;
  Strings strings() &&;

  // Size of axis 0; throws InvalidArgument for a scalar.
  int64_t rows() const;
  // Rows [begin, end) of axis 0 (a view for tensors).
  Value slice(int64_t begin, int64_t end) const;
  // Row i with axis 0 removed.
  Value row(int64_t i) const;
  // The rows named by `indices`, in that order: [indices.size(), ...].
  Value gather(std::span<const int64_t> indices) const;
  // Values of equal kind, dtype and shape joined along a new axis 0; InvalidArgument shows the two
  // shapes that differ.
  static Value stack(const std::vector<Value>& values);
  // Joined along the existing axis 0.
  static Value concatenate(const std::vector<Value>& values);

  // "float32[64, 28, 28, 1]" or "string[64]".
  std::string describe() const;

 private:
  std::variant<Tensor, Strings> data_;
};

}  // namespace muster::inline v0_1
