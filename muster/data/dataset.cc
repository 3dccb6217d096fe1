#include "muster/data/dataset.h"

#include <limits>

#include "muster/base/error.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/data/internal/node.h"
#include "muster/data/internal/running_iterator.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

using data::internal::make_node;
using data::internal::Node;
using data::internal::NodePtr;
namespace in = data::internal;

namespace {

// Bounded so that sizes can be multiplied by replicas; no batch of that many rows fits anywhere.
void check_batch(std::string_view call, int64_t size) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (size >= 1 && size <= kMost) return;
  throw invalid_argument(
      fmt::format("{}({}): size must be at least 1 and at most {}", call, size, kMost));
}

void check_function(std::string_view call, bool given) {
  if (!given) throw invalid_argument(fmt::format("{}() got an empty function", call));
}

int64_t checked_calls(int64_t calls) {
  constexpr int64_t kMost = 1024;
  if (calls == kAutotune || (calls >= 1 && calls <= kMost)) return calls;
  throw invalid_argument(
      fmt::format("map(): num_parallel_calls is {}", calls),
      fmt::format("pass 1 to {}, or kAutotune for the cores of this task", kMost));
}

// The batch of a pipeline whose rows are divided between replicas: only stages that hand on batches
// one to one may follow it. Sets `obstacle` to a stage that does not.
const Node* sharded_node(const Node* node, const Node** obstacle) {
  while (node != nullptr && !node->is<in::Batch, in::Rebatch>()) {
    if (!node->is<in::Map, in::Prefetch, in::Take, in::Skip, in::Shard, in::Shuffle, in::Repeat,
                  in::Enumerate, in::Cache, in::AssertCardinality, in::WithSeed,
                  in::WithOptions>()) {
      *obstacle = node;
      return nullptr;
    }
    node = node->input().get();
  }
  return node;
}

}  // namespace

Dataset Dataset::from_source(std::shared_ptr<const Source> source) {
  if (source == nullptr) throw invalid_argument("a data set needs a source, got nullptr");
  return Dataset(make_node(in::FromSource{std::move(source)}, {}));
}

Dataset Dataset::from_sequential(std::shared_ptr<const SequentialSource> source) {
  if (source == nullptr) throw invalid_argument("a data set needs a source, got nullptr");
  return Dataset(make_node(in::FromSequential{std::move(source)}, {}));
}

Dataset Dataset::from_files(std::vector<std::string> files,
                            std::shared_ptr<const FileFormat> format) {
  if (format == nullptr) throw invalid_argument("from_files() needs a format, got nullptr");
  in::FromFiles from{.files = {}, .format = std::move(format)};
  for (std::string& path : files) {
    const auto number = static_cast<int64_t>(from.files.size());
    if (path.empty()) {
      throw invalid_argument(
          fmt::format("{}: the path of file {} is empty", from.format->kind(), number));
    }
    from.files.push_back({std::move(path), number});
  }
  return Dataset(make_node(std::move(from), {}));
}

Dataset Dataset::zip(std::vector<Dataset> datasets) {
  if (datasets.empty()) throw invalid_argument("zip() needs at least one data set, got none");
  std::vector<NodePtr> inputs;
  for (const Dataset& dataset : datasets) inputs.push_back(dataset.node_);
  return Dataset(make_node(in::Zip{}, std::move(inputs)));
}

Dataset Dataset::zip(std::vector<std::pair<std::string, Dataset>> datasets) {
  if (datasets.empty()) throw invalid_argument("zip() needs at least one data set, got none");
  std::vector<NodePtr> inputs;
  in::Zip zip;
  for (const auto& [key, dataset] : datasets) {
    if (std::find(zip.keys.begin(), zip.keys.end(), key) != zip.keys.end()) {
      throw invalid_argument(fmt::format("zip(): the key \"{}\" is given twice", key));
    }
    zip.keys.push_back(key);
    inputs.push_back(dataset.node_);
  }
  return Dataset(make_node(std::move(zip), std::move(inputs)));
}

Dataset Dataset::take(int64_t n) const {
  if (n < -1) throw invalid_argument(fmt::format("take({}): pass a count, or -1 for all", n));
  return Dataset(make_node(in::Take{n}, {node_}));
}

Dataset Dataset::skip(int64_t n) const {
  if (n < -1) throw invalid_argument(fmt::format("skip({}): pass a count, or -1 for all", n));
  return Dataset(make_node(in::Skip{n}, {node_}));
}

