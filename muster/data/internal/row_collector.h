// Elements on their way into one batch: each is copied to its row as soon as it is ready, while the
// caches still hold it, and its memory serves the next. Thread safety: put() of different rows may
// be called from several threads.
#pragma once

#include <atomic>
#include <vector>

#include "muster/data/internal/batch_memory.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data::internal {

class RowCollector {
 public:
  // For `rows` elements like `first`, which is not put, in memory of `memory`. REQUIRES: rows >= 1.
  RowCollector(const Element& first, int64_t rows, BatchMemory& memory);

  void put(int64_t row, Element element);
  // The batch. REQUIRES: every row was put. Throws the errors of Element::stack() for elements that
  // make no batch.
  Element join();

 private:
  // Copies the tensors of `element` to their row; false if one does not fit.
  bool copy(int64_t row, const Element& element);

  const Element first_;
  std::vector<Tensor> batches_;  // by value; undefined for strings
  std::vector<Element> kept_;    // rows with strings, and rows that do not fit
  std::vector<char> fits_;       // by row
  bool all_tensors_ = true;
  std::atomic<bool> all_fit_{true};
};

}  // namespace muster::inline v0_1::data::internal
