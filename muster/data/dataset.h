// A Dataset describes an input pipeline: a source of elements and the transformations applied to
// it, as in tf.data. Thread safety: an immutable value; copies share the description. Functions
// given to map() may be called from threads of prefetch().
//
//   Dataset::from_tensor_slices(Element::tuple({images, labels}))
//       .shuffle(10000).repeat(3).batch(64).map(to_float).prefetch();
//
// The order is a pure function of (seed, epoch, index): threads, batch sizes and replicas do not
// change it. An element is known by its source index and the epoch it is read in; nothing is drawn
// from a global generator. Behind a source that can be read by index, what stands before the first
// batch() is run on integers: rows are copied once, into the batch that needs them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/element_reader.h"
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
// As many calls at once as this task has cores.
inline constexpr int64_t kAutotune = -1;

// Options of Dataset::shuffle().
struct ShuffleOptions {
  std::optional<uint64_t> seed;  // the iterator's when unset
  bool reshuffle_each_iteration = true;
};

// How the data is divided between the workers of a cluster, each of which runs the pipeline.
enum class AutoShardPolicy {
  kOff = -1,  // every worker reads everything, in an order of its own: an epoch is as many passes
  kAuto = 0,  // kFile where the pipeline begins with files, else kData
  kFile = 1,  // each worker reads files of its own
  kData = 2,  // each worker takes rows of its own; what has no index is read by all
};
// "AUTO", "FILE", "DATA" or "OFF".
std::string_view to_string(AutoShardPolicy policy);

// Options of a whole pipeline, for Dataset::with_options().
struct DatasetOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
};

// Options of Dataset::batch() and global_batch().
struct BatchOptions {
  bool drop_remainder = false;  // drops the last round unless it is full on every replica
};

// Options of Dataset::padded_batch(). Values are those of the element in the order describe()
// shows.
struct PaddingOptions {
  std::vector<Shape>
      padded_shapes;  // one for each value; -1: the largest of the batch; none: all -1
  std::vector<double> padding_values;  // one for each value; none: 0. Strings are padded with ""
  bool drop_remainder = false;
};

// Options of Dataset::map().
struct MapOptions {
  std::string name;  // how errors call this map
  // Calls of the function at once, on threads of the pipeline's own; kAutotune: the task's cores.
  int64_t num_parallel_calls = 1;
  // Elements come in the input's order. Without it they come as they are ready, on several threads,
  // and two runs may differ; where a stage behind reads elements again (shuffle, cache, unbatch,
  // rebatch, interleave, shard) or divides them between replicas, they keep the order all the same.
  bool deterministic = true;
};

// Options of Dataset::interleave().
struct InterleaveOptions {
  std::string name;          // how errors call it
  int64_t cycle_length = 1;  // data sets open at once
  int64_t block_length = 1;  // elements of each in turn
  // Reads each open data set ahead on a thread of its own. The order is the same.
  bool parallel = false;
};

// Options of Dataset::list_files().
struct ListFilesOptions {
  bool shuffle = true;           // in another order each pass
  std::optional<uint64_t> seed;  // of that; the iterator's when unset
};

class Dataset {
 public:
  // What map() calls for each element.
  using MapFunction = std::function<Element(const Element&)>;
  // The same, with a key for random numbers of its own.
  using KeyedMapFunction = std::function<Element(const Element&, RandomKey)>;
  // What filter() asks of each element.
  using Predicate = std::function<bool(const Element&)>;
  // What flat_map() and interleave() make of each element.
  using FlatMapFunction = std::function<Dataset(const Element&)>;
  // Gives the next element, or nothing at the end.
  using Generator = std::function<std::optional<Element>()>;