Dataset Dataset::shard(int64_t num_shards, int64_t index) const {
  const bool hint = num_shards == kShardHint && index == kShardHint;
  if (num_shards < 1 && !hint) {
    throw invalid_argument(
        fmt::format("shard({}, {}): num_shards must be at least 1", num_shards, index));
  }
  if (!hint && (index < 0 || index >= num_shards)) {
    throw invalid_argument(
        fmt::format("shard({}, {}): index must be between 0 and num_shards-1", num_shards, index),
        fmt::format("pass 0 to {}", num_shards - 1));
  }
  // The same elements in the same order, but the shares of others are not read ahead.
  if (const auto* prefetch = node_->as<in::Prefetch>())
    return Dataset(node_->input()).shard(num_shards, index).prefetch(prefetch->count);
  return Dataset(make_node(in::Shard{num_shards, index}, {node_}));
}

Dataset Dataset::repeat(int64_t count) const {
  if (count < -1) {
    throw invalid_argument(
        fmt::format("repeat({}): pass a number of epochs, or -1 to repeat without end", count));
  }
  return Dataset(make_node(in::Repeat{count}, {node_}));
}

Dataset Dataset::shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  if (buffer_size < 1) {
    // shuffle(cardinality()): not the size is wrong.
    if (buffer_size == 0 && cardinality() == 0) {
      throw invalid_argument(fmt::format("the data set {} is empty (0 rows)", describe()),
                             "check its files, and its take(0), skip() and shard(), which may have "
                             "removed everything");
    }
    throw invalid_argument(fmt::format("shuffle({}): buffer_size must be at least 1", buffer_size),
                           "a buffer of the data set's size shuffles it completely");
  }
  return Dataset(
      make_node(in::Shuffle{buffer_size, options.seed, options.reshuffle_each_iteration}, {node_}));
}

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  check_batch("batch", size);
  return Dataset(make_node(in::Batch{size, false, options.drop_remainder, nullptr}, {node_}));
}

Dataset Dataset::global_batch(int64_t size, const BatchOptions& options) const {
  check_batch("global_batch", size);
  return Dataset(make_node(in::Batch{size, true, options.drop_remainder, nullptr}, {node_}));
}

Dataset Dataset::map(MapFunction fn, const MapOptions& options) const {
  check_function("map", fn != nullptr);
  return Dataset(make_node(
      in::Map{[fn = std::move(fn)](const Element& element, RandomKey) { return fn(element); },
              false, options.name, checked_calls(options.num_parallel_calls),
              options.deterministic},
      {node_}));
}

Dataset Dataset::map(KeyedMapFunction fn, const MapOptions& options) const {
  check_function("map", fn != nullptr);
  return Dataset(
      make_node(in::Map{std::move(fn), true, options.name,
                        checked_calls(options.num_parallel_calls), options.deterministic},
                {node_}));
}

Dataset Dataset::prefetch(int64_t n) const {
  if (n < 0) throw invalid_argument(fmt::format("prefetch({}): pass a count of elements", n));
  return Dataset(make_node(in::Prefetch{n}, {node_}));
}

Dataset Dataset::padded_batch(int64_t size, const PaddingOptions& options) const {
  check_batch("padded_batch", size);
  for (const Shape& shape : options.padded_shapes) {
    for (const int64_t extent : shape) {
      if (extent >= -1) continue;
      throw invalid_argument(fmt::format("padded_batch: the padded shape {} has an axis of {}",
                                         muster::describe(shape), extent),
                             "give sizes, or -1 for the largest of a batch");
    }
  }
  return Dataset(make_node(in::Batch{size, false, options.drop_remainder,
                                     std::make_shared<const PaddingOptions>(options)},
                           {node_}));
}

Dataset Dataset::unbatch() const { return Dataset(make_node(in::Unbatch{}, {node_})); }

Dataset Dataset::rebatch(std::vector<int64_t> sizes, const BatchOptions& options) const {
  bool some = false;
  for (const int64_t size : sizes) {
    if (size != 0) check_batch("rebatch", size);
    some = some || size > 0;
  }
  if (!some) {
    throw invalid_argument(
        fmt::format("rebatch({}): at least one size must be above 0", fmt::join(sizes, ", ")));
  }
  return Dataset(make_node(in::Rebatch{std::move(sizes), options.drop_remainder}, {node_}));
}

Dataset Dataset::filter(Predicate fn, const std::string& name) const {
  check_function("filter", fn != nullptr);
  return Dataset(make_node(in::Filter{std::move(fn), name}, {node_}));
}

Dataset Dataset::enumerate(int64_t start) const {
  return Dataset(make_node(in::Enumerate{start}, {node_}));
}

Dataset Dataset::concatenate(const Dataset& other) const {
  const std::optional<Element>&here = node_->kinds, &there = other.node_->kinds;
  if (here && there && !in::same_kinds(*here, *there)) {
    throw in::unequal_kinds(fmt::format("concatenate(): the other data set, {},", other.describe()),
                            *there, *here);
  }
  return Dataset(make_node(in::Concatenate{}, {node_, other.node_}));
}

Dataset Dataset::flat_map(FlatMapFunction fn, const std::string& name) const {
  check_function("flat_map", fn != nullptr);
  return Dataset(make_node(in::Interleave{std::move(fn), true, 1, 1, false, name}, {node_}));
}

