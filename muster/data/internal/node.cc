#include "muster/data/internal/node.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

struct Facts {
  int64_t cardinality{};
  std::string name{};
};

std::string call(std::string_view name, int64_t argument) {
  return fmt::format("{}({})", name, argument);
}
std::string call(std::string_view name, const std::string& given) {
  return given.empty() ? std::string(name) : fmt::format("{} '{}'", name, given);
}

// The sum over the elements of all inputs in turn.
int64_t sum_of(const std::vector<NodePtr>& inputs) {
  int64_t sum = 0;
  for (const NodePtr& input : inputs) {
    if (input->cardinality == kInfinite || sum == kInfinite) {
      sum = kInfinite;
    } else if (input->cardinality == kUnknown || sum == kUnknown) {
      sum = kUnknown;
    } else {
      sum += input->cardinality;
    }
  }
  return sum;
}

// As many elements as the shortest input has.
int64_t least_of(const std::vector<NodePtr>& inputs) {
  int64_t least = kInfinite;
  for (const NodePtr& input : inputs) {
    const int64_t n = input->cardinality;
    if (n == kInfinite) continue;
    if (n == 0) return 0;
    least = n == kUnknown || least == kUnknown ? kUnknown
            : least == kInfinite               ? n
                                               : std::min(least, n);
  }
  return least;
}

// The results of a node and its name; `before` is the cardinality of its first input.
struct FactsOf {
  const std::vector<NodePtr>& inputs;
  int64_t before;
  bool known = before >= 0;

