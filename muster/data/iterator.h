// An Iterator runs a Dataset: it hands out elements in order, and its position can be saved and
// restored at any element. Thread safety: one thread uses it (prefetch() brings threads of its
// own).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/data/sharding.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// What the order of elements depends on besides the data set.
struct IteratorOptions {
  uint64_t seed = 0;  // of shuffles without a seed of their own and of keyed maps
  Sharding sharding{};
  // The number of this pass over the data, from 0: it reads what the pass of that number of a
  // repeat() reads, in an order of its own.
  int64_t pass = 0;
};

// Where an iterator stands, for logs such as "continuing at epoch 2, sample 1280". It counts
// elements before the last batch(), over all replicas.
struct Position {
  int64_t epoch = 0;
  int64_t element_in_epoch = 0;
  int64_t elements_total = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

// The time that one stage of a pipeline took.
struct StageTime {
  std::string stage{};   // "map 'decode'"
  Seconds time{};        // without the stages before it; of prefetch(): waiting for them
  int64_t elements = 0;  // handed on
};

// Names the stages that took longest, at most `most`: "map 'decode' 12.1 s, tfrecord(4 files) 1.2
// s".
MUSTER_EXPORT std::string describe_longest(std::vector<StageTime> times, size_t most);

class MUSTER_EXPORT Iterator {
 public:
  virtual ~Iterator() = default;

  // Gives the next element; nothing at the end, and at every call after it. An error (of a map
  // function, or of shapes that do not fit into one batch) is thrown at its place in the order; the
  // next call goes on after it.
  virtual std::optional<Element> next() = 0;
  // The same, with the result in `*out`; false at the end.
  [[deprecated("next() gives an optional")]] bool next(Element* out) {
    std::optional<Element> element = next();
    if (element) *out = *std::move(element);
    return element.has_value();
  }

  // Returns the position behind the last element that next() gave, whatever prefetch has read
  // ahead. It holds counts and places in files, a few hundred bytes, the state of a scan(), and
  // never the content of a buffer. It is the same on all replicas, and can be restored with another
  // number of replicas and another batch size.
  virtual nlohmann::json save() const = 0;

  // Continues at a saved position with the seed saved in it. Batch sizes, replicas, the counts of
  // repeat() and take(), maps and prefetches may have changed since; but what comes before a
  // shuffle() must keep its size, and a shuffle() behind batch() needs the same batch size and
  // replicas: its elements are batches. What a shuffle, a cache, a window or a unique() held is
  // read again. Throws InvalidArgument when the position belongs to another pipeline; the message
  // names the difference, and nothing has changed.
  virtual void restore(const nlohmann::json& state) = 0;

  virtual Position position() const = 0;

  // How many more elements next() gives, or kInfinite. It is kUnknown where the number cannot be
  // told: with a take(), a skip() or a shard(), and where batches are shuffled, repeated or batched
  // again.
  virtual int64_t remaining() const = 0;

  // The time that each stage has taken so far, from the source on, over all threads.
  virtual std::vector<StageTime> times() const = 0;
};

}  // namespace muster::inline v0_1
