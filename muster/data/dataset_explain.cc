#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/map.h"

namespace muster::inline v0_1 {

namespace in = data::internal;

namespace {

// Explains how a stage runs; `behind` is the stage that takes its elements, null for the last one.
struct StageExplainer {
  const in::Node& node;
  const in::Node* behind;

  std::string operator()(const in::FromSource&) const {
    return "read by index, only what is asked for";
  }
  std::string operator()(const in::FromFiles&) const {
    return "read from front to back, in blocks of rows";
  }
  std::string operator()(const in::FromSequential&) const { return "read from front to back"; }
  std::string operator()(const in::Shuffle& shuffle) const {
    const int64_t n = node.input()->cardinality;
    const bool whole = n >= 0 && shuffle.buffer >= n;
    const std::string order =
        whole ? "a full permutation" : fmt::format("a window of {} elements", shuffle.buffer);
    return order + (node.addressable ? ", of indices" : ", held in memory");
  }
  std::string operator()(const in::Batch& batch) const {
    const bool rows = node.input()->addressable && batch.padding == nullptr;
    bool maps = false;
    for (const in::Node* at = node.input().get(); at != nullptr; at = at->input().get()) {
      maps = maps || at->is<in::Map>();
    }
    return !rows  ? "rows copied once into the batch"
           : maps ? "elements read and mapped where the batch is made"
                  : "rows gathered once, from the source into the batch";
  }
  std::string operator()(const in::Map& map) const {
    const int calls = in::calls_of(map);
    std::string how =
        node.addressable && behind != nullptr ? "where elements are read" : "in order";
    if (!map.deterministic) {
      how = map.kept_in_order ? "in order, because a later stage reads elements again"
                              : "as elements are ready";
    }
    return calls > 1 ? fmt::format("{}, {} calls at once", how, calls) : how;
  }
  std::string operator()(const in::Prefetch& prefetch) const {
    if (prefetch.count == 0) return "does nothing";
    return node.addressable && behind != nullptr
               ? "moved after the batch: only indices are passed here"
               : fmt::format("{} ahead on its own thread", prefetch.count);
  }
  std::string operator()(const in::Interleave& interleave) const {
    return fmt::format("{} data set{} open at once{}", interleave.cycle_length,
                       interleave.cycle_length == 1 ? "" : "s",
                       interleave.parallel ? ", each read ahead on a thread" : "");
  }
  std::string operator()(const in::Cache& cache) const {
    return fmt::format("kept in {} after the first pass", cache.path.empty() ? "memory" : "a file");
  }
  std::string operator()(const in::Unique&) const { return "seen elements are kept in memory"; }
  std::string operator()(const in::Scan&) const { return "in order, with a state"; }
  std::string operator()(const in::Window& window) const {
    return fmt::format("{} elements held, {} every {}", window.reach(),
                       window.fn == nullptr ? "a batch" : "a data set", window.shift);
  }
  std::string operator()(const in::GroupByWindow&) const {
    return "elements held by key, a data set of each full window";
  }
  std::string operator()(const in::Choose& choose) const {
    return choose.sampled ? "an input drawn for each element" : "an input named for each element";
  }
  std::string operator()(const in::SplitBatch& split) const {
    return fmt::format("each batch in {} pieces", split.pieces);
  }
  std::string operator()(const in::WithSeed&) const { return "what is in front draws from it"; }
  template <typename T>
  std::string operator()(const T&) const {
    return node.addressable ? "on indices" : "on elements";
  }
};

void explain_chain(const in::Node& node, const in::Node* behind, int depth,
                   std::vector<std::pair<std::string, std::string>>& lines) {
  const bool branches = node.inputs.size() > 1;
  for (const in::NodePtr& input : node.inputs) {
    explain_chain(*input, &node, depth + (branches ? 1 : 0), lines);
  }
  lines.emplace_back(std::string(static_cast<size_t>(2 * depth), ' ') + node.name,
                     std::visit(StageExplainer{node, behind}, node.spec));
}

}  // namespace

std::string Dataset::explain() const {
  std::vector<std::pair<std::string, std::string>> lines;
  const in::NodePtr node = in::in_order(node_, false);
  explain_chain(*node, nullptr, 0, lines);
  size_t width = 0;
  for (const auto& [stage, how] : lines) width = std::max(width, stage.size());
  std::string text;
  for (const auto& [stage, how] : lines) text += fmt::format("{:<{}}  {}\n", stage, width, how);
  return text;
}

std::string describe_longest(std::vector<StageTime> times, size_t most) {
  std::stable_sort(times.begin(), times.end(),
                   [](const StageTime& a, const StageTime& b) { return a.time > b.time; });
  std::vector<std::string> stages;
  for (size_t i = 0; i < std::min(most, times.size()); ++i) {
    stages.push_back(fmt::format("{} {:.1f} s", times[i].stage, times[i].time.count()));
  }
  return join(stages, ", ");
}

}  // namespace muster::inline v0_1
