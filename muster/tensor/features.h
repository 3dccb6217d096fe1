// A model function sees the values of an input element by name.
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

  // Gives the tensor named `key`. Throws NotFound, with a list of the keys, kinds and shapes there
  // are, and InvalidArgument when the entry is not a tensor.
  const Tensor& operator[](const std::string& key) const;
  // Gives the value named `key`, of any kind. Throws NotFound as above.
  const Value& value(const std::string& key) const;
  // Gives the one tensor of an element that is not a dict, or that is a dict of one entry. Throws
  // InvalidArgument for others.
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor)

  // Tells whether there is an entry of that name. It is false when the element is no dict.
  bool contains(const std::string& key) const;
  std::vector<std::string> keys() const;
  // It is false when the input function gave nothing, as it does for labels in prediction.
  bool defined() const { return !element_.values().empty(); }
  // Gives the rows of the batch, and 0 when the view is undefined.
  int64_t rows() const;
  const Element& element() const { return element_; }

 private:
  Element element_;
};

// A model function predicts from these.
class Features : public ElementView {
 public:
  using ElementView::ElementView;
};

// A model function should have predicted these.
class Labels : public ElementView {
 public:
  using ElementView::ElementView;
};

}  // namespace muster::inline v0_1
