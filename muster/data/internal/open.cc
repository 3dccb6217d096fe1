#include "muster/data/internal/open.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/internal/assert_cardinality.h"
#include "muster/data/internal/batch.h"
#include "muster/data/internal/cache.h"
#include "muster/data/internal/choose.h"
#include "muster/data/internal/concatenate.h"
#include "muster/data/internal/enumerate.h"
#include "muster/data/internal/file_cache.h"
#include "muster/data/internal/filter.h"
#include "muster/data/internal/group_by_window.h"
#include "muster/data/internal/ignore_errors.h"
#include "muster/data/internal/interleave.h"
#include "muster/data/internal/map.h"
#include "muster/data/internal/parallel_map.h"
#include "muster/data/internal/pass_numbers.h"
#include "muster/data/internal/path_list.h"
#include "muster/data/internal/prefetch.h"
#include "muster/data/internal/read.h"
#include "muster/data/internal/rebatch.h"
#include "muster/data/internal/repeat.h"
#include "muster/data/internal/scan.h"
#include "muster/data/internal/seeded.h"
#include "muster/data/internal/sequential.h"
#include "muster/data/internal/shard.h"
#include "muster/data/internal/shuffle.h"
#include "muster/data/internal/skip.h"
#include "muster/data/internal/source_stream.h"
#include "muster/data/internal/split_batch.h"
#include "muster/data/internal/take.h"
#include "muster/data/internal/take_while.h"
#include "muster/data/internal/timed.h"
#include "muster/data/internal/unbatch.h"
#include "muster/data/internal/unique.h"
#include "muster/data/internal/window.h"
#include "muster/data/internal/zip.h"

