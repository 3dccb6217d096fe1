#include "muster/data/auto_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "muster/base/error.h"
#include "muster/data/internal/node.h"

namespace muster::inline v0_1 {

std::string_view to_string(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::kOff:
      return "OFF";
    case AutoShardPolicy::kAuto:
      return "AUTO";
    case AutoShardPolicy::kFile:
      return "FILE";
    case AutoShardPolicy::kData:
      return "DATA";
    case AutoShardPolicy::kHint:
      return "HINT";
  }
  return "?";
}

}  // namespace muster::inline v0_1

namespace muster::inline v0_1::data {
namespace {

using namespace internal;  // NOLINT(google-build-using-namespace): internal names of the same
                           // folder

// Whether a data set begins, on some branch, with files.
bool reads_files(const Node& node) {
  if (node.is<FromFiles>()) return true;
  for (const NodePtr& input : node.inputs) {
    if (reads_files(*input)) return true;
  }
  return false;
}

// Whether flat_map() or interleave() opens files, according to its first data set. Errors there are
// thrown: a worker that took one for "no files" would divide the data otherwise than the rest.
bool opens_files(const Interleave& interleave, const NodePtr& input) {
  const std::optional<Element> first = DatasetAccess::of(input).iterator()->next();
  return first && reads_files(*DatasetAccess::node(interleave.fn(*first)));
}

class FileSharding {
 public:
  FileSharding(int64_t num_workers, int64_t index) : num_workers_(num_workers), index_(index) {}

  // The pipeline with its files divided; null if it does not begin with files.
  NodePtr apply(const NodePtr& node) {
    if (const auto* from = node->as<FromFiles>()) return files_of_this_worker(*from);
    if (const auto* interleave = node->as<Interleave>()) {
      if (opens_files(*interleave, node->input())) {
        NodePtr names = names_of_this_worker(node->input());
        return names == nullptr ? nullptr : make_node(*interleave, {names});
      }
    }
    if (node->is<AssertCardinality>()) {
      left_out_ = num_workers_ > 1;
      return apply(node->input());
    }
    const bool passes = node->is<Take, Skip, Shard, Shuffle, Repeat, Batch, Map, Prefetch, Filter,
                                 Unbatch, Rebatch, Interleave, Window, Zip, Concatenate, Cache,
                                 IgnoreErrors, WithSeed, WithOptions>();
    if (!passes || node->inputs.empty()) return nullptr;
    std::vector<NodePtr> inputs;
    for (const NodePtr& input : node->inputs) {
      inputs.push_back(apply(input));
      if (inputs.back() == nullptr) return nullptr;
    }
    Spec spec = node->spec;
    // Every worker keeps elements of its own.
    if (auto* cache = std::get_if<Cache>(&spec);
        cache != nullptr && !cache->path.empty() && num_workers_ > 1) {
      cache->path += fmt::format(".{}-of-{}", index_, num_workers_);
    }
    return make_node(std::move(spec), std::move(inputs));
  }

  // How many files there are where they are fewer than workers.
  std::optional<int64_t> too_few() const { return too_few_; }

  // "worker 1 of 3 reads 4 of 12", or less if their number is unknown.
  std::string describe() const {
    std::string text = fmt::format("worker {} of {} reads ", index_, num_workers_);
    text += uncounted_ ? "its part" : fmt::format("{} of {}", mine_, files_);
    return left_out_ ? text + "; assert_cardinality() is left out" : text;
  }

 private:
  // Counts files, of which `n` are divided here.
  void count(int64_t n) {
    if (n < num_workers_ && num_workers_ > 1 && !too_few_) too_few_ = n;
    files_ += n;
    mine_ += n / num_workers_ + (index_ < n % num_workers_ ? 1 : 0);
  }

  NodePtr files_of_this_worker(const FromFiles& from) {
    count(static_cast<int64_t>(from.files.size()));
    FromFiles mine{.files = {}, .format = from.format};
    for (size_t f = static_cast<size_t>(index_); f < from.files.size();
         f += static_cast<size_t>(num_workers_)) {
      mine.files.push_back(from.files[f]);
    }
    return make_node(std::move(mine), {});
  }

