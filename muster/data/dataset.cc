#include "muster/data/dataset.h"

#include <torch/torch.h>

#include <limits>

#include "muster/data/internal/elements.h"
#include "muster/data/internal/node.h"

namespace muster::inline v0_1 {

using data::internal::json;
using data::internal::make_node;
using data::internal::Node;
namespace in = data::internal;

namespace {

std::string plural(int64_t n, std::string_view one) {
  return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
}

// Bounded so that sizes can be multiplied by replicas; no batch of that many rows fits anywhere.
void check_batch(std::string_view call, int64_t size) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (size >= 1 && size <= kMost) return;
  throw invalid_argument(
      fmt::format("{}({}): size must be at least 1 and at most {}", call, size, kMost));
}

class RunningIterator final : public Iterator {
 public:
  RunningIterator(std::shared_ptr<const Node> node, const IteratorOptions& options,
                  const Node* dealing_node)
      : node_(std::move(node)) {
    run_.seed = options.seed;
    run_.sharding = options.sharding;
    run_.dealing_node = dealing_node;
    stream_ = in::open_items(node_, run_);
    stream_->start(0);
  }
  ~RunningIterator() override { run_.stopping = true; }

  bool next(Element* out) override {
    if (stream_->read(&item_, 1) == 0) return false;
    if (item_.error != nullptr) std::rethrow_exception(item_.error);
    *out = std::move(item_.element);
    return true;
  }

  json save() const override {
    in::Marks marks;
    stream_->mark(marks);
    in::MarkReader reader(marks);
    return {{"format", kFormat}, {"seed", run_.seed}, {"stream", stream_->save(reader)}};
  }

  void restore(const json& state) override {
    if (!state.is_object() || state.value("format", json()) != kFormat ||
        !state.contains("stream") || !state.contains("seed") ||
        !state["seed"].is_number_unsigned()) {
      throw invalid_argument(
          fmt::format("this is no saved input position: {}", state.dump().substr(0, 200)),
          fmt::format("a position has \"format\": \"{}\"", kFormat));
    }
    in::check_identity(state["stream"], stream_->identity());
    const uint64_t seed = run_.seed;
    stream_->start(0);  // ends threads, which read the seed
    try {
      run_.seed = state["seed"].get<uint64_t>();
      stream_->restore(state["stream"], 0);
    } catch (...) {
      run_.seed = seed;
      stream_->start(0);
      throw;
    }
  }

  Position position() const override {
    in::Marks marks;
    stream_->mark(marks);
    in::MarkReader reader(marks);
    return stream_->position(reader);
  }

  int64_t remaining() const override {
    const Node* node = node_.get();
    while (is_any_of<in::Map, in::Prefetch>(*node)) node = node->input.get();
    const auto* batch = std::get_if<in::Batch>(&node->spec);
    if (batch != nullptr) node = node->input.get();
    // position() counts what these hand on, and nothing else.
    for (const Node* inner = node; inner != nullptr; inner = inner->input.get()) {
      if (!is_any_of<in::FromSource, in::Shuffle, in::Repeat, in::Map, in::Prefetch>(*inner)) {
        return kUnknown;
      }
    }
    if (node->cardinality < 0) return node->cardinality;
    const int64_t left = std::max<int64_t>(0, node->cardinality - position().elements_total);
    if (batch == nullptr) return left;
    const int64_t round =
        batch->size *
        (batch->global || run_.sharding.global_batches ? 1 : run_.sharding.num_replicas);
    return left / round + (!batch->drop_remainder && left % round != 0 ? 1 : 0);
  }

 private:
  template <typename... Specs>
  static bool is_any_of(const Node& node) {
    return (std::holds_alternative<Specs>(node.spec) || ...);
  }

  static constexpr const char* kFormat = "muster.input.1";

  const std::shared_ptr<const Node> node_;
  in::Run run_;
  std::unique_ptr<in::Stream<in::Item>> stream_;
  in::Item item_;
};

}  // namespace

Dataset Dataset::from_source(std::shared_ptr<const Source> source) {
  if (source == nullptr) throw invalid_argument("a data set needs a source, got nullptr");
  return Dataset(make_node(in::FromSource{std::move(source)}, nullptr));
}

Dataset Dataset::take(int64_t n) const {
  if (n < -1) throw invalid_argument(fmt::format("take({}): pass a count, or -1 for all", n));
  return Dataset(make_node(in::Take{n}, node_));
}

