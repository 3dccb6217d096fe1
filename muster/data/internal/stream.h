// Streams are the parts of an iterator; each pulls from the one before it. Streams before the first
// batch() carry indices, streams after it carry values; take, skip, shard, shuffle and repeat are
// written once for both. Thread safety: a stream belongs to one thread at a time; position() and
// identity() read only constants and may be called while another thread reads the stream. No
// LibTorch in this header.
#pragma once

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>

#include "muster/data/internal/iterator_state.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::data::internal {

using nlohmann::json;

template <typename T>
class Stream {
 public:
  virtual ~Stream() = default;

  // Back to the beginning, as pass number `run` (0 for the first; every pass has a number of its
  // own).
  virtual void start(int64_t run) = 0;
  // Up to `count` elements; fewer only at the end.
  virtual int64_t read(T* out, int64_t count) = 0;
  // Passes over up to `count` elements; fewer only at the end. The first of them that is a DataLost
  // (stream_element.h) goes into `*lost`, unless `*lost` is set already; a stage that skips
  // elements hands it on in place of one. A null pointer: the elements were skipped before and are
  // skipped again.
  virtual int64_t skip(int64_t count, std::exception_ptr* lost) = 0;
  // Number of examples in one element, over all replicas: 1 before batch().
  virtual int64_t examples_per_element() const = 0;

  // Appends the position after the last element read.
  virtual void save(IteratorState& saved) const = 0;
  virtual Position position(IteratorStateReader& saved) const = 0;
  // The part of a saved position that must agree for it to belong here.
  virtual json identity() const = 0;
  // Continues at the result of save(). REQUIRES: identity() agrees. Throws InvalidArgument for
  // impossible numbers.
  virtual void restore(IteratorStateReader& saved, int64_t run) = 0;
};

}  // namespace muster::inline v0_1::data::internal
