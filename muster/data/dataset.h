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
// batch() is run on integers: rows are copied once, into the batch that needs them. At most 1000
// stages may stand one behind another.
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

// What cardinality() returns for data without end, and where the number cannot be told.
inline constexpr int64_t kInfinite = -1;
inline constexpr int64_t kUnknown = -2;
// Makes as many calls at once as this task has cores.
inline constexpr int64_t kAutotune = -1;

// Options of Dataset::shuffle().
struct ShuffleOptions {
  std::optional<uint64_t> seed{};  // the iterator's when unset
  bool reshuffle_each_iteration = true;
};

// How data is divided between the workers of a cluster, each of which runs the whole pipeline.
enum class AutoShardPolicy {
  kOff = -1,  // every worker reads everything, in an order of its own: an epoch is as many passes
  // kFile where the pipeline begins with files, of which there are enough for all workers; else
  // kData.
  kAuto = 0,
  kFile = 1,  // each worker reads files of its own
  kData = 2,  // each worker takes rows of its own; what has no index is read by all
  kHint = 3,  // each worker reads what shard(kShardHint, kShardHint) leaves of the pipeline
};
// Stands for the number of workers and that of this one in shard(kShardHint, kShardHint), which
// AutoShardPolicy::kHint fills in.
inline constexpr int64_t kShardHint = -1;
// Returns "AUTO", "FILE", "DATA", "HINT" or "OFF".
MUSTER_EXPORT std::string_view to_string(AutoShardPolicy policy);

// Options of a whole pipeline, for Dataset::with_options().
struct DatasetOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
};

// Options of Dataset::batch() and global_batch().
struct BatchOptions {
  bool drop_remainder = false;  // drops the last round unless it is full on every replica
};

// Options of Dataset::padded_batch(). There is one entry for each value of the element, in the
// order that describe() shows.
struct PaddingOptions {
  std::vector<Shape>
      padded_shapes{};  // one for each value; -1: the largest of the batch; none: all -1
  std::vector<double> padding_values{};  // one for each value; none: 0. Strings are padded with ""
  bool drop_remainder = false;
};

// Options of Dataset::map().
struct MapOptions {
  std::string name{};  // how errors call this map
  // How many calls of the function run at once, on threads of the pipeline; kAutotune means one for
  // each core of the task.
  int64_t num_parallel_calls = 1;
  // When it is true, elements come in the order of the input. When it is false, they come as soon
  // as they are ready, on several threads, and two runs may differ; where a later stage reads
  // elements again (shuffle, cache, unbatch, rebatch, interleave, shard) or divides them between
  // replicas, they keep the order all the same.
  bool deterministic = true;
};

// Options of Dataset::interleave().
struct InterleaveOptions {
  std::string name{};        // how errors call it
  int64_t cycle_length = 1;  // data sets open at once
  int64_t block_length = 1;  // elements of each in turn
  // When it is true, each open data set is read ahead on a thread of its own. The order is the
  // same.
  bool parallel = false;
};

// Options of Dataset::window().
struct WindowOptions {
  std::string name{};           // how errors call it
  int64_t shift = 0;            // from the beginning of one window to that of the next; 0: its size
  int64_t stride = 1;           // from one element of a window to the next
  bool drop_remainder = false;  // drops the windows at the end that are not full
};

// Options of Dataset::bucket_by_sequence_length().
struct BucketOptions {
  std::string name{};  // how errors call it
  // Bucket i has the lengths from boundaries[i - 1] up to below boundaries[i]; the first begins at
  // 0, and the last has no end.
  std::vector<int64_t> boundaries{};
  std::vector<int64_t> batch_sizes{};  // one for each bucket: one more than there are boundaries
  // Pads to the largest length of the bucket, so that all of its batches have one shape, instead of
  // to the longest of the batch. An element of the last bucket is an error then: it has no largest.
  bool pad_to_bucket_boundary = false;
  bool no_padding = false;   // the elements of a batch have one shape as they are
  PaddingOptions padding{};  // and whether batches that are not full are dropped
};