Dataset Dataset::interleave(FlatMapFunction fn, const InterleaveOptions& options) const {
  check_function("interleave", fn != nullptr);
  constexpr int64_t kMost = 4096;
  for (const auto& [length, what] : {std::pair{options.cycle_length, "cycle_length"},
                                     std::pair{options.block_length, "block_length"}}) {
    if (length >= 1 && (length <= kMost || what[0] == 'b')) continue;
    throw invalid_argument(fmt::format("interleave(): {} is {}", what, length),
                           fmt::format("pass at least 1, and at most {} data sets at once", kMost));
  }
  return Dataset(make_node(in::Interleave{std::move(fn), false, options.cycle_length,
                                          options.block_length, options.parallel, options.name},
                           {node_}));
}

Dataset Dataset::cache(const std::string& path) const {
  return Dataset(make_node(in::Cache{.path = path}, {node_}));
}

Dataset Dataset::ignore_errors(bool log_warning) const {
  return Dataset(make_node(in::IgnoreErrors{log_warning}, {node_}));
}

Dataset Dataset::assert_cardinality(int64_t expected) const {
  if (expected < 0 && expected != kInfinite) {
    throw invalid_argument(
        fmt::format("assert_cardinality({}): pass a count, or kInfinite", expected));
  }
  if (cardinality() == kUnknown) {
    return Dataset(make_node(in::AssertCardinality{expected}, {node_}));
  }
  if (cardinality() == expected) return *this;
  throw invalid_argument(fmt::format(
      "assert_cardinality({}): the data set {} has {} elements", expected, describe(),
      cardinality() == kInfinite ? std::string("endless") : std::to_string(cardinality())));
}

Dataset Dataset::snapshot(const std::string& path, const SnapshotOptions& options) const {
  if (path.empty()) throw invalid_argument("snapshot(): the path of its folder is empty");
  return Dataset(make_node(
      in::Cache{.path = path, .snapshot = true, .compression = options.compression}, {node_}));
}

Dataset Dataset::with_seed(uint64_t seed) const {
  return Dataset(make_node(in::WithSeed{seed}, {node_}));
}

Dataset Dataset::with_options(const DatasetOptions& options) const {
  return Dataset(make_node(in::WithOptions{options, false}, {node_}));
}

DatasetOptions Dataset::options() const {
  for (const Node* node = node_.get(); node != nullptr; node = node->input().get()) {
    const auto* with = node->as<in::WithOptions>();
    if (with != nullptr && !with->by_worker) return with->options;
  }
  return {};
}

int64_t Dataset::cardinality() const { return node_->cardinality; }
bool Dataset::hand_sharded() const { return node_->hand_sharded; }
std::string Dataset::describe() const { return node_->description; }

std::unique_ptr<Iterator> Dataset::iterator(const IteratorOptions& options) const {
  const int64_t num_replicas = options.sharding.num_replicas, replica = options.sharding.replica;
  if (num_replicas < 1 || replica < 0 || replica >= num_replicas) {
    throw invalid_argument(fmt::format("replica {} of {} cannot be: replicas are numbered from 0",
                                       replica, num_replicas));
  }
  const bool hinted = this->options().auto_shard_policy == AutoShardPolicy::kHint;
  const NodePtr node =
      in::in_order(hinted ? in::with_hints_filled_in(node_, 1, 0) : node_, num_replicas > 1);
  const Node* obstacle = nullptr;
  const Node* sharded = sharded_node(node.get(), &obstacle);
  if (num_replicas > 1 && sharded == nullptr) {
    throw invalid_argument(
        fmt::format("the data set {} cannot be dealt to {} replicas: {}", describe(), num_replicas,
                    obstacle == nullptr || obstacle->inputs.empty()
                        ? std::string("it has no batches")
                        : fmt::format("it has no batches after {}", obstacle->name)),
        obstacle != nullptr && obstacle->is<in::IgnoreErrors>()
            ? "put ignore_errors() in front of batch()"
        : obstacle != nullptr && obstacle->is<in::GroupByWindow>()
            ? "its output is passed on undivided: give each worker separate data, with shard() "
              "before it, and one replica"
            : "end it with global_batch(n), of n examples over all replicas, or with batch(n) for "
              "each; elements that are batches already, as a loader makes them, are taken apart in "
              "front of it: unbatch().global_batch(n)");
  }
  if (options.sharding.divides(false) && num_replicas > 1 && sharded->is<in::Rebatch>()) {
    throw invalid_argument(
        fmt::format("the batches of {} cannot be divided between {} replicas: {} says how large "
                    "they are",
                    describe(), num_replicas, sharded->name),
        "end the pipeline with batch(n), where n is for all replicas");
  }
  return in::make_iterator(node, options, sharded);
}

}  // namespace muster::inline v0_1