  Facts operator()(const FromSource& from) const {
    return {from.source->size(), call(from.source->kind(), from.source->size())};
  }
  Facts operator()(const FromFiles& from) const {
    const auto n = static_cast<int64_t>(from.files.size());
    return {n == 0 ? 0 : kUnknown,
            fmt::format("{}({} file{})", from.format->kind(), n, n == 1 ? "" : "s")};
  }
  Facts operator()(const FromSequential& from) const { return {kUnknown, from.source->kind()}; }
  Facts operator()(const Take& take) const {
    const int64_t after = take.count < 0        ? before
                          : take.count == 0     ? 0
                          : known               ? std::min(before, take.count)
                          : before == kInfinite ? take.count
                                                : kUnknown;
    return {after, call("take", take.count)};
  }
  Facts operator()(const Skip& skip) const {
    const int64_t after = skip.count < 0 ? 0
                          : known        ? std::max<int64_t>(0, before - skip.count)
                                         : before;
    return {after, call("skip", skip.count)};
  }
  Facts operator()(const Shard& shard) const {
    if (shard.is_hint()) return {before, "shard(hint)"};
    const int64_t after =
        known ? before / shard.num_shards + (shard.index < before % shard.num_shards ? 1 : 0)
              : before;
    return {after, fmt::format("shard({}, {})", shard.num_shards, shard.index)};
  }
  Facts operator()(const Shuffle& shuffle) const {
    return {before, call("shuffle", shuffle.buffer)};
  }
  Facts operator()(const Repeat& repeat) const {
    if (repeat.count < 0) return {before == 0 ? 0 : kInfinite, "repeat"};
    int64_t after = repeat.count == 0 ? 0 : before;
    // More passes than can be counted are without end.
    if (known && __builtin_mul_overflow(before, repeat.count, &after)) after = kInfinite;
    return {after, call("repeat", repeat.count)};
  }
  Facts operator()(const Batch& batch) const {
    const bool part = !batch.drop_remainder && known && before % batch.size != 0;
    return {known ? before / batch.size + (part ? 1 : 0) : before,
            call(batch.padding  ? "padded_batch"
                 : batch.global ? "global_batch"
                                : "batch",
                 batch.size)};
  }
  Facts operator()(const Map& map) const { return {before, call("map", map.name)}; }
  Facts operator()(const Prefetch& prefetch) const {
    return {before, call("prefetch", prefetch.count)};
  }
  Facts operator()(const Filter& filter) const {
    return {before == 0 ? 0 : kUnknown, call("filter", filter.name)};
  }
  Facts operator()(const Enumerate&) const { return {before, "enumerate"}; }
  Facts operator()(const Unbatch&) const {
    return {before == 0 || before == kInfinite ? before : kUnknown, "unbatch"};
  }
  Facts operator()(const Rebatch& rebatch) const {
    return {before == 0 || before == kInfinite ? before : kUnknown,
            fmt::format("rebatch({})", fmt::join(rebatch.sizes, ", "))};
  }
  Facts operator()(const Interleave& interleave) const {
    return {before == 0 ? 0 : kUnknown,
            call(interleave.flat ? "flat_map" : "interleave", interleave.name)};
  }
  Facts operator()(const Zip&) const { return {least_of(inputs), "zip"}; }
  Facts operator()(const Concatenate&) const { return {sum_of(inputs), "concatenate"}; }
  Facts operator()(const Cache& cache) const {
    return {before, cache.path.empty()
                        ? "cache"
                        : fmt::format("{}({})", cache.snapshot ? "snapshot" : "cache", cache.path)};
  }
  Facts operator()(const IgnoreErrors&) const {
    return {before == 0 || before == kInfinite ? before : kUnknown, "ignore_errors"};
  }
  Facts operator()(const AssertCardinality& assert) const {
    return {assert.expected, call("assert_cardinality", assert.expected)};
  }
  Facts operator()(const TakeWhile& take) const {
    return {before == 0 ? 0 : kUnknown, call("take_while", take.name)};
  }
  Facts operator()(const Unique&) const { return {before == 0 ? 0 : kUnknown, "unique"}; }
  Facts operator()(const Scan& scan) const { return {before, call("scan", scan.name)}; }
  Facts operator()(const Window& window) const {
    const std::string name =
        window.name.empty() ? call("window", window.size) : call("window", window.name);
    if (window.fn != nullptr) return {before == 0 ? 0 : kUnknown, name};
    if (!known) return {before, name};
    if (!window.drop_remainder) {
      return {before / window.shift + (before % window.shift != 0 ? 1 : 0), name};
    }
    return {before < window.reach() ? 0 : (before - window.reach()) / window.shift + 1, name};
  }
  Facts operator()(const GroupByWindow& group) const {
    return {before == 0 ? 0 : kUnknown, call(group.call, group.name)};
  }
  Facts operator()(const Choose& choose) const {
    if (choose.sampled) {
      return {choose.stop_on_empty ? (least_of(inputs) == kInfinite ? kInfinite : kUnknown)
                                   : sum_of(inputs),
              "sample_from_datasets"};
    }
    const std::vector<NodePtr> chosen(inputs.begin(), inputs.end() - 1);
    const int64_t choices = inputs.back()->cardinality;
    const bool all_given = choices == 0 || least_of(chosen) == kInfinite;
    return {all_given ? choices : kUnknown, "choose_from_datasets"};
  }
  Facts operator()(const SplitBatch& split) const {
    int64_t after = before;
    if (known && __builtin_mul_overflow(before, split.pieces, &after)) after = kInfinite;
    return {after, call("split_batch", split.pieces)};
  }
  Facts operator()(const WithSeed& with) const {
    return {before, fmt::format("seed({})", with.seed)};
  }
  Facts operator()(const WithOptions& with) const {
    return {before, with.by_worker ? "by_worker" : "options"};
  }
};

int64_t count_kind(const Node& node, size_t kind) {
  int64_t count = node.spec.index() == kind ? 1 : 0;
  for (const NodePtr& input : node.inputs) count += count_kind(*input, kind);
  return count;
}

// The kinds of the values of a stage's elements, if its inputs or its source declare them.
std::optional<Element> kinds_given_by(const Node& node) {
  if (const auto* from = node.as<FromSource>()) {
    const auto* typed = dynamic_cast<const TypedSource*>(from->source.get());
    return typed == nullptr ? std::nullopt : std::optional(kinds_of(typed->kinds()));
  }
  const auto* window = node.as<Window>();
  if (node.is<FromFiles, FromSequential, Map, Scan, Interleave, GroupByWindow>() ||
      (window != nullptr && window->fn != nullptr)) {
    return std::nullopt;
  }
  std::vector<Element> parts;
  for (const NodePtr& input : node.inputs) {
    if (!input->kinds) return std::nullopt;
    parts.push_back(*input->kinds);
  }
  if (node.is<Enumerate>()) {
    return Element::tuple({kinds_of(Element(at::empty({0}, at::kLong))), parts.front()});
  }
  const auto* zip = node.as<Zip>();
  if (zip == nullptr) return parts.front();
  if (zip->keys.empty()) return Element::tuple(std::move(parts));
  std::vector<std::pair<std::string, Element>> entries;
  for (size_t i = 0; i < parts.size(); ++i) entries.emplace_back(zip->keys[i], parts[i]);
  return Element::dict(std::move(entries));
}