// Options of Dataset::sample_from_datasets().
struct SampleOptions {
  std::vector<double> weights{};       // how likely each is, 0 or more, of any sum; none: all alike
  std::optional<uint64_t> seed{};      // the iterator's when unset
  bool stop_on_empty_dataset = false;  // ends with the first data set that ends
  bool rerandomize_each_iteration = true;  // draws otherwise in each pass
};

// Options of Dataset::snapshot().
struct SnapshotOptions {
  formats::Compression compression = formats::Compression::kNone;  // or kGzip, kZlib
};

// Options of Dataset::list_files().
struct ListFilesOptions {
  bool shuffle = true;             // in another order each pass
  std::optional<uint64_t> seed{};  // of that; the iterator's when unset
};

class MUSTER_EXPORT Dataset {
 public:
  // The function that map() calls for each element.
  using MapFunction = std::function<Element(const Element&)>;
  // The same, with a key for the element's own random numbers.
  using KeyedMapFunction = std::function<Element(const Element&, RandomKey)>;
  // The condition of filter() for each element.
  using Predicate = std::function<bool(const Element&)>;
  // The data set that flat_map() and interleave() make of each element.
  using FlatMapFunction = std::function<Dataset(const Element&)>;
  // The data set that window() makes of the elements of a window.
  using WindowFunction = std::function<Dataset(const Dataset& window)>;
  // A number of an element: the key of group_by_window(), the length for
  // bucket_by_sequence_length().
  using KeyFunction = std::function<int64_t(const Element&)>;
  // The data set that group_by_window() makes of a window of elements of one key.
  using GroupFunction = std::function<Dataset(int64_t key, const Dataset& window)>;
  // How many elements make a window of this key.
  using WindowSizeFunction = std::function<int64_t(int64_t key)>;
  // The next state of scan(), and what it gives for the element.
  using ScanFunction =
      std::function<std::pair<Element, Element>(const Element& state, const Element& element)>;
  // The next state of reduce().
  using ReduceFunction = std::function<Element(const Element& state, const Element& element)>;
  // Gives the next element, or nothing at the end.
  using Generator = std::function<std::optional<Element>()>;