  // The names that a flat_map() opens: divided first, shuffled then; differently shuffled names
  // would overlap.
  NodePtr names_of_this_worker(const NodePtr& names) {
    std::vector<Shuffle> shuffles;
    const NodePtr ordered = without_shuffles(names, shuffles);
    const int64_t n = ordered->cardinality;
    if (n >= 0) {
      count(n);
    } else {
      uncounted_ = true;
    }
    NodePtr mine = make_node(Shard{num_workers_, index_}, {ordered});
    for (auto shuffle = shuffles.rbegin(); shuffle != shuffles.rend(); ++shuffle) {
      mine = make_node(*shuffle, {mine});
    }
    return mine;
  }

  static NodePtr without_shuffles(const NodePtr& node, std::vector<Shuffle>& found) {
    if (const auto* shuffle = node->as<Shuffle>()) {
      found.push_back(*shuffle);
      return without_shuffles(node->input(), found);
    }
    if (node->inputs.size() != 1) return node;
    return make_node(node->spec, {without_shuffles(node->input(), found)});
  }

  const int64_t num_workers_, index_;
  int64_t files_ = 0, mine_ = 0;
  std::optional<int64_t> too_few_;
  bool uncounted_ = false;
  bool left_out_ = false;  // an assert_cardinality(), which counts the elements of all workers
};

// The last stages that make or undo batches, of each branch one, or the first of it.
void find_batching(const NodePtr& node, std::vector<const Node*>& found) {
  if (node->inputs.empty() ||
      node->is<Batch, Rebatch, Unbatch, Interleave, Window, GroupByWindow, SplitBatch>()) {
    found.push_back(node.get());
    return;
  }
  for (const NodePtr& input : node->inputs) find_batching(input, found);
}
std::vector<const Node*> last_batching(const Dataset& dataset) {
  std::vector<const Node*> found;
  find_batching(DatasetAccess::node(dataset), found);
  return found;
}

// The pipeline with other batches from its last rebatch(): each batch of its input in one piece for
// every worker, or in as many pieces as there are sizes if each worker has several. Sizes may
// differ between workers: then the rows that one leaves out are not those that another takes.
// Stages that count batches or look at their sizes keep their own.
NodePtr split_for_workers(const NodePtr& node, int64_t num_workers) {
  if (const auto* rebatch = node->as<Rebatch>()) {
    const auto sizes = static_cast<int64_t>(rebatch->sizes.size());
    return make_node(SplitBatch{sizes % num_workers == 0 ? sizes : num_workers}, {node->input()});
  }
  if (!node->is<Map, Prefetch, Repeat, Shuffle, IgnoreErrors, Concatenate, WithSeed,
                WithOptions>()) {
    return node;
  }
  std::vector<NodePtr> inputs;
  for (const NodePtr& input : node->inputs) {
    inputs.push_back(split_for_workers(input, num_workers));
  }
  return inputs == node->inputs ? node : make_node(node->spec, std::move(inputs));
}

// The size of the batches a stage makes; nothing when they are of several sizes, or none.
std::optional<int64_t> one_size(const Node& node) {
  if (const auto* batch = node.as<Batch>()) return batch->size;
  const auto* rebatch = node.as<Rebatch>();
  if (rebatch != nullptr && rebatch->sizes.size() == 1) return rebatch->sizes.front();
  return std::nullopt;
}

Dataset marked_by_worker(const Dataset& dataset) {
  return DatasetAccess::of(
      make_node(WithOptions{.options = {}, .by_worker = true}, {DatasetAccess::node(dataset)}));
}

AutoSharded by_hint(const Dataset& dataset, int64_t num_workers, int64_t index) {
  const NodePtr mine = with_hints_filled_in(DatasetAccess::node(dataset), num_workers, index);
  if (mine != DatasetAccess::node(dataset)) {
    return {
        marked_by_worker(DatasetAccess::of(mine)), AutoShardPolicy::kHint,
        fmt::format("shard(kShardHint, kShardHint) divides: worker {} of {}", index, num_workers)};
  }
  return {
      num_workers == 1 ? dataset : marked_by_worker(dataset), AutoShardPolicy::kHint,
      "the policy is HINT, and there is no shard(kShardHint, kShardHint) in the pipeline: every "
      "worker reads everything"};
}

}  // namespace

AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index) {
  return auto_shard(dataset, num_workers, index, dataset.options().auto_shard_policy);
}

