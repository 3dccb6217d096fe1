// A Dataset describes an input pipeline: a source of elements and the transformations applied to
// it, as in tf.data. Thread safety: an immutable value; copies share the description. Functions
// given to map() may be called from threads of prefetch().
//
//   Dataset::from_tensor_slices(Element::tuple({images, labels}))
//       .shuffle(10000).repeat(3).batch(64).map(to_float).prefetch();
//
// The order is a pure function of (seed, epoch, index): threads, batch sizes and replicas do not
// change it. An element is identified by its source index and its epoch; nothing draws from a
// global generator. If the source can be read by index, the stages before the first batch() run on
// integers: rows are copied once, into the batch that needs them. A pipeline may have at most 1000
// stages.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/data/element_reader.h"
#include "muster/data/iterator.h"
#include "muster/data/part_function.h"
#include "muster/data/source.h"
#include "muster/formats/compression.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

namespace data::internal {
struct DatasetAccess;
struct Node;
}

// cardinality() returns kInfinite for data without end, and kUnknown if the number is unknown.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknown = -2;
// Runs as many calls at once as this task has cores.
inline constexpr int64_t kAutotune = -1;

// Options of Dataset::shuffle().
struct ShuffleOptions {
  std::optional<uint64_t> seed{};  // the iterator's when unset
  bool reshuffle_each_iteration = true;
};

// How data is divided between the workers of a cluster. Each worker runs the whole pipeline.
enum class AutoShardPolicy {
  kOff = -1,  // each worker reads everything, in its own order: an epoch reads the data once per
              // worker
  // kFile if the pipeline begins with files and there are enough for all workers; else kData.
  kAuto = 0,
  kFile = 1,  // each worker reads its own files
  kData = 2,  // each worker takes its own rows; all workers read data without an index
  kHint = 3,  // each worker reads what shard(kShardHint, kShardHint) selects
};
// Placeholder for the number of workers and the index of this worker in shard(kShardHint,
// kShardHint); AutoShardPolicy::kHint replaces it.
inline constexpr int64_t kShardHint = -1;
// Returns "AUTO", "FILE", "DATA", "HINT" or "OFF".
MUSTER_EXPORT std::string_view to_string(AutoShardPolicy policy);

// Options of a whole pipeline, for Dataset::with_options().
struct DatasetOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
};

// Options of Dataset::batch() and global_batch().
struct BatchOptions {
  bool drop_remainder = false;  // drops the last round unless every replica has a full batch
};

// Options of Dataset::padded_batch(). Each list has one entry for each value of the element, in the
// order of describe().
struct PaddingOptions {
  std::vector<Shape>
      padded_shapes{};  // one for each value; -1: the largest of the batch; empty: all -1
  std::vector<double> padding_values{};  // one for each value; empty: 0. Strings are padded with ""
  bool drop_remainder = false;
};

// Options of Dataset::map().
struct MapOptions {
  std::string name{};  // the name of this map in errors
  // How many calls of the function run at once, on threads of the pipeline; kAutotune: one for each
  // core of the task.
  int64_t num_parallel_calls = 1;
  // True: elements come in the order of the input. False: they come as soon as they are ready, from
  // several threads, and two runs may differ. Elements keep their order in any case if a later
  // stage reads elements again (shuffle, cache, unbatch, rebatch, interleave, shard) or divides
  // them between replicas.
  bool deterministic = true;
};

// Options of Dataset::interleave().
struct InterleaveOptions {
  std::string name{};        // the name of this stage in errors
  int64_t cycle_length = 1;  // data sets open at once
  int64_t block_length = 1;  // elements of each in turn
  // Whether each open data set is read ahead on its own thread. The order is the same.
  bool parallel = false;
};

// Options of Dataset::window().
struct WindowOptions {
  std::string name{};           // the name of this stage in errors
  int64_t shift = 0;            // the distance between the beginnings of two windows; 0: the
                                // window's size
  int64_t stride = 1;           // the distance between two elements of a window
  bool drop_remainder = false;  // drops windows at the end that are not full
};

