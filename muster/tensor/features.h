// What model_fn sees of an input element: views by name.
// Thread safety: values; concurrent reads are safe.
#pragma once

#include <string>
#include <vector>

#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// A single value, or a dict of values. Shared by Features and Labels, which differ only in name.
class ElementView {
 public:
  ElementView() = default;
  explicit ElementView(Element element) : element_(std::move(element)) {}

  // The tensor named `key`. Throws NotFound listing the keys (with kinds and shapes) there are,
  // InvalidArgument when the entry is not a tensor.
  const Tensor& operator[](const std::string& key) const;
  // The value named `key`, of any kind. Throws NotFound as above.
  const Value& value(const std::string& key) const;
  // The one tensor there is, when the element is not a dict (or a dict of one entry). Throws
  // InvalidArgument otherwise.
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }  // NOLINT(google-explicit-constructor)

  // Whether there is an entry of that name; false when it is no dict.
  bool contains(const std::string& key) const;
  std::vector<std::string> keys() const;
  // False when the input function gave none (labels in prediction).
  bool defined() const { return !element_.values().empty(); }
  // Rows of the batch, 0 when undefined.
  int64_t rows() const;
  const Element& element() const { return element_; }

 private:
  Element element_;
};

// What a model function predicts from.
class Features : public ElementView {
 public:
  using ElementView::ElementView;
};

// What it should have predicted.
class Labels : public ElementView {
 public:
  using ElementView::ElementView;
};

}  // namespace muster::inline v0_1