  // Makes one element of each row of axis 0. Throws InvalidArgument for scalars, for an element
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
  // Makes int64 scalars from 0 to 2^32 - 1 without end, each equally likely, and others in each
  // pass. `seed` is the iterator's when unset.
  static Dataset random(std::optional<uint64_t> seed = std::nullopt);
  // Reads the elements of a Source, by index.
  static Dataset from_source(std::shared_ptr<const Source> source);
  // Reads the elements of a SequentialSource, in its order.
  static Dataset from_sequential(std::shared_ptr<const SequentialSource> source);
  // Reads the elements of the files, one file after another. A file is a plain path or a URI; one
  // that does not open, or cannot be read to its end, is an error at its place, which no stage but
  // ignore_errors() passes over: skip() and shard() do not either. Throws InvalidArgument for an
  // empty path.
  static Dataset from_files(std::vector<std::string> files,
                            std::shared_ptr<const FileFormat> format);
  // Reads what a generator gives. `make` is called at the beginning of every pass and makes a new
  // generator. A saved position is found again by counting, so every generator must give the same
  // elements.
  static Dataset from_generator(std::function<Generator()> make);
  // Makes string scalars of the paths that match. "*", "?" and "[a-z]" may stand in any part of the
  // path, which may be a URI. Throws NotFound, naming the pattern, when nothing matches.
  static Dataset list_files(const std::vector<std::string>& patterns,
                            const ListFilesOptions& options = {});
  // Joins row i of every data set to a tuple, or to a dict; there are as many as the shortest has.
  static Dataset zip(std::vector<Dataset> datasets);
  static Dataset zip(std::vector<std::pair<std::string, Dataset>> datasets);
  // Takes each element from one of the data sets: the one whose number the next element of
  // `choices` is, an int64 scalar. Ends with the choices, and with the first choice of a data set
  // that has ended; without `stop_on_empty_dataset` such a choice is passed over. A number that is
  // none is an InvalidArgument at its place. Throws InvalidArgument for data sets of unequal
  // structure or dtypes, where these are known.
  static Dataset choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset = true);
  // Takes each element from a data set that is drawn, by weight. One that has ended is not drawn
  // any more. Throws InvalidArgument for weights that are negative, no numbers, all 0, or not one
  // for each data set, and for data sets of unequal structure or dtypes, where these are known.
  static Dataset sample_from_datasets(std::vector<Dataset> datasets,
                                      const SampleOptions& options = {});

  // Keeps the first n elements; -1 keeps all. Behind a batch() that is divided between replicas it
  // keeps n rounds.
  Dataset take(int64_t n) const;
  // Leaves out the first n elements; -1 leaves out all.
  Dataset skip(int64_t n) const;
  // Keeps the elements whose position p has p % num_shards == index. Throws InvalidArgument unless
  // 0 <= index < num_shards, or both are kShardHint: then a strategy puts its workers there, and an
  // iterator that nobody divides keeps all elements. iterator() throws InvalidArgument for the
  // hint without AutoShardPolicy::kHint.
  Dataset shard(int64_t num_shards, int64_t index) const;
  // Makes `count` passes over the data. -1 means without end; it still ends when a pass gives
  // nothing.
  Dataset repeat(int64_t count = -1) const;
  // Draws each element from a window of `buffer_size`: output i is one of the first i + buffer_size
  // inputs. A buffer that covers the data set gives a uniform permutation. Every pass of a repeat()
  // behind it has another order.
  Dataset shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;
  // Joins `size` elements along a new axis 0; the last batch may be smaller. Under sharding `size`
  // is per replica. Throws InvalidArgument for a size below 1 or above 2^31 - 1; iterator() throws
  // it for rows that do not fit into the memory of this machine.
  Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  // Makes batches of `size` elements over all replicas in sync. Each gets its share rounded down or
  // up, the first ones up. With one replica it is the same as batch(size).
  Dataset global_batch(int64_t size, const BatchOptions& options = {}) const;
  // Does what batch() does, and pads every value to one shape. Throws InvalidArgument, at its
  // place, for values that padding cannot make equal, and Corrupt for one that is larger than the
  // padded shape asked for.
  Dataset padded_batch(int64_t size, const PaddingOptions& options = {}) const;
  // Takes batches apart into their rows.
  Dataset unbatch() const;
  // Puts the rows of batches into batches of other sizes: sizes[0], sizes[1], … and again. A size
  // of 0 gives a batch without rows. Throws InvalidArgument for a negative size, and when none is
  // above 0.
  Dataset rebatch(std::vector<int64_t> sizes, const BatchOptions& options = {}) const;
  // Makes fn(element) of each element; autograd is off. The fastest place is after batch(), on
  // whole batches; there, under sharding, fn also sees batches of zero rows.
  Dataset map(MapFunction fn, const MapOptions& options = {}) const;
  // Makes fn(element, key) of each element. The key is derived from the seed, the map's place among
  // maps, the epoch, and the source index of the element, or after a batch() the position of the
  // batch's first row.
  Dataset map(KeyedMapFunction fn, const MapOptions& options = {}) const;
  // The same of a function of the parts of an element, which gives an Element, a Tensor, or a
  // std::tuple or std::pair of them: map([](Tensor image, Tensor label) { ... }).
  template <data::PartFunction Fn>
  Dataset map(Fn fn, const MapOptions& options = {}) const {
    return map(MapFunction(data::by_parts<Element>(std::move(fn))), options);
  }
  // The same of a function of the parts that has a key for its random numbers in front.
  template <data::KeyedPartFunction Fn>
  Dataset map(Fn fn, const MapOptions& options = {}) const {
    return map(KeyedMapFunction(data::by_keyed_parts(std::move(fn))), options);
  }
  // Reads up to n elements ahead on a thread of its own, but no more than 256 MiB; 0 does nothing.
  // Before a batch() it reads whole batches ahead where only indices flow. When an iterator is
  // destroyed, it waits for the element that is being read.
  Dataset prefetch(int64_t n = 2) const;
  // Keeps the elements for which `fn` is true.
  Dataset filter(Predicate fn, const std::string& name = "") const;
  // The same of a function of the parts of an element, as map() has it.
  template <data::PartFunction Fn>
  Dataset filter(Fn fn, const std::string& name = "") const {
    return filter(Predicate(data::by_parts<bool>(std::move(fn))), name);
  }
  // Gives the elements up to the first for which `fn` is false; nothing behind it is read.
  Dataset take_while(Predicate fn, const std::string& name = "") const;
  // The same of a function of the parts of an element, as map() has it.
  template <data::PartFunction Fn>
  Dataset take_while(Fn fn, const std::string& name = "") const {
    return take_while(Predicate(data::by_parts<bool>(std::move(fn))), name);
  }
  // Gives every element once in a pass, where it is first. Elements are the same when structure,
  // dtypes, shapes and bytes are. What was seen is kept in memory, and read again by restore().
  Dataset unique() const;
  // Makes fn(state, element), a pair of the next state and what is given for the element, of each
  // element in order; every pass begins with the state `initial`. A state keeps its structure and
  // its dtypes, else the element is an error, and the state stays as it was. A saved position holds
  // the state: keep it small. Throws InvalidArgument for an undefined tensor in `initial`.
  Dataset scan(Element initial, ScanFunction fn, const std::string& name = "") const;
  // Makes (start + position, element) of each element.
  Dataset enumerate(int64_t start = 0) const;
  // Gives these elements, then those of the other. Other structure or other dtypes are an
  // InvalidArgument: here, where both are known (memory, numbers and paths, without a function in
  // between), else in place of each element of the other.
  Dataset concatenate(const Dataset& other) const;
  // Gives the elements of the data sets fn(element), one data set after another.
  Dataset flat_map(FlatMapFunction fn, const std::string& name = "") const;
  // The same of a function of the parts of an element, as map() has it.
  template <data::PartFunction Fn>
  Dataset flat_map(Fn fn, const std::string& name = "") const {
    return flat_map(FlatMapFunction(data::by_parts<Dataset>(std::move(fn))), name);
  }
  // Does what flat_map() does with several data sets open at once, and takes block_length elements
  // of each in turn. When one ends, the next takes its place when its turn comes. Throws
  // InvalidArgument for lengths below 1.
  Dataset interleave(FlatMapFunction fn, const InterleaveOptions& options = {}) const;
  // The same of a function of the parts of an element, as map() has it.
  template <data::PartFunction Fn>
  Dataset interleave(Fn fn, const InterleaveOptions& options = {}) const {
    return interleave(FlatMapFunction(data::by_parts<Dataset>(std::move(fn))), options);
  }
  // Joins `size` neighbouring elements along a new axis 0: [size, ...] each. Windows begin every
  // `shift` elements, and may overlap; those at the end may be smaller. Throws InvalidArgument for
  // numbers below 1 or above 2^31 - 1.
  Dataset window(int64_t size, const WindowOptions& options = {}) const;
  // Gives the elements of the data sets fn(window), one window after another. (tf.data gives data
  // sets as elements, of which flat_map() makes elements again. Here elements hold values, so the
  // function comes at once; and `window` is one data set of whole elements where tf.data has one
  // for each of their values.)
  Dataset window(int64_t size, WindowFunction fn, const WindowOptions& options = {}) const;
  // Collects elements by key(element). As soon as there are `window_size` of one key, or
  // window_size (key), gives the elements of reduce(key, window); at the end, those of what is
  // left, by ascending key. Throws InvalidArgument for a size below 1; of a function it is an error
  // in place of the element. A saved position holds the numbers of the elements that wait.
  Dataset group_by_window(KeyFunction key, GroupFunction reduce, int64_t window_size,
                          const std::string& name = "") const;
  Dataset group_by_window(KeyFunction key, GroupFunction reduce, WindowSizeFunction window_size,
                          const std::string& name = "") const;
  // Makes padded batches of elements of nearly one length: length(element) tells the bucket. Throws
  // InvalidArgument for boundaries that do not ascend, and another number of batch sizes.
  Dataset bucket_by_sequence_length(KeyFunction length, const BucketOptions& options) const;
  // The same of a function of the parts of an element, as map() has it.
  template <data::PartFunction Fn>
  Dataset bucket_by_sequence_length(Fn length, const BucketOptions& options) const {
    return bucket_by_sequence_length(KeyFunction(data::by_parts<int64_t>(std::move(length))),
                                     options);
  }
  // Keeps the elements of the first whole pass for the passes that follow: in memory, or in the
  // file `path`, which later runs read too. A pass with an error in it is not kept in a file.
  // Behind a batch() that is divided between replicas, or with files divided between workers, each
  // has a file of its own, "<path>.<index>-of-<n>"; with a shard() by hand, give each a path of its
  // own. A file that another pipeline wrote is an InvalidArgument at the first element: one with
  // other stages in front, in another order or with other parameters, or whose source gives another
  // first or last element (of files the first is compared, of a generator none). What cannot be
  // noticed is another function in the same place, or other data behind these elements: remove the
  // file then, or say so in the name of the function (map(fn, {.name = "scale, 2nd"})).
  Dataset cache(const std::string& path = "") const;
  // Does what cache(path) does in a folder, where each pipeline has a file of its own: one with
  // other stages in front of it writes another. What cannot be noticed is the same. Throws
  // InvalidArgument for an empty path.
  Dataset snapshot(const std::string& path, const SnapshotOptions& options = {}) const;
  // Leaves out elements that are errors, and says so in the log: the first of them, and at the end
  // of a pass how many. `log_warning` names each of the first ten, then fewer and fewer. After
  // 100,000 errors in a row the last one is thrown. A file that does not open is one of these
  // errors here, and nowhere else is it left out.
  Dataset ignore_errors(bool log_warning = false) const;
  // Says how many elements there are, where the number cannot be told. A number that turns out to
  // be wrong is an error at its place; throws InvalidArgument when it is known to be wrong.
  Dataset assert_cardinality(int64_t expected) const;

  // Lets everything in front of it that has no seed of its own (shuffles, keyed maps, drawn data
  // sets) draw from this seed instead of the iterator's, so that the order is the same in every run
  // and on every worker. It stands best behind batch(), or at the end.
  Dataset with_seed(uint64_t seed) const;
  // Gives the same elements, with options that say how the pipeline is run; those set last count.
  Dataset with_options(const DatasetOptions& options) const;

  // The options set last, or the defaults.
  DatasetOptions options() const;
  // The number of elements that one unsharded iterator gives, or kInfinite or kUnknown.
  int64_t cardinality() const;
  // Whether a shard() is part of the pipeline: then it must not be sharded again.
  bool hand_sharded() const;
  // Returns text such as "slices(60000) > shuffle(10000) > repeat > batch(64)".
  std::string describe() const;
  // Returns lines that say how each stage runs: on indices or on values, on which threads, in what
  // memory.
  std::string explain() const;

  // Makes an iterator at the beginning. Throws InvalidArgument for a replica outside of [0,
  // num_replicas), for several replicas without a batch(), and for global batches of a pipeline
  // that ends with rebatch().
  std::unique_ptr<Iterator> iterator(const IteratorOptions& options = {}) const;

  // Reads everything and returns the last of the states fn(state, element), the first of which is
  // `initial`. Throws what the pipeline and fn throw, naming the element, and InvalidArgument for
  // data without end.
  Element reduce(Element initial, const ReduceFunction& fn,
                 const IteratorOptions& options = {}) const;

 private:
  friend struct data::internal::DatasetAccess;
  explicit Dataset(std::shared_ptr<const data::internal::Node> node) : node_(std::move(node)) {}

  std::shared_ptr<const data::internal::Node> node_;
};

}  // namespace muster::inline v0_1