// Where the names of the first and the last stages suffice to know a pipeline again.
std::string shortened(const std::string& description) {
  constexpr size_t kShown = 60;
  if (description.size() <= 2 * kShown) return description;
  return description.substr(0, kShown) + " … " + description.substr(description.size() - kShown);
}

}  // namespace

NodePtr make_node(Spec spec, std::vector<NodePtr> inputs) {
  auto node = std::make_shared<Node>();
  Facts facts = std::visit(FactsOf{inputs, inputs.empty() ? 0 : inputs.front()->cardinality}, spec);
  node->cardinality = facts.cardinality;
  node->name = std::move(facts.name);
  node->description = node->name;
  node->spec = std::move(spec);
  node->inputs = std::move(inputs);
  node->hand_sharded = node->is<Shard>() && !node->as<Shard>()->is_hint();
  if (const auto* with = node->as<WithOptions>()) node->hand_sharded = with->by_worker;
  for (const NodePtr& input : node->inputs) {
    node->depth = std::max(node->depth, input->depth + 1);
    if (node->depth <= kMostStages) continue;
    throw invalid_argument(
        fmt::format("{} would be stage {} of {}; a pipeline may have {}", node->name, node->depth,
                    shortened(input->description), kMostStages),
        "put the steps into one function for map(), give files to from_files() all at once, or "
        "open data sets with flat_map() where they were joined one by one");
  }
  for (const NodePtr& input : node->inputs) {
    node->ordinal += count_kind(*input, node->spec.index());
    node->hand_sharded = node->hand_sharded || input->hand_sharded;
  }
  if (node->is<WithOptions>()) {
    node->description = node->input()->description;  // says nothing about elements
  } else if (node->inputs.size() == 1) {
    node->description = node->input()->description + " > " + node->name;
  } else if (node->inputs.size() > 1) {
    std::vector<std::string> branches;
    for (const NodePtr& input : node->inputs) branches.push_back(input->description);
    node->description = fmt::format("{}[{}]", node->name, join(branches, ", "));
  }
  node->kinds = kinds_given_by(*node);
  node->addressable = node->is<FromSource>() ||
                      (node->is<Take, Skip, Shard, Shuffle, Repeat, Map, Prefetch, WithOptions>() &&
                       node->input()->addressable);
  // Elements that come as they are ready have no place that could be named.
  if (const auto* map = node->as<Map>(); map != nullptr && !map->deterministic) {
    node->addressable = false;
  }
  return node;
}

NodePtr with_hints_filled_in(const NodePtr& node, int64_t num_shards, int64_t index) {
  std::vector<NodePtr> inputs;
  for (const NodePtr& input : node->inputs) {
    inputs.push_back(with_hints_filled_in(input, num_shards, index));
  }
  const auto* shard = node->as<Shard>();
  if (shard != nullptr && shard->is_hint()) return make_node(Shard{num_shards, index}, inputs);
  return inputs == node->inputs ? node : make_node(node->spec, std::move(inputs));
}

NodePtr in_order(const NodePtr& node, bool needed) {
  const bool needed_before = needed || node->is<Shard, Shuffle, Unbatch, Rebatch, Interleave, Cache,
                                                Unique, Window, GroupByWindow, SplitBatch>();
  std::vector<NodePtr> inputs;
  bool changed = false;
  for (const NodePtr& input : node->inputs) {
    inputs.push_back(in_order(input, needed_before));
    changed = changed || inputs.back() != input;
  }
  Spec spec = node->spec;
  if (auto* map = std::get_if<Map>(&spec);
      needed && map != nullptr && !map->deterministic && !map->kept_in_order) {
    map->kept_in_order = changed = true;
  }
  if (auto* opens = std::get_if<Interleave>(&spec);
      needed && opens != nullptr && !opens->in_order) {
    opens->in_order = changed = true;
  }
  return changed ? make_node(std::move(spec), std::move(inputs)) : node;
}

}  // namespace muster::inline v0_1::data::internal
