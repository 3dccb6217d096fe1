// The kinds of an element's values: its structure, and of each value the dtype, or that it is
// strings. Shapes do not count. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/error.h"
#include "muster/data/source.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

// An element of the same kinds that holds no data.
Element kinds_of(const Element& element);
bool same_kinds(const Element& a, const Element& b);
// "({image: float32}, int64)"
std::string describe_kinds(const Element& element);

// The error of a data set whose elements are of other kinds than the elements before them.
Error unequal_kinds(const std::string& which, const Element& here, const Element& before);

// Throws InvalidArgument, naming the value, when the element holds an undefined tensor.
void check_defined(const Element& element);

// A source that declares the kinds of its elements before one is read.
class TypedSource : public Source {
 public:
  virtual Element kinds() const = 0;
};

}  // namespace muster::inline v0_1::data::internal