namespace muster::inline v0_1::data::internal {
namespace {

template <typename T>
std::unique_ptr<Stream<T>> reorder(const Node& node, std::unique_ptr<Stream<T>> input,
                                   const Run& run) {
  if (const auto* take = node.as<Take>()) {
    return std::make_unique<TakeStream<T>>(std::move(input), take->count);
  }
  if (const auto* skip = node.as<Skip>()) {
    return std::make_unique<SkipStream<T>>(std::move(input), skip->count);
  }
  if (const auto* shard = node.as<Shard>()) {
    if (shard->is_hint()) {
      throw invalid_argument(
          fmt::format("{}: nothing fills in the workers of shard(kShardHint, kShardHint)",
                      node.description),
          "end the pipeline with with_options({.auto_shard_policy = AutoShardPolicy::kHint}); in a "
          "data set that a function opens, give shard() the numbers of an InputContext");
    }
    return std::make_unique<ShardStream<T>>(std::move(input), shard->num_shards, shard->index);
  }
  if (const auto* shuffle = node.as<Shuffle>()) {
    return std::make_unique<ShuffleStream<T>>(
        std::move(input),
        typename ShuffleStream<T>::Config{shuffle->buffer, shuffle->seed, shuffle->reshuffle,
                                          node.ordinal, node.input()->cardinality},
        run);
  }
  if (const auto* repeat = node.as<Repeat>()) {
    return std::make_unique<RepeatStream<T>>(std::move(input), repeat->count);
  }
  throw internal_error("no stream for " + node.description);
}

using ElementStream = std::unique_ptr<Stream<StreamElement>>;

ElementStream ahead(ElementStream stream, int64_t count,
                    std::shared_ptr<const std::function<bool()>> asked = nullptr) {
  if (count <= 0) return stream;
  return std::make_unique<PrefetchStream>(std::move(stream), count, std::move(asked));
}

// The prefetches of an addressable chain. They are moved after the batch: before it there are only
// integers.
int64_t prefetched(const Node& node) {
  int64_t count = 0;
  for (const Node* at = &node; at != nullptr; at = at->input().get()) {
    if (const auto* prefetch = at->as<Prefetch>()) count += prefetch->count;
  }
  return count;
}

// Whether a map of the chain wants several calls at once.
bool maps_in_parallel(const Node& node) {
  for (const Node* at = &node; at != nullptr; at = at->input().get()) {
    if (const auto* map = at->as<Map>(); map != nullptr && calls_of(*map) > 1) return true;
  }
  return false;
}

// The replicas between which the rows of `node` are divided.
Sharding sharding_at(const Node& node, const Run& run) {
  return &node == run.sharded_node ? run.sharding : Sharding{};
}

ElementStream open_batch(const NodePtr& node, const Batch& batch, const Run& run) {
  const NodePtr& input = node->input();
  const Sharding sharding = sharding_at(*node, run);
  if (input->addressable && batch.padding == nullptr) {
    return ahead(std::make_unique<BatchStream<SourceIndex>>(
                     [input, &run] { return open_indices(*input, run); },
                     Collator<SourceIndex>(SourceReader(input, run), *node), *node, sharding),
                 (prefetched(*input) + batch.size - 1) / batch.size);
  }
  return std::make_unique<BatchStream<StreamElement>>(
      [input, &run] { return open_elements(input, run); }, Collator<StreamElement>(*node), *node,
      sharding);
}

ElementStream open_map(const NodePtr& node, const Map& map, const Run& run) {
  ElementStream input = open_elements(node->input(), run);
  if (calls_of(map) > 1 || !map.deterministic) {
    return std::make_unique<ParallelMapStream>(std::move(input), MapStage{node}, run);
  }
  return std::make_unique<MapStream>(std::move(input), MapStage{node}, run);
}

// Whether each replica has elements of its own here.
bool is_sharded(const Node& node, const Run& run) {
  if (run.sharding.num_replicas == 1) return false;
  for (const Node* at = &node; at != nullptr; at = at->input().get()) {
    if (at == run.sharded_node) return true;
  }
  return false;
}

ElementStream open_cache(const Node& node, const Cache& cache, ElementStream input,
                         const Run& run) {
  const int64_t numbers = pass_numbers_of(*node.input());
  if (cache.path.empty()) return std::make_unique<MemoryCacheStream>(std::move(input), numbers);
  FileCacheStream::Keeping keeping{.spec = cache, .input = node.input(), .part = ""};
  if (is_sharded(node, run)) {
    keeping.part = fmt::format(".{}-of-{}", run.sharding.replica, run.sharding.num_replicas);
    keeping.global_batches = run.sharding.divides(false);
  }
  return std::make_unique<FileCacheStream>(std::move(input), std::move(keeping), numbers);
}

// Opens a stage that reads one input, which is open.
ElementStream open_selection(const NodePtr& node, ElementStream input, const Run& run) {
  if (const auto* prefetch = node->as<Prefetch>())
    return ahead(std::move(input), prefetch->count, run.interrupt_of(node.get()));
  if (node->is<Filter>()) return std::make_unique<FilterStream>(std::move(input), node, run);
  if (const auto* enumerate = node->as<Enumerate>()) {
    return std::make_unique<EnumerateStream>(std::move(input), enumerate->start);
  }
  if (node->is<Unbatch>()) return std::make_unique<UnbatchStream>(std::move(input));
  if (const auto* split = node->as<SplitBatch>()) {
    return std::make_unique<SplitBatchStream>(std::move(input), split->pieces);
  }
  if (node->is<TakeWhile>()) return std::make_unique<TakeWhileStream>(std::move(input), node);
  if (node->is<Unique>()) return std::make_unique<UniqueStream>(std::move(input), run);
  if (node->is<Scan>()) return std::make_unique<ScanStream>(std::move(input), node);
  if (const auto* ignore = node->as<IgnoreErrors>()) {
    return std::make_unique<IgnoreErrorsStream>(std::move(input), ignore->log_warning, run);
  }
  if (const auto* cache = node->as<Cache>())
    return open_cache(*node, *cache, std::move(input), run);
  if (const auto* assert = node->as<AssertCardinality>()) {
    return std::make_unique<AssertCardinalityStream>(std::move(input), assert->expected);
  }
  return reorder(*node, std::move(input), run);
}

ElementStream open_stage(const NodePtr& node, const Run& run) {
  if (node->addressable && !maps_in_parallel(*node)) {
    return ahead(std::make_unique<ReadStream>(open_indices(*node, run), SourceReader(node, run)),
                 prefetched(*node));
  }
  if (const auto* batch = node->as<Batch>()) return open_batch(node, *batch, run);
  if (const auto* map = node->as<Map>()) return open_map(node, *map, run);
  if (node->is<FromFiles, FromSequential>()) return std::make_unique<SequentialStream>(*node, run);
  if (node->is<Zip>()) return std::make_unique<ZipStream>(node, run);
  if (node->is<Concatenate>()) return std::make_unique<ConcatenateStream>(node, run);
  if (node->is<Interleave>()) return std::make_unique<InterleaveStream>(node, run);
  if (node->is<Choose>()) return std::make_unique<ChooseStream>(node, run);
  if (node->is<Window>()) return std::make_unique<WindowStream>(node, run);
  if (node->is<GroupByWindow>()) return std::make_unique<GroupByWindowStream>(node, run);
  if (const auto* with = node->as<WithSeed>()) {
    return std::make_unique<SeededStream>(node->input(), run, with->seed);
  }
  const NodePtr& before = node->input();
  if (const auto* rebatch = node->as<Rebatch>()) {
    return std::make_unique<RebatchStream>([before, &run] { return open_elements(before, run); },
                                           *rebatch, sharding_at(*node, run));
  }
  return open_selection(node, open_elements(before, run), run);
}

StageClock& clock_of(const Node& node, const Run& run) {
  if (run.scope().empty()) return run.clocks().of(node.description, node.name);
  // Data sets that a stage makes while it runs may differ in numbers and names.
  int64_t depth = 0;
  for (const Node* at = &node; at != nullptr; at = at->input().get()) ++depth;
  const std::string kind = node.name.substr(0, node.name.find_first_of("( "));
  return run.clocks().of(fmt::format("{}{} {}", run.scope(), depth, kind), kind);
}

}  // namespace

std::unique_ptr<Stream<SourceIndex>> open_indices(const Node& node, const Run& run) {
  if (const auto* from = node.as<FromSource>()) {
    const auto* paths = dynamic_cast<const PathList*>(from->source.get());
    return std::make_unique<SourceStream>(from->source->kind(), from->source->size(),
                                          paths == nullptr ? "" : paths->digest());
  }
  std::unique_ptr<Stream<SourceIndex>> input = open_indices(*node.input(), run);
  if (node.is<Map, Prefetch, WithOptions>()) return input;
  return reorder(node, std::move(input), run);
}

ElementStream open_elements(const NodePtr& node, const Run& run) {
  if (node->is<WithOptions>()) return open_elements(node->input(), run);
  ElementStream stage = open_stage(node, run);  // the clocks of earlier stages are made first
  return std::make_unique<TimedStream>(std::move(stage), clock_of(*node, run));
}

}  // namespace muster::inline v0_1::data::internal