Dataset Dataset::skip(int64_t n) const {
  if (n < -1) throw invalid_argument(fmt::format("skip({}): pass a count, or -1 for all", n));
  return Dataset(make_node(in::Skip{n}, node_));
}

Dataset Dataset::shard(int64_t num_shards, int64_t index) const {
  if (num_shards < 1) {
    throw invalid_argument(
        fmt::format("shard({}, {}): num_shards must be at least 1", num_shards, index));
  }
  if (index < 0 || index >= num_shards) {
    throw invalid_argument(
        fmt::format("shard({}, {}): index must be between 0 and num_shards-1", num_shards, index),
        fmt::format("pass 0 to {}", num_shards - 1));
  }
  // The same elements in the same order; what belongs to others is then not read ahead.
  if (const auto* prefetch = std::get_if<in::Prefetch>(&node_->spec))
    return Dataset(node_->input).shard(num_shards, index).prefetch(prefetch->count);
  return Dataset(make_node(in::Shard{num_shards, index}, node_));
}

Dataset Dataset::repeat(int64_t count) const {
  if (count < -1) {
    throw invalid_argument(
        fmt::format("repeat({}): pass a number of epochs, or -1 to repeat without end", count));
  }
  return Dataset(make_node(in::Repeat{count}, node_));
}

Dataset Dataset::shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  if (buffer_size < 1) {
    // shuffle(cardinality()): not the size is wrong.
    if (buffer_size == 0 && cardinality() == 0) {
      throw invalid_argument(fmt::format("the data set {} is empty (0 rows)", describe()),
                             "check its files and what is taken of them: take(0), skip() and "
                             "shard() may have left nothing");
    }
    throw invalid_argument(fmt::format("shuffle({}): buffer_size must be at least 1", buffer_size),
                           "a buffer of the data set's size shuffles it completely");
  }
  return Dataset(
      make_node(in::Shuffle{buffer_size, options.seed, options.reshuffle_each_iteration}, node_));
}

Dataset Dataset::batch(int64_t size, const BatchOptions& options) const {
  check_batch("batch", size);
  return Dataset(make_node(in::Batch{size, false, options.drop_remainder}, node_));
}

Dataset Dataset::global_batch(int64_t size, const BatchOptions& options) const {
  check_batch("global_batch", size);
  return Dataset(make_node(in::Batch{size, true, options.drop_remainder}, node_));
}

Dataset Dataset::map(MapFunction fn, const MapOptions& options) const {
  if (!fn) throw invalid_argument("map() got an empty function");
  return Dataset(make_node(
      in::Map{[fn = std::move(fn)](const Element& element, RandomKey) { return fn(element); },
              false, options.name},
      node_));
}

Dataset Dataset::map(KeyedMapFunction fn, const MapOptions& options) const {
  if (!fn) throw invalid_argument("map() got an empty function");
  return Dataset(make_node(in::Map{std::move(fn), true, options.name}, node_));
}

Dataset Dataset::prefetch(int64_t n) const {
  if (n < 0) throw invalid_argument(fmt::format("prefetch({}): pass a count of elements", n));
  return Dataset(make_node(in::Prefetch{n}, node_));
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
  const Node* last_batch = node_.get();
  while (last_batch != nullptr && !std::holds_alternative<in::Batch>(last_batch->spec)) {
    last_batch = last_batch->input.get();
  }
  if (num_replicas > 1 && last_batch == nullptr) {
    throw invalid_argument(
        fmt::format("the data set {} cannot be dealt to {}: it has no batches", describe(),
                    plural(num_replicas, "replica")),
        "call batch(b) with the batch size of one replica, or global_batch(n * b)");
  }
  return std::make_unique<RunningIterator>(node_, options, last_batch);
}

}  // namespace muster::inline v0_1

