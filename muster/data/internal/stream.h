// What an iterator is made of: streams, each pulling from the one before it. Those before the first
// batch() carry Refs (integers), those after it carry Items (values); take, skip, shard, shuffle
// and repeat are written once for both. Thread safety: a stream belongs to one thread at a time;
// save(), position() and identity() read nothing that changes and may be called while another
// thread reads the stream. No LibTorch in this header.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::data::internal {

using nlohmann::json;

// An element before it is read: its index in the source and the pass over the source that gave it.
struct Ref {
  int64_t index = 0;
  int64_t run = 0;
};

// What all streams of one iterator share.
struct Run {
  uint64_t seed = 0;
  Sharding sharding;
  const void* dealing_node = nullptr;  // the batch that deals to the replicas
  std::atomic<bool> stopping{false};   // the iterator is going away: long loops end
};

// A position as plain numbers, written by mark() for every element that prefetch reads; JSON is
// made of it only when somebody saves.
using Marks = std::vector<int64_t>;

class MarkReader {
 public:
  explicit MarkReader(const Marks& marks) : marks_(marks) {}
  int64_t next() { return marks_[at_++]; }

 private:
  std::span<const int64_t> marks_;
  size_t at_ = 0;
};

template <typename T>
class Stream {
 public:
  virtual ~Stream() = default;

  // Back to the beginning, as pass number `run` (0 for the first; every pass has a number of its
  // own).
  virtual void start(int64_t run) = 0;
  // Up to `count` elements; fewer only at the end.
  virtual int64_t read(T* out, int64_t count) = 0;
  // Passes over up to `count` elements; fewer only at the end.
  virtual int64_t skip(int64_t count) = 0;
  // Examples one element stands for, over all replicas: 1 before batch().
  virtual int64_t examples_per_element() const = 0;

  virtual void mark(Marks& marks) const = 0;
  virtual Position position(MarkReader& marks) const = 0;
  // The part of a saved position that must agree for it to belong here.
  virtual json identity() const = 0;
  virtual json save(MarkReader& marks) const = 0;
  // REQUIRES: identity() agrees with `state`.
  virtual void restore(const json& state, int64_t run) = 0;
};

// A count in a saved position; throws InvalidArgument when it is missing, negative or no integer.
int64_t saved_count(const json& state, const char* key);
// Throws InvalidArgument naming the first difference when `saved` does not belong to the pipeline
// `here` describes.
void check_identity(const json& saved, const json& here);

}  // namespace muster::inline v0_1::data::internal
