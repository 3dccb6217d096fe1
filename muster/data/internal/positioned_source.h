// Sources whose readers have positions of their own, as texts. Thread safety: as the base classes.
#pragma once

#include <string>

#include "muster/data/element_reader.h"

namespace muster::inline v0_1::data::internal {

class PositionedReader : public ElementReader {
 public:
  // Returns the position of the next element.
  virtual std::string save() const = 0;
  // Continues at a position that save() returned.
  virtual void restore(const std::string& position) = 0;
};

// Data whose readers are, if open() can make them so, PositionedReaders.
class PositionedSource : public SequentialSource {
 public:
  // Whether elements come once: restore() does not find the elements before a position, and the
  // elements that come next continue the run.
  virtual bool live() const { return false; }
};

}  // namespace muster::inline v0_1::data::internal
