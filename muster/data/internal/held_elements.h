// Elements that a stage has read and holds, and the data set of some of them. Thread safety:
// HeldElement is a value; HeldElements is a Source.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/internal/iterator_state.h"
#include "muster/data/internal/stream_element.h"
#include "muster/data/source.h"

namespace muster::inline v0_1::data::internal {

struct HeldElement {
  StreamElement item;
  IteratorState before;  // the input's position in front of it
  int64_t number = 0;    // among the elements of the pass
  uint64_t bytes = 0;
};

// The elements of a window, which functions of window() and group_by_window() get as a data set.
class HeldElements final : public Source {
 public:
  explicit HeldElements(std::vector<StreamElement> items);

  std::string kind() const override { return "window"; }
  int64_t size() const override { return static_cast<int64_t>(items_.size()); }
  // Throws the error in the element's place, if there is one.
  Element element(int64_t index) const override;

 private:
  std::vector<StreamElement> items_;
};

// The element in memory of its own.
Element copied(const Element& element);

}  // namespace muster::inline v0_1::data::internal
