// The immutable description a Dataset shares: nodes, from the last transformation back to the
// sources. Thread safety: never changes after make_node().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/dataset.h"
#include "muster/data/element_reader.h"
#include "muster/data/source.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::data::internal {

struct FromSource {
  std::shared_ptr<const Source> source;
};
struct FromFiles {
  struct File {
    std::string path{};
    int64_t number{};  // among all files, also those other workers read
  };
  std::vector<File> files{};
  std::shared_ptr<const FileFormat> format{};
};
struct FromSequential {
  std::shared_ptr<const SequentialSource> source;
};
struct Take {
  int64_t count;
};
struct Skip {
  int64_t count;
};
struct Shard {
  int64_t num_shards, index;

  bool is_hint() const { return num_shards == kShardHint; }
};
struct Shuffle {
  int64_t buffer{};
  std::optional<uint64_t> seed{};
  bool reshuffle{};
};
struct Repeat {
  int64_t count;
};
struct Batch {
  int64_t size{};
  bool global{};
  bool drop_remainder{};
  std::shared_ptr<const PaddingOptions> padding{};  // of padded_batch()
};
struct Map {
  std::function<Element(const Element&, RandomKey)> fn{};
  bool keyed{};
  std::string name{};
  int64_t calls{};  // at once
  bool deterministic{};
  bool kept_in_order = false;  // although not deterministic; set by in_order()
};
struct Prefetch {
  int64_t count;
};
struct Filter {
  Dataset::Predicate fn{};
  std::string name{};
};
struct Enumerate {
  int64_t start;
};
struct Unbatch {};
struct Rebatch {
  std::vector<int64_t> sizes{};
  bool drop_remainder{};
  bool ends_with_rows = false;  // a batch of size 0 is made only where rows are left
};
struct Interleave {
  Dataset::FlatMapFunction fn{};
  bool flat{};  // made by flat_map()
  int64_t cycle_length{}, block_length{};
  bool parallel{};
  std::string name{};
  bool in_order = false;  // the data sets that it opens are kept in order too; set by in_order()
};
struct Zip {
  std::vector<std::string> keys;  // of a dict; none: a tuple
};
struct Concatenate {};
struct Cache {
  std::string path{};     // empty: in memory; of a snapshot: the folder
  bool snapshot = false;  // each pipeline has a file of its own in the folder
  formats::Compression compression = formats::Compression::kNone;
};
struct IgnoreErrors {
  bool log_warning;
};
struct AssertCardinality {
  int64_t expected;
};

struct TakeWhile {
  Dataset::Predicate fn{};
  std::string name{};
};
struct Unique {};
struct Scan {
  Element initial{};
  Dataset::ScanFunction fn{};
  std::string name{};
};
struct Window {
  int64_t size{}, shift{}, stride{};
  bool drop_remainder{};
  Dataset::WindowFunction fn{};  // empty: each window becomes a batch
  std::string name{};

  // How many elements of the input a whole window reaches over.
  int64_t reach() const { return (size - 1) * stride + 1; }
};
struct GroupByWindow {
  Dataset::KeyFunction key{};
  Dataset::GroupFunction reduce{};
  Dataset::WindowSizeFunction size{};
  std::string name{};
  std::string call{};    // "group_by_window", "bucket_by_sequence_length"
  std::string params{};  // other parameters that distinguish two of them
};
// choose_from_datasets(), whose last input makes the choice, and sample_from_datasets().
struct Choose {
  bool sampled{};
  std::vector<double> weights{};  // of sampled inputs
  std::optional<uint64_t> seed{};
  bool rerandomize{};
  bool stop_on_empty{};
};
// Every batch in this many pieces, of which the last ones may have no rows.
struct SplitBatch {
  int64_t pieces;
};
struct WithSeed {
  uint64_t seed{};
};

struct WithOptions {
  DatasetOptions options{};
  bool by_worker{};  // every worker reads its results
};

using Spec =
    std::variant<FromSource, FromFiles, FromSequential, Take, Skip, Shard, Shuffle, Repeat, Batch,
                 Map, Prefetch, Filter, Enumerate, Unbatch, Rebatch, Interleave, Zip, Concatenate,
                 Cache, IgnoreErrors, AssertCardinality, TakeWhile, Unique, Scan, Window,
                 GroupByWindow, Choose, SplitBatch, WithSeed, WithOptions>;

struct Node {
  Spec spec{};
  std::vector<std::shared_ptr<const Node>> inputs{};  // none: a source; several: zip, concatenate

  int64_t cardinality = 0;
  int64_t ordinal = 0;       // how many nodes of this kind come before
  bool addressable = false;  // elements can be read by their SourceIndex up to here
  bool hand_sharded = false;
  int64_t depth = 1;  // stages of the longest chain up to here
  // The kinds of the elements' values, if they are known without reading one.
  std::optional<Element> kinds{};
  std::string name{};         // "shuffle(4)"
  std::string description{};  // "slices(10) > shuffle(4)"

  // The first input; null for a source.
  const std::shared_ptr<const Node>& input() const {
    static const std::shared_ptr<const Node> none;
    return inputs.empty() ? none : inputs.front();
  }
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&spec);
  }
  template <typename... Ts>
  bool is() const {
    return (std::holds_alternative<Ts>(spec) || ...);
  }
};

using NodePtr = std::shared_ptr<const Node>;

// At most this many stages may follow one another: each reads from the one before it on the same
// stack.
inline constexpr int64_t kMostStages = 1000;

// Throws InvalidArgument for more than kMostStages.
NodePtr make_node(Spec spec, std::vector<NodePtr> inputs);

// The description that a data set is, and back.
struct DatasetAccess {
  static const NodePtr& node(const Dataset& dataset) { return dataset.node_; }
  static Dataset of(NodePtr node) { return Dataset(std::move(node)); }
};

// The same pipeline, with these numbers in every shard(kShardHint, kShardHint); the node itself if
// there is none.
NodePtr with_hints_filled_in(const NodePtr& node, int64_t num_shards, int64_t index);

// The same pipeline, in which maps that are not deterministic keep the order of their input if a
// stage after them reads elements again or divides them: there another order would lose some
// elements and repeat others. `needed`: the reader of the pipeline does so too. Saved positions
// stay the same as in the given pipeline.
NodePtr in_order(const NodePtr& node, bool needed);

}  // namespace muster::inline v0_1::data::internal