namespace muster::inline v0_1::data::internal {
namespace {

struct Facts {
  int64_t cardinality;
  std::string name;
};

std::string call(std::string_view name, int64_t argument) {
  return fmt::format("{}({})", name, argument);
}

Facts facts_of(const Spec& spec, int64_t before) {
  const bool known = before >= 0;
  if (const auto* from = std::get_if<FromSource>(&spec)) {
    return {from->source->size(), call(from->source->kind(), from->source->size())};
  }
  if (const auto* take = std::get_if<Take>(&spec)) {
    const int64_t after = take->count < 0       ? before
                          : known               ? std::min(before, take->count)
                          : before == kInfinite ? take->count
                                                : kUnknown;
    return {after, call("take", take->count)};
  }
  if (const auto* skip = std::get_if<Skip>(&spec)) {
    const int64_t after = skip->count < 0 ? 0
                          : known         ? std::max<int64_t>(0, before - skip->count)
                                          : before;
    return {after, call("skip", skip->count)};
  }
  if (const auto* shard = std::get_if<Shard>(&spec)) {
    const int64_t after =
        known ? before / shard->num_shards + (shard->index < before % shard->num_shards ? 1 : 0)
              : before;
    return {after, fmt::format("shard({}, {})", shard->num_shards, shard->index)};
  }
  if (const auto* shuffle = std::get_if<Shuffle>(&spec)) {
    return {before, call("shuffle", shuffle->buffer)};
  }
  if (const auto* repeat = std::get_if<Repeat>(&spec)) {
    if (repeat->count < 0) return {before == 0 ? 0 : kInfinite, "repeat"};
    int64_t after = repeat->count == 0 ? 0 : before;
    // More passes than can be counted are without end.
    if (known && __builtin_mul_overflow(before, repeat->count, &after)) after = kInfinite;
    return {after, call("repeat", repeat->count)};
  }
  if (const auto* batch = std::get_if<Batch>(&spec)) {
    const bool part = !batch->drop_remainder && known && before % batch->size != 0;
    return {known ? before / batch->size + (part ? 1 : 0) : before,
            call(batch->global ? "global_batch" : "batch", batch->size)};
  }
  if (const auto* map = std::get_if<Map>(&spec)) {
    return {before, map->name.empty() ? "map" : fmt::format("map '{}'", map->name)};
  }
  return {before, call("prefetch", std::get<Prefetch>(spec).count)};
}

std::string chain_of(const json& state) {
  if (!state.is_object()) return "?";
  const std::string kind = state.contains("kind") && state["kind"].is_string()
                               ? state["kind"].get<std::string>()
                               : std::string("?");
  return state.contains("input") ? chain_of(state["input"]) + " > " + kind : kind;
}

}  // namespace

std::shared_ptr<const Node> make_node(Spec spec, std::shared_ptr<const Node> input) {
  auto node = std::make_shared<Node>();
  Facts facts = facts_of(spec, input == nullptr ? 0 : input->cardinality);
  node->cardinality = facts.cardinality;
  node->description = std::move(facts.name);
  node->addressable = !std::holds_alternative<Batch>(spec);
  node->hand_sharded = std::holds_alternative<Shard>(spec);
  for (const Node* at = input.get(); at != nullptr; at = at->input.get()) {
    if (at->spec.index() == spec.index()) ++node->ordinal;
  }
  if (input != nullptr) {
    node->description = input->description + " > " + node->description;
    node->addressable = node->addressable && input->addressable;
    node->hand_sharded = node->hand_sharded || input->hand_sharded;
  }
  node->spec = std::move(spec);
  node->input = std::move(input);
  return node;
}

int64_t saved_count(const json& state, const char* key) {
  const auto found = state.find(key);
  if (found == state.end() || !found->is_number_integer() || found->get<int64_t>() < 0) {
    throw invalid_argument(fmt::format("the saved position of {} has no valid \"{}\": {}",
                                       state.value("kind", "?"), key, state.dump().substr(0, 200)));
  }
  return found->get<int64_t>();
}

void check_identity(const json& saved, const json& here) {
  const std::string hint = "a position fits the pipeline and the size of the data it was saved by";
  if (chain_of(saved) != chain_of(here)) {
    throw invalid_argument(
        fmt::format("the saved position belongs to another input pipeline: saved by {}, this is {}",
                    chain_of(saved), chain_of(here)),
        hint);
  }
  const json *was = &saved, *is = &here;
  for (; is != nullptr; was = is->contains("input") ? &(*was)["input"] : nullptr,
                        is = is->contains("input") ? &(*is)["input"] : nullptr) {
    for (const auto& [key, value] : is->items()) {
      if (key == "input") continue;
      const json other = was->value(key, json("absent"));
      if (other != value) {
        throw invalid_argument(
            fmt::format("the saved position belongs to another input pipeline: {} of its {} is {}, "
                        "here it is {} (pipeline: {})",
                        key, is->value("kind", "?"), other.dump(), value.dump(), chain_of(here)),
            hint);
      }
    }
  }
}

}  // namespace muster::inline v0_1::data::internal
