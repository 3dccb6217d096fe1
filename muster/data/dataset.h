// A Dataset describes an input pipeline: a source of elements and the transformations applied to
// it, as in tf.data. Thread safety: an immutable value; copies share the description. Functions
// given to map() may be called from threads of prefetch().
//
//   Dataset::from_tensor_slices(Element::tuple({images, labels}))
//       .shuffle(10000).repeat(3).batch(64).map(to_float).prefetch();
//
// The order is a pure function of (seed, epoch, index): threads, batch sizes and replicas do not
// change it. An element is known by its source index and the epoch it is read in; nothing is drawn
// from a global generator. What stands before the first batch() is run on integers: rows are copied
// once, into the batch that needs them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/iterator.h"
#include "muster/data/source.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

namespace data::internal {
struct Node;
}

// What cardinality() gives for data without end, and where it cannot be told.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknown = -2;

// Options of Dataset::shuffle().
struct ShuffleOptions {
  std::optional<uint64_t> seed;  // the iterator's when unset
  bool reshuffle_each_iteration = true;
};

// Options of Dataset::batch() and global_batch().
struct BatchOptions {
  bool drop_remainder = false;  // drops the last round unless it is full on every replica
};

// Options of Dataset::map().
struct MapOptions {
  std::string name;  // how errors call this map
};

class Dataset {
 public:
  // What map() calls for each element.
  using MapFunction = std::function<Element(const Element&)>;
  // The same, with a key for random numbers of its own.
  using KeyedMapFunction = std::function<Element(const Element&, RandomKey)>;

  // One element per row of axis 0. Throws InvalidArgument for scalars, for an element without
  // values, and for unequal first dimensions (naming both). Tensors are made contiguous once; the
  // data set keeps them, so do not write to them.
  static Dataset from_tensor_slices(Element element);
  // A single element.
  static Dataset from_tensors(Element element);
  // int64 scalars 0 … n-1.
  static Dataset range(int64_t n);
  // The elements of a Source, by index.
  static Dataset from_source(std::shared_ptr<const Source> source);

  // The first n elements; -1: all. After a batch() that deals to several replicas, n rounds.
  Dataset take(int64_t n) const;
  // All but the first n elements; -1 skips everything.
  Dataset skip(int64_t n) const;
  // Elements whose position p has p % num_shards == index. Throws InvalidArgument unless 0 <= index
  // < num_shards.
  Dataset shard(int64_t num_shards, int64_t index) const;
  // `count` passes over the data, -1 without end (which still ends when a pass gives nothing).
  Dataset repeat(int64_t count = -1) const;
  // Draws each element from a window of `buffer_size`: output i is one of the first i + buffer_size
  // inputs. A buffer that covers the data set gives a uniform permutation. Every pass of a repeat()
  // behind it has another order.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;
  // `size` elements joined along a new axis 0; the last batch may be smaller. Under sharding `size`
  // is per replica. Throws InvalidArgument for a size below 1 or above 2^31 - 1; iterator() throws
  // it for rows that do not fit into the memory of this machine.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  // `size` elements over all replicas in sync: each gets the floor or ceiling of its share, the
  // first ones more. The same as batch(size) for one replica.
  Dataset global_batch(int64_t size, const BatchOptions& options = {}) const;
  // fn(element), one to one, called without autograd. The fastest place is after batch(), on whole
  // batches; there, under sharding, fn also sees batches of zero rows.
  Dataset map(MapFunction fn, const MapOptions& options = {}) const;
  // fn(element, key): the key is derived from (seed, which map, epoch, source index of the
  // element), after a batch() from the position of the batch's first row instead.
  Dataset map(KeyedMapFunction fn, const MapOptions& options = {}) const;
  // Reads up to n elements ahead on a thread of its own; 0 does nothing. Before a batch() it reads
  // whole batches ahead, since only integers flow there.
  Dataset prefetch(int64_t n = 2) const;

  // The number of elements one unsharded iterator gives, kInfinite or kUnknown.
  int64_t cardinality() const;
  // Whether a shard() is part of the pipeline: then it must not be sharded again.
  bool hand_sharded() const;
  // "slices(60000) > shuffle(10000) > repeat > batch(64)"
  std::string describe() const;

  // Throws InvalidArgument for a replica outside of [0, num_replicas), and for several replicas
  // without a batch().
  std::unique_ptr<Iterator> iterator(const IteratorOptions& options = {}) const;

 private:
  explicit Dataset(std::shared_ptr<const data::internal::Node> node) : node_(std::move(node)) {}

  std::shared_ptr<const data::internal::Node> node_;
};

}  // namespace muster::inline v0_1