AutoSharded auto_shard(const Dataset& dataset, int64_t num_workers, int64_t index,
                       AutoShardPolicy policy) {
  if (num_workers < 1 || index < 0 || index >= num_workers) {
    throw invalid_argument(fmt::format("auto_shard({}, {}): worker {} of {} cannot be", num_workers,
                                       index, index, num_workers),
                           "workers are numbered from 0");
  }
  if (policy == AutoShardPolicy::kHint) return by_hint(dataset, num_workers, index);
  if (dataset.hand_sharded()) {
    return {dataset, AutoShardPolicy::kOff,
            "the data set is sharded by hand; every worker reads what it gives"};
  }
  if (policy == AutoShardPolicy::kOff) {
    return {num_workers == 1 ? dataset : marked_by_worker(dataset), policy,
            "sharding is OFF: every worker reads everything"};
  }
  if (num_workers == 1) return {dataset, policy, "there is one worker"};
  if (policy != AutoShardPolicy::kData) {
    if (std::optional<AutoSharded> mine = divide_files(dataset, num_workers, index)) return *mine;
    if (policy == AutoShardPolicy::kFile) {
      throw not_found(
          fmt::format("FILE sharding found no files in the pipeline {}", dataset.describe()),
          "begin it with from_files(), or with list_files() and flat_map() or interleave(); or "
          "take AutoShardPolicy::kData");
    }
  }
  const int64_t n = dataset.cardinality();
  if (n >= 0 && n < num_workers) {
    throw invalid_argument(
        fmt::format("the data set {} has {} elements, which is not enough for the required {} "
                    "shards/workers of DATA sharding",
                    dataset.describe(), n, num_workers),
        "take fewer workers, or smaller batches");
  }
  return {DatasetAccess::of(split_for_workers(DatasetAccess::node(dataset), num_workers))
              .shard(num_workers, index),
          AutoShardPolicy::kData, "rows are divided: the pipeline does not begin with files"};
}

std::optional<AutoSharded> divide_files(const Dataset& dataset, int64_t num_workers, int64_t index,
                                        std::string* why_not) {
  FileSharding sharding(num_workers, index);
  const NodePtr mine = sharding.apply(DatasetAccess::node(dataset));
  if (why_not != nullptr) *why_not = "the pipeline does not begin with files";
  if (mine == nullptr) return std::nullopt;
  if (const std::optional<int64_t> n = sharding.too_few()) {
    const std::string files = fmt::format("{} file{}", *n, *n == 1 ? "" : "s");
    if (why_not == nullptr) {
      throw invalid_argument(
          fmt::format("the data set only has {}, which is not enough for the required {} "
                      "shards/workers of FILE sharding",
                      files, num_workers),
          "split the data into at least as many files as workers, or let workers divide rows: "
          "with_options({.auto_shard_policy = AutoShardPolicy::kData})");
    }
    *why_not = fmt::format("there are fewer files ({}) than workers ({})", *n, num_workers);
    return std::nullopt;
  }
  return AutoSharded{marked_by_worker(DatasetAccess::of(mine)), AutoShardPolicy::kFile,
                     "files are divided: " + sharding.describe()};
}

bool reads_a_stream(const Dataset& dataset) {
  const Node& node = *DatasetAccess::node(dataset);
  if (node.is<FromSequential>()) return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [](const NodePtr& input) { return reads_a_stream(DatasetAccess::of(input)); });
}

bool ends_with_global_batch(const Dataset& dataset) {
  for (const Node* node : last_batching(dataset)) {
    if (const auto* batch = node->as<Batch>(); batch != nullptr && batch->global) return true;
  }
  return false;
}

Dataset rebatch_for_worker(const Dataset& dataset, std::vector<int64_t> sizes) {
  return DatasetAccess::of(
      make_node(Rebatch{.sizes = std::move(sizes), .drop_remainder = false, .ends_with_rows = true},
                {DatasetAccess::node(dataset)}));
}

Result<int64_t> batch_size_of(const Dataset& dataset) {
  std::optional<int64_t> size;
  for (const Node* node : last_batching(dataset)) {
    const std::optional<int64_t> here = one_size(*node);
    if (here && (!size || *size == *here)) {
      size = here;
      continue;
    }
    const std::string why = here ? fmt::format("there are batches of {} and of {}", *size, *here)
                            : node->is<Rebatch>()
                                ? node->name + " makes unequal ones"
                                : fmt::format("there is no batch() behind {}", node->name);
    return invalid_argument(
        fmt::format("how large the batches of {} are cannot be told: {}", dataset.describe(), why),
        "end the pipeline with batch(n)");
  }
  return *size;
}

}  // namespace muster::inline v0_1::data
