// Access by name to the values of an input element, for model functions.
// Thread safety: values; concurrent reads are safe.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// A single value, or a dict of values. Shared by Features and Labels, which differ only in name.
class MUSTER_EXPORT ElementView {
 public:
  ElementView() = default;
  explicit ElementView(Element element) : element_(std::move(element)) {}

  // Returns the tensor named `key`. Throws NotFound, with a list of the existing keys, kinds and
  // shapes, and InvalidArgument when the entry is not a tensor.
  const Tensor& operator[](const std::string& key) const;
  // Returns the value named `key`, of any kind. Throws NotFound as above.
  const Value& value(const std::string& key) const;
  // Returns the tensor of an element that is not a dict, or of a dict with one entry. Throws
  // InvalidArgument for others.
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor)

  // Whether there is an entry of that name. False when the element is not a dict.
  bool contains(const std::string& key) const;
  std::vector<std::string> keys() const;
  // False when the input function gave nothing, as for labels in prediction.
  bool defined() const { return !element_.values().empty(); }
  // Returns the rows of the batch, and 0 when the view is undefined.
  int64_t rows() const;
  const Element& element() const { return element_; }

 private:
  Element element_;
};

// The inputs of a model function.
class Features : public ElementView {
 public:
  using ElementView::ElementView;
};

// The expected outputs of a model function.
class Labels : public ElementView {
 public:
  using ElementView::ElementView;
};

}  // namespace muster::inline v0_1