// Options of Dataset::bucket_by_sequence_length().
struct BucketOptions {
  std::string name{};  // the name of this stage in errors
  // Bucket i has the lengths from boundaries[i - 1] up to below boundaries[i]. The first bucket
  // begins at 0; the last has no upper bound.
  std::vector<int64_t> boundaries{};
  std::vector<int64_t> batch_sizes{};  // one for each bucket: one more than boundaries
  // Pads to the largest length of the bucket, so that all of its batches have one shape, instead of
  // to the longest element of the batch. An element of the last bucket, which has no largest
  // length, is then an error.
  bool pad_to_bucket_boundary = false;
  bool no_padding = false;   // the elements of a batch already have one shape
  PaddingOptions padding{};  // and whether batches that are not full are dropped
};

// Options of Dataset::sample_from_datasets().
struct SampleOptions {
  std::vector<double> weights{};       // probabilities up to a common factor, 0 or more; empty: all
                                       // equal
  std::optional<uint64_t> seed{};      // the iterator's when unset
  bool stop_on_empty_dataset = false;  // ends when the first data set ends
  bool rerandomize_each_iteration = true;  // each pass draws differently
};

// Options of Dataset::snapshot().
struct SnapshotOptions {
  formats::Compression compression = formats::Compression::kNone;  // or kGzip, kZlib
};

// Options of Dataset::list_files().
struct ListFilesOptions {
  bool shuffle = true;             // each pass in another order
  std::optional<uint64_t> seed{};  // of the shuffle; the iterator's when unset
};

class MUSTER_EXPORT Dataset {
 public:
  // The function that map() calls for each element.
  using MapFunction = std::function<Element(const Element&)>;
  // The same, with a key for the random numbers of this element.
  using KeyedMapFunction = std::function<Element(const Element&, RandomKey)>;
  // The condition of filter() for each element.
  using Predicate = std::function<bool(const Element&)>;
  // Makes the data set of flat_map() and interleave() for an element.
  using FlatMapFunction = std::function<Dataset(const Element&)>;
  // Makes the data set of window() from the elements of a window.
  using WindowFunction = std::function<Dataset(const Dataset& window)>;
  // Returns a number for an element: the key of group_by_window(), the length for
  // bucket_by_sequence_length().
  using KeyFunction = std::function<int64_t(const Element&)>;
  // Makes the data set of group_by_window() from a window of elements with one key.
  using GroupFunction = std::function<Dataset(int64_t key, const Dataset& window)>;
  // Returns the number of elements in a window of this key.
  using WindowSizeFunction = std::function<int64_t(int64_t key)>;
  // Returns the next state of scan(), and the output for this element.
  using ScanFunction =
      std::function<std::pair<Element, Element>(const Element& state, const Element& element)>;
  // Returns the next state of reduce().
  using ReduceFunction = std::function<Element(const Element& state, const Element& element)>;
  // Returns the next element, or nothing at the end.
  using Generator = std::function<std::optional<Element>()>;

