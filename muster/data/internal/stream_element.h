// A StreamElement: an element on its way through the pipeline. Thread safety: a value; two that are
// rows of one block may be used on two threads.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/internal/data_lost.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/source_index.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

// An element, or why there is none. A failing stage does not throw: the error travels in the
// StreamElement, so that it reaches the user at its place in the order, through shuffles and
// threads, and every saved position stays a plain count.
struct StreamElement {
  Element element;
  // When set, `element` is not made yet: it is row `row` of this block, which was read at once.
  std::shared_ptr<Element> block;
  int64_t row = 0;
  Place from;
  std::exception_ptr error;

  // Makes `element`, if it is still a row of the block.
  void settle();
  // The element, or the block it is a row of: both have the same structure and dtypes.
  const Element& content() const { return block == nullptr ? element : *block; }
};

// Prepares an element that a stage keeps for long: a large row leaves its block, which would stay
// in memory as long as the last of its rows. Returns the bytes of the element.
uint64_t hold(StreamElement& item);
inline void become_error(StreamElement& item, std::exception_ptr error) {
  item = {};
  item.error = std::move(error);
}

// For stages that are written once for elements and for their indices: reading an index never
// fails.
inline std::exception_ptr error_of(const StreamElement& item) { return item.error; }
inline std::exception_ptr error_of(const SourceIndex&) { return nullptr; }

// The element with version counters of its own: rows of a block share a counter, and a write to one
// would seem to have changed the others.
Element unversioned(const Element& element);

// The exception being handled, as an Error to put into a StreamElement, which names `stage` unless
// that is empty. A DataLost stays one.
std::exception_ptr current_failure(const std::string& stage = "");

// The same error, which also names the data set of the element: "what flat_map makes of …".
std::exception_ptr with_origin(const std::exception_ptr& error, const std::string& origin);

// Empties the elements when it goes out of scope.
struct EmptiedAtEnd {
  std::span<StreamElement> items;
  ~EmptiedAtEnd() {
    for (StreamElement& item : items) item = {};
  }
};

// Moves the values out of the elements. REQUIRES: none is an error.
std::vector<Element> take_elements(std::span<StreamElement> items);

// Throws the first error among the elements, and empties them all.
void rethrow_first(std::span<StreamElement> items);

// The bytes of all values of an element.
uint64_t size_in_bytes(const Element& element);
// The same; a row counts its share of the block.
uint64_t size_in_bytes(const StreamElement& item);

}  // namespace muster::inline v0_1::data::internal
