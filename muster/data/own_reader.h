// Data sets over readers and tables that a program already has. Thread safety: pure functions; the
// functions that they are given are called as each comment says.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// A reader of your own, as functions. One thread at a time calls them; the thread may change.
struct OwnReader {
  // Returns the next element, or nothing at the end. What it throws is an error at this position;
  // the next call continues after it.
  std::function<std::optional<Element>()> next{};
  // Returns the position of the next element as a text. It is called before the first and after
  // each call of next(), also where nothing is saved: it should be cheap, and the text short. What
  // it throws is an error in place of the next element.
  std::function<std::string()> save{};
  // Continues at a position that save() of another reader returned. It is called before the first
  // next(). It throws if the data has no such position.
  std::function<void(const std::string&)> restore{};
};

// Reads the elements of a reader in their order. `make` is called at the beginning of each pass,
// possibly by several threads at once, and returns a new reader at the first element. restore() of
// an iterator makes a reader and gives it the saved position; nothing is read again. Without `save`
// and `restore` the position is found by counting, as for Dataset::from_generator(). Each worker
// reads everything and keeps its rows: a program whose reader of each worker reads other data calls
// shard(1, 0) on the data set. Throws InvalidArgument for an empty function; iterators throw it, at
// the first element, for a reader without `next`, and for one of `save` and `restore` alone.
MUSTER_EXPORT Dataset from_reader(std::function<OwnReader()> make);

// Whether the iterator for which this thread reads is being destroyed: the next element is not
// needed any more. A function of your own reader or generator that waits for data calls this from
// time to time. If it is true, the function throws an exception, which is dropped. False outside of
// such functions.
MUSTER_EXPORT bool reading_is_over();

// Makes elements of a table: element i, of `size`, is row(i). Several threads call `row` at once;
// the element has memory of its own. Throws InvalidArgument for a negative size or an empty
// function.
MUSTER_EXPORT Dataset from_rows(int64_t size, std::function<Element(int64_t)> row);

// Makes one element of each element of the list, such as batches that exist already: unbatch()
// and batch() after it make batches of another size, or for several replicas. Elements are copied
// when they are read.
MUSTER_EXPORT Dataset from_elements(std::vector<Element> elements);

}  // namespace muster::inline v0_1::data