  // Makes one element from each row of axis 0. Throws InvalidArgument for scalars, for an element
  // without values, and for unequal first dimensions (naming both). Tensors are made contiguous
  // once; the data set keeps them, so do not write to them.
  static Dataset from_tensor_slices(Element element);
  // Makes a data set of a single element.
  static Dataset from_tensors(Element element);
  // Makes the int64 scalars 0 … n-1.
  static Dataset range(int64_t n);
  // Makes the int64 scalars start, start + step, … before stop. Throws InvalidArgument for a step
  // of 0.
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1);
  // Makes int64 scalars from 0 to 2^32 - 1 without end, uniformly distributed and different in each
  // pass. `seed` is the iterator's when unset.
  static Dataset random(std::optional<uint64_t> seed = std::nullopt);
  // Reads the elements of a Source, by index.
  static Dataset from_source(std::shared_ptr<const Source> source);
  // Reads the elements of a SequentialSource, in its order.
  static Dataset from_sequential(std::shared_ptr<const SequentialSource> source);
  // Reads the elements of the files, one file after another. A file is a plain path or a URI. If a
  // file cannot be opened or read to its end, that is an error at its position; only
  // ignore_errors() passes over it, while skip() and shard() throw it. Throws InvalidArgument for
  // an empty path.
  static Dataset from_files(std::vector<std::string> files,
                            std::shared_ptr<const FileFormat> format);
  // Reads the elements of a generator. `make` is called at the beginning of every pass and returns
  // a new generator. restore() finds a saved position by counting, so every generator must return
  // the same elements.
  static Dataset from_generator(std::function<Generator()> make);
  // Makes string scalars of the matching paths. "*", "?" and "[a-z]" may occur in any part of the
  // path, which may be a URI. Throws NotFound with the pattern when nothing matches.
  static Dataset list_files(const std::vector<std::string>& patterns,
                            const ListFilesOptions& options = {});
  // Joins row i of every data set to a tuple, or to a dict; ends with the shortest data set.
  static Dataset zip(std::vector<Dataset> datasets);
  static Dataset zip(std::vector<std::pair<std::string, Dataset>> datasets);
  // Takes each element from one of the data sets; the next element of `choices`, an int64 scalar,
  // is the number of that data set. Ends when the choices end. With `stop_on_empty_dataset`, also
  // ends when a chosen data set has ended; otherwise passes over such a choice. An invalid number
  // is an InvalidArgument at its position. Throws InvalidArgument for data sets of unequal
  // structure or dtypes, where these are known.
  static Dataset choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset = true);
  // Takes each element from a randomly drawn data set, by weight. A data set that has ended is no
  // longer drawn. Throws InvalidArgument for weights that are negative, not finite, all 0, or not
  // one for each data set, and for data sets of unequal structure or dtypes, where these are known.
  static Dataset sample_from_datasets(std::vector<Dataset> datasets,
                                      const SampleOptions& options = {});

  // Keeps the first n elements; -1 keeps all. After a batch() that is divided between replicas,
  // keeps n rounds.
  Dataset take(int64_t n) const;
  // Skips the first n elements; -1 skips all.
  Dataset skip(int64_t n) const;
  // Keeps the elements whose position p has p % num_shards == index. Throws InvalidArgument unless
  // 0 <= index < num_shards, or both are kShardHint: a strategy then fills in its workers, and an
  // iterator without a strategy keeps all elements. iterator() throws InvalidArgument for the hint
  // without AutoShardPolicy::kHint.
  Dataset shard(int64_t num_shards, int64_t index) const;
  // Makes `count` passes over the data. -1: without end, unless a pass returns no elements.
  Dataset repeat(int64_t count = -1) const;
  // Draws each element from a window of `buffer_size`: output i is one of the first i + buffer_size
  // inputs. A buffer as large as the data set gives a uniform permutation. Every pass of a repeat()
  // after it has another order.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;
  // Joins `size` elements along a new axis 0; the last batch may be smaller. Under sharding `size`
  // is per replica. Throws InvalidArgument for a size below 1 or above 2^31 - 1; iterator() throws
  // it if the rows do not fit into the memory of this machine.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  // Makes batches of `size` elements over all replicas in sync. Each replica gets its share,
  // rounded down or up; the first replicas get the larger shares. With one replica this is
  // batch(size).
  Dataset global_batch(int64_t size, const BatchOptions& options = {}) const;
  // Makes batches as batch() does, and pads every value to one shape. Throws InvalidArgument, at
  // the position of the batch, for values that padding cannot make equal, and Corrupt for a value
  // larger than the requested padded shape.
  Dataset padded_batch(int64_t size, const PaddingOptions& options = {}) const;
  // Splits batches into their rows.
  Dataset unbatch() const;
  // Regroups the rows of batches into batches of other sizes: sizes[0], sizes[1], … and again. A
  // size of 0 makes a batch without rows. Throws InvalidArgument for a negative size, and when all
  // are 0.
  Dataset rebatch(std::vector<int64_t> sizes, const BatchOptions& options = {}) const;
  // Replaces each element by fn(element); autograd is off. It is fastest after batch(), on whole
  // batches; there, under sharding, fn also gets batches of zero rows.
  Dataset map(MapFunction fn, const MapOptions& options = {}) const;
  // Replaces each element by fn(element, key). The key is derived from the seed, the number of this
  // map among the maps, the epoch, and the source index of the element, or, after a batch(), the
  // position of the batch's first row.
  Dataset map(KeyedMapFunction fn, const MapOptions& options = {}) const;
  // The same for a function of the parts of an element. It returns an Element, a Tensor, or a
  // std::tuple or std::pair of them: map([](Tensor image, Tensor label) { ... }).
  template <data::PartFunction Fn>
  Dataset map(Fn fn, const MapOptions& options = {}) const {
    return map(MapFunction(data::by_parts<Element>(std::move(fn))), options);
  }
  // The same for a function of a key for random numbers, followed by the parts.
  template <data::KeyedPartFunction Fn>
  Dataset map(Fn fn, const MapOptions& options = {}) const {
    return map(KeyedMapFunction(data::by_keyed_parts(std::move(fn))), options);
  }
  // Reads up to n elements ahead on its own thread, at most 256 MiB; 0 does nothing. Before a
  // batch(), where only indices are passed on, it reads whole batches ahead. The destructor of an
  // iterator waits for the element that is being read.
  Dataset prefetch(int64_t n = 2) const;
  // Keeps the elements for which `fn` is true.
  Dataset filter(Predicate fn, const std::string& name = "") const;
  // The same for a function of the parts of an element, as in map().
  template <data::PartFunction Fn>
  Dataset filter(Fn fn, const std::string& name = "") const {
    return filter(Predicate(data::by_parts<bool>(std::move(fn))), name);
  }
  // Keeps the elements before the first for which `fn` is false; nothing after it is read.
  Dataset take_while(Predicate fn, const std::string& name = "") const;
  // The same for a function of the parts of an element, as in map().
  template <data::PartFunction Fn>
  Dataset take_while(Fn fn, const std::string& name = "") const {
    return take_while(Predicate(data::by_parts<bool>(std::move(fn))), name);
  }
  // Keeps the first occurrence of every element in a pass. Elements are equal when their structure,
  // dtypes, shapes and bytes are. The elements seen are kept in memory, and restore() reads them
  // again.
  Dataset unique() const;
  // Calls fn(state, element) for each element in order; it returns a pair of the next state and the
  // output for the element. Every pass begins with the state `initial`. A state must keep its
  // structure and dtypes; otherwise the element is an error, and the state is unchanged. A saved
  // position holds the state: keep it small. Throws InvalidArgument for an undefined tensor in
  // `initial`.
  Dataset scan(Element initial, ScanFunction fn, const std::string& name = "") const;
  // Replaces each element by (start + position, element).
  Dataset enumerate(int64_t start = 0) const;
  // Appends the elements of `other`. A difference in structure or dtypes is an InvalidArgument:
  // here if both are known (memory, numbers and paths, without a function in between), else in
  // place of each element of `other`.
  Dataset concatenate(const Dataset& other) const;
  // Returns the elements of the data sets fn(element), one data set after another.
  Dataset flat_map(FlatMapFunction fn, const std::string& name = "") const;
  // The same for a function of the parts of an element, as in map().
  template <data::PartFunction Fn>
  Dataset flat_map(Fn fn, const std::string& name = "") const {
    return flat_map(FlatMapFunction(data::by_parts<Dataset>(std::move(fn))), name);
  }
  // Does what flat_map() does with several data sets open at once, and takes block_length elements
  // of each in turn. When one ends, the next data set takes its turn. Throws InvalidArgument for
  // lengths below 1.
  Dataset interleave(FlatMapFunction fn, const InterleaveOptions& options = {}) const;
  // The same for a function of the parts of an element, as in map().
  template <data::PartFunction Fn>
  Dataset interleave(Fn fn, const InterleaveOptions& options = {}) const {
    return interleave(FlatMapFunction(data::by_parts<Dataset>(std::move(fn))), options);
  }
  // Joins `size` neighbouring elements along a new axis 0: [size, ...] each. A window begins every
  // `shift` elements, and windows may overlap; those at the end may be smaller. Throws
  // InvalidArgument for numbers below 1 or above 2^31 - 1.
  Dataset window(int64_t size, const WindowOptions& options = {}) const;
  // Returns the elements of the data sets fn(window), one window after another. (tf.data's window()
  // returns data sets, which flat_map() turns into elements. Here elements hold values, so window()
  // takes the function directly; and `window` is one data set of whole elements, where tf.data has
  // one for each of their values.)
  Dataset window(int64_t size, WindowFunction fn, const WindowOptions& options = {}) const;
  // Collects elements by key(element). As soon as a key has `window_size`, or window_size(key),
  // elements, returns the elements of reduce(key, window). At the end, does the same for the
  // remaining elements, by ascending key. Throws InvalidArgument for a size below 1; a function's
  // invalid size is an error in place of the element. A saved position holds the numbers of the
  // waiting elements.
  Dataset group_by_window(KeyFunction key, GroupFunction reduce, int64_t window_size,
                          const std::string& name = "") const;
  Dataset group_by_window(KeyFunction key, GroupFunction reduce, WindowSizeFunction window_size,
                          const std::string& name = "") const;
  // Makes padded batches of elements of similar length: length(element) selects the bucket. Throws
  // InvalidArgument if boundaries do not ascend or the number of batch sizes is wrong.
  Dataset bucket_by_sequence_length(KeyFunction length, const BucketOptions& options) const;
  // The same for a function of the parts of an element, as in map().
  template <data::PartFunction Fn>
  Dataset bucket_by_sequence_length(Fn length, const BucketOptions& options) const {
    return bucket_by_sequence_length(KeyFunction(data::by_parts<int64_t>(std::move(length))),
                                     options);
  }
  // Keeps the elements of the first complete pass for later passes: in memory, or in the file
  // `path`, which later runs read too. A pass with an error is not kept in a file. After a batch()
  // that is divided between replicas, or with files divided between workers, each replica or worker
  // has a file of its own, "<path>.<index>-of-<n>"; if you use shard() yourself, give each part its
  // own path. A file of another pipeline is an InvalidArgument at the first element: a pipeline
  // with other stages before the cache, in another order or with other parameters, or whose source
  // has another first or last element (for files only the first is compared, for a generator none).
  // The cache cannot notice another function in the same place, or other data after these elements:
  // remove the file then, or change the name of the function (map(fn, {.name = "scale, 2nd"})).
  Dataset cache(const std::string& path = "") const;
  // Does what cache(path) does in a folder, where each pipeline has its own file: a pipeline with
  // other stages before the snapshot writes another file. It cannot notice the changes that cache()
  // cannot notice. Throws InvalidArgument for an empty path.
  Dataset snapshot(const std::string& path, const SnapshotOptions& options = {}) const;
  // Drops elements that are errors and logs the first of them, and at the end of a pass their
  // number. `log_warning` logs each of the first ten, then fewer and fewer. After 100,000 errors in
  // a row the last one is thrown. A file that cannot be opened is also dropped; only this stage
  // does so.
  Dataset ignore_errors(bool log_warning = false) const;
  // States the number of elements where it is unknown. A wrong number is an error where the data
  // shows it; throws InvalidArgument if it is known to be wrong already.
  Dataset assert_cardinality(int64_t expected) const;

  // Gives this seed, instead of the iterator's, to all earlier stages without a seed of their own
  // (shuffles, keyed maps, drawn data sets), so that the order is the same in every run and on
  // every worker. Put it after batch(), or at the end.
  Dataset with_seed(uint64_t seed) const;
  // Returns the same elements, with options for how the pipeline runs; the last options set apply.
  Dataset with_options(const DatasetOptions& options) const;

  // The options set last, or the defaults.
  DatasetOptions options() const;
  // Returns the number of elements of one unsharded iterator, or kInfinite or kUnknown.
  int64_t cardinality() const;
  // Whether the pipeline contains a shard(): it must not be sharded again.
  bool hand_sharded() const;
  // Returns text such as "slices(60000) > shuffle(10000) > repeat > batch(64)".
  std::string describe() const;
  // Returns lines that describe how each stage runs: on indices or on values, on which threads, in
  // what memory.
  std::string explain() const;

  // Makes an iterator at the beginning. Throws InvalidArgument for a replica outside of [0,
  // num_replicas), for several replicas without a batch(), and for global batches of a pipeline
  // that ends with rebatch().
  std::unique_ptr<Iterator> iterator(const IteratorOptions& options = {}) const;

  // Reads everything and returns the last of the states fn(state, element), beginning with
  // `initial`. Throws the errors of the pipeline and of fn, naming the element, and InvalidArgument
  // for data without end.
  Element reduce(Element initial, const ReduceFunction& fn,
                 const IteratorOptions& options = {}) const;

 private:
  friend struct data::internal::DatasetAccess;
  explicit Dataset(std::shared_ptr<const data::internal::Node> node) : node_(std::move(node)) {}

  std::shared_ptr<const data::internal::Node> node_;
};

}  // namespace muster::inline v0_1
