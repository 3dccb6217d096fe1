// An Iterator runs a Dataset: it returns elements in order, and its position can be saved and
// restored at any element. Thread safety: one thread uses it (prefetch() has its own threads).
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

// What the order of elements depends on, in addition to the data set.
struct IteratorOptions {
  uint64_t seed = 0;  // for shuffles without a seed of their own and for keyed maps
  Sharding sharding{};
  // The number of this pass over the data, from 0: the iterator reads in the order of that pass of
  // a repeat().
  int64_t pass = 0;
};

// Where an iterator is, for logs such as "continuing at epoch 2, sample 1280". It counts elements
// before the last batch(), over all replicas.
struct Position {
  int64_t epoch = 0;
  int64_t element_in_epoch = 0;
  int64_t elements_total = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

// The time of one stage of a pipeline.
struct StageTime {
  std::string stage{};   // "map 'decode'"
  Seconds time{};        // without earlier stages; for prefetch(): the time it waited for them
  int64_t elements = 0;  // elements it returned
};

// Names the slowest stages, at most `most`: "map 'decode' 12.1 s, tfrecord(4 files) 1.2 s".
MUSTER_EXPORT std::string describe_longest(std::vector<StageTime> times, size_t most);

class MUSTER_EXPORT Iterator {
 public:
  virtual ~Iterator() = default;

  // Returns the next element; nothing at the end, and at every later call. An error (of a map
  // function, or of shapes that do not fit into one batch) is thrown at its position; the next call
  // continues after it.
  virtual std::optional<Element> next() = 0;
  // The same, with the result in `*out`; false at the end.
  [[deprecated("next() gives an optional")]] bool next(Element* out) {
    std::optional<Element> element = next();
    if (element) *out = *std::move(element);
    return element.has_value();
  }

  // Returns the position after the last element that next() returned, however far prefetch has read
  // ahead. It holds counts and offsets in files (a few hundred bytes) and the state of a scan(),
  // never the content of a buffer. It is the same on all replicas, and can be restored with another
  // number of replicas and another batch size.
  virtual nlohmann::json save() const = 0;

  // Continues at a saved position, with the seed saved in it. Batch sizes, replicas, the counts of
  // repeat() and take(), maps and prefetches may have changed since. The data before a shuffle()
  // must keep its size, and a shuffle() after batch() needs the same batch size and replicas,
  // because its elements are batches. Elements in the buffers of a shuffle, a cache, a window or a
  // unique() are read again. Throws InvalidArgument when the position belongs to another pipeline;
  // the message names the difference, and the iterator is unchanged.
  virtual void restore(const nlohmann::json& state) = 0;

  virtual Position position() const = 0;

  // Returns how many more elements next() will return, or kInfinite. It returns kUnknown when the
  // number is unknown: with a take(), a skip() or a shard(), and where batches are shuffled,
  // repeated or batched again.
  virtual int64_t remaining() const = 0;

  // Returns the time of each stage so far, in order from the source, summed over all threads.
  virtual std::vector<StageTime> times() const = 0;
};

}  // namespace muster::inline v0_1