  // One element per row of axis 0. Throws InvalidArgument for scalars, for an element without
  // values, and for unequal first dimensions (naming both). Tensors are made contiguous once; the
  // data set keeps them, so do not write to them.
  static Dataset from_tensor_slices(Element element);
  // A single element.
  static Dataset from_tensors(Element element);
  // int64 scalars 0 … n-1.
  static Dataset range(int64_t n);
  // int64 scalars start, start + step, … before stop. Throws InvalidArgument for a step of 0.
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1);
  // The elements of a Source, by index.
  static Dataset from_source(std::shared_ptr<const Source> source);
  // The elements of a SequentialSource, in its order.
  static Dataset from_sequential(std::shared_ptr<const SequentialSource> source);
  // The elements of the files, one file after another. Plain paths or URIs; a file that does not
  // open is an error at its place. Throws InvalidArgument for an empty path.
  static Dataset from_files(std::vector<std::string> files,
                            std::shared_ptr<const FileFormat> format);
  // What a generator gives; `make` is called at the beginning of every pass, so that each is made
  // anew. A saved position is found again by counting: `make` must give the same elements again.
  static Dataset from_generator(std::function<Generator()> make);
  // The paths that match, as string scalars; "*", "?" and "[a-z]" within any part of the path,
  // which may be a URI. Throws NotFound naming the pattern when nothing matches.
  static Dataset list_files(const std::vector<std::string>& patterns,
                            const ListFilesOptions& options = {});
  // Row i of every data set, as a tuple, or as a dict; as many as the shortest has.
  static Dataset zip(std::vector<Dataset> datasets);
  static Dataset zip(std::vector<std::pair<std::string, Dataset>> datasets);

  // The first n elements; -1: all. Behind a batch() that is divided between replicas, n rounds.
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
  // batch(), with every value padded to one shape. Throws InvalidArgument, at its place, for values
  // that padding cannot make equal, Corrupt for one larger than a padded shape asked for.
  Dataset padded_batch(int64_t size, const PaddingOptions& options = {}) const;
  // The rows of batches, one by one.
  Dataset unbatch() const;
  // The rows of batches in batches of other sizes: sizes[0], sizes[1], … and again. A size of 0
  // gives a batch without rows. Throws InvalidArgument for a negative size, and unless one is above
  // 0.
  Dataset rebatch(std::vector<int64_t> sizes, const BatchOptions& options = {}) const;
  // fn(element), one to one, called without autograd. The fastest place is after batch(), on whole
  // batches; there, under sharding, fn also sees batches of zero rows.
  Dataset map(MapFunction fn, const MapOptions& options = {}) const;
  // fn(element, key): the key is derived from (seed, which map, epoch, source index of the
  // element), after a batch() from the position of the batch's first row instead.
  Dataset map(KeyedMapFunction fn, const MapOptions& options = {}) const;
  // Reads up to n elements ahead on a thread of its own, and no more than 256 MiB; 0 does nothing.
  // Before a batch() it reads whole batches ahead where only integers flow there. An iterator that
  // goes away waits until the element being read is there.
  Dataset prefetch(int64_t n = 2) const;
  // Elements for which `fn` is true.
  Dataset filter(Predicate fn, const std::string& name = "") const;
  // (start + position, element).
  Dataset enumerate(int64_t start = 0) const;
  // These elements, then those of the other.
  Dataset concatenate(const Dataset& other) const;
  // The elements of fn(element), one data set after another.
  Dataset flat_map(FlatMapFunction fn, const std::string& name = "") const;
  // The same with several data sets open at once: block_length elements of each in turn; the place
  // of one that ends is taken by the next when its turn comes. Throws InvalidArgument for lengths
  // below 1.
  Dataset interleave(FlatMapFunction fn, const InterleaveOptions& options = {}) const;
  // Keeps the elements of the first whole pass for those that follow: in memory, or in the file
  // `path`, which later runs read too. A pass with an error in it is not kept in a file. Behind a
  // batch() that is divided between replicas, or with files divided between workers, each has a
  // file of its own, "<path>.<index>-of-<n>"; with a shard() by hand give each a path of its own. A
  // file that another pipeline wrote is an InvalidArgument at the first element.
  Dataset cache(const std::string& path = "") const;
  // Leaves out elements that are errors: each takes one place less. Of 100,000 errors in a row the
  // last is handed on.
  Dataset ignore_errors(bool log_warning = false) const;
  // Says how many elements there are, where it cannot be told. One that turns out wrong is an error
  // at its place; throws InvalidArgument where it is known to be.
  Dataset assert_cardinality(int64_t expected) const;

  // The same elements, with options that say how the pipeline is run; those set last count.
  Dataset with_options(const DatasetOptions& options) const;

  // Those set last, or the defaults.
  DatasetOptions options() const;
  // The number of elements one unsharded iterator gives, kInfinite or kUnknown.
  int64_t cardinality() const;
  // Whether a shard() is part of the pipeline: then it must not be sharded again.
  bool hand_sharded() const;
  // "slices(60000) > shuffle(10000) > repeat > batch(64)"
  std::string describe() const;
  // Lines that say how each stage runs: on indices or on values, on which threads, in what memory.
  std::string explain() const;

  // Throws InvalidArgument for a replica outside of [0, num_replicas), and for several replicas
  // without a batch(), or with global batches of a pipeline that ends with rebatch().
  std::unique_ptr<Iterator> iterator(const IteratorOptions& options = {}) const;

  // --- for muster/data ---
  explicit Dataset(std::shared_ptr<const data::internal::Node> node) : node_(std::move(node)) {}
  const std::shared_ptr<const data::internal::Node>& node() const { return node_; }

 private:
  std::shared_ptr<const data::internal::Node> node_;
};

}  // namespace muster::inline v0_1
