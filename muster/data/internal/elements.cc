#include "muster/data/internal/elements.h"

#include <torch/torch.h>
#include <unistd.h>

#include "muster/base/strings.h"
#include "muster/data/internal/batch.h"
#include "muster/data/internal/order.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::data::internal {
namespace {

// The error being handled, as ours.
Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return internal_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return internal_error(error.what());
  } catch (...) {
    return internal_error("something was thrown that is no std::exception");
  }
}

template <typename T>
std::unique_ptr<Stream<T>> reorder(const Node& node, std::unique_ptr<Stream<T>> input,
                                   const Run& run) {
  if (const auto* take = std::get_if<Take>(&node.spec)) {
    return std::make_unique<TakeStream<T>>(std::move(input), take->count);
  }
  if (const auto* skip = std::get_if<Skip>(&node.spec)) {
    return std::make_unique<SkipStream<T>>(std::move(input), skip->count);
  }
  if (const auto* shard = std::get_if<Shard>(&node.spec)) {
    return std::make_unique<ShardStream<T>>(std::move(input), shard->num_shards, shard->index);
  }
  if (const auto* shuffle = std::get_if<Shuffle>(&node.spec)) {
    return std::make_unique<ShuffleStream<T>>(
        std::move(input),
        typename ShuffleStream<T>::Config{shuffle->buffer, shuffle->seed, shuffle->reshuffle,
                                          node.ordinal, node.input->cardinality},
        run);
  }
  if (const auto* repeat = std::get_if<Repeat>(&node.spec)) {
    return std::make_unique<RepeatStream<T>>(std::move(input), repeat->count);
  }
  throw internal_error("no stream for " + node.description);
}

uint64_t bytes_of(const Element& element) {
  uint64_t bytes = 0;
  for (const Value& value : element.values()) {
    if (value.is_tensor()) bytes += static_cast<uint64_t>(value.tensor().nbytes());
  }
  return bytes;
}

// The prefetches of an addressable chain. They are moved behind the batch: before it there are only
// integers.
int64_t prefetched(const Node& node) {
  int64_t count = 0;
  for (const Node* at = &node; at != nullptr; at = at->input.get()) {
    if (const auto* prefetch = std::get_if<Prefetch>(&at->spec)) count += prefetch->count;
  }
  return count;
}

}  // namespace

std::exception_ptr current_failure() { return std::make_exception_ptr(current_error()); }

std::unique_ptr<Stream<Ref>> open_refs(const Node& node, const Run& run) {
  if (const auto* from = std::get_if<FromSource>(&node.spec)) {
    return std::make_unique<SourceStream>(from->source->kind(), from->source->size());
  }
  std::unique_ptr<Stream<Ref>> input = open_refs(*node.input, run);
  if (std::holds_alternative<Map>(node.spec) || std::holds_alternative<Prefetch>(node.spec)) {
    return input;
  }
  return reorder(node, std::move(input), run);
}

std::unique_ptr<Stream<Item>> open_items(const std::shared_ptr<const Node>& node, const Run& run) {
  const auto ahead = [](std::unique_ptr<Stream<Item>> stream,
                        int64_t count) -> std::unique_ptr<Stream<Item>> {
    if (count <= 0) return stream;
    return std::make_unique<PrefetchStream>(std::move(stream), count);
  };
  if (node->addressable) {
    return ahead(std::make_unique<ReadStream>(open_refs(*node, run), Reader(node, run)),
                 prefetched(*node));
  }
  const std::shared_ptr<const Node>& input = node->input;
  if (const auto* batch = std::get_if<Batch>(&node->spec)) {
    const Sharding sharding = node.get() == run.dealing_node ? run.sharding : Sharding{};
    if (!input->addressable) {
      return std::make_unique<BatchStream<Item>>([input, &run] { return open_items(input, run); },
                                                 Collector<Item>(), *node, sharding);
    }
    return ahead(std::make_unique<BatchStream<Ref>>(
                     [input, &run] { return open_refs(*input, run); },
                     Collector<Ref>(Reader(input, run), *node), *node, sharding),
                 (prefetched(*input) + batch->size - 1) / batch->size);
  }
  std::unique_ptr<Stream<Item>> stream = open_items(input, run);
  if (std::holds_alternative<Map>(node->spec)) {
    return std::make_unique<MapStream>(std::move(stream), MapStage{node}, run);
  }
  if (const auto* prefetch = std::get_if<Prefetch>(&node->spec)) {
    return ahead(std::move(stream), prefetch->count);
  }
  return reorder(*node, std::move(stream), run);
}

Element MapStage::operator()(const Element& element, const Ref& tag, const Run& run) const {
  const Map& map = std::get<Map>(node->spec);
  try {
    const torch::NoGradGuard no_grad;
    if (!map.keyed) return map.fn(element, {});
    return map.fn(
        element,
        derive_key(run.seed, {id_of("data.map"), static_cast<uint64_t>(node->ordinal),
                              static_cast<uint64_t>(tag.run), static_cast<uint64_t>(tag.index)}));
  } catch (...) {
    throw current_error().with_context(
        fmt::format("{} failed on {} {} (pass {}), {}, in {}",
                    map.name.empty() ? "map" : "map '" + map.name + "'",
                    node->addressable ? "source element" : "the batch that begins at example",
                    tag.index, tag.run, element.describe(), node->description));
  }
}

Reader::Reader(std::shared_ptr<const Node> node, const Run& run) : run_(run) {
  for (; node != nullptr; node = node->input) {
    if (std::holds_alternative<Map>(node->spec)) maps_.push_back({node});
    if (const auto* from = std::get_if<FromSource>(&node->spec)) source_ = from->source;
  }
  std::reverse(maps_.begin(), maps_.end());
}

Element Reader::read(const Ref& ref) const {
  Element element = source_->element(ref.index);
  for (const MapStage& map : maps_) element = map(element, ref, run_);
  return element;
}

uint64_t Reader::element_bytes() const {
  return !maps_.empty() || source_->size() == 0 ? 0 : bytes_of(source_->element(0));
}

Element Reader::gather(std::span<const Ref> refs, const Node& batch) {
  if (maps_.empty()) {
    indices_.resize(refs.size());
    for (size_t i = 0; i < refs.size(); ++i) indices_[i] = refs[i].index;
    return source_->gather(indices_);
  }
  std::vector<Element> elements;
  elements.reserve(refs.size());
  for (const Ref& ref : refs) {
    if (run_.stopping.load(std::memory_order_relaxed)) {
      throw Error(ErrorKind::kCancelled, "the iterator was closed");
    }
    elements.push_back(read(ref));
    if (elements.size() == 1) {
      check_fits(batch, static_cast<int64_t>(refs.size()), bytes_of(elements.front()));
    }
  }
  return Element::stack(elements);
}

int64_t ReadStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  for (; got < count; ++got) {
    Item& item = out[got];
    if (refs_->read(&item.tag, 1) == 0) break;
    item.error = nullptr;
    try {
      item.element = reader_.read(item.tag);
    } catch (...) {
      item.error = current_failure();
    }
  }
  return got;
}

int64_t MapStream::read(Item* out, int64_t count) {
  const int64_t got = input_->read(out, count);
  for (int64_t i = 0; i < got; ++i) {
    if (out[i].error != nullptr) continue;
    try {
      out[i].element = stage_(out[i].element, out[i].tag, run_);
    } catch (...) {
      out[i].error = current_failure();
    }
  }
  return got;
}

Element Collector<Item>::join(std::span<Item> items) {
  std::vector<Element> elements;
  elements.reserve(items.size());
  std::exception_ptr error;
  for (Item& item : items) {
    if (error == nullptr) error = item.error;
    elements.push_back(std::move(item.element));
    item = {};
  }
  if (error != nullptr) std::rethrow_exception(error);
  return Element::stack(elements);
}

void check_fits(const Node& batch, int64_t rows, uint64_t row_bytes) {
  constexpr int64_t kManyRows = 1 << 16;  // so few need no look at the machine
  if (rows <= kManyRows) return;
  const double needed = static_cast<double>(rows) * static_cast<double>(row_bytes);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= memory) return;
  throw invalid_argument(
      fmt::format("a batch of {} rows needs {} or more, and this machine has {}: {}", rows,
                  human_bytes(static_cast<uint64_t>(needed)),
                  human_bytes(static_cast<uint64_t>(memory)), batch.description),
      "use a smaller batch size");
}

Element without_rows(const Element& batch) {
  return batch.transform([](const Value& value) -> Value {
    if (!value.is_tensor()) return value.slice(0, 0);
    Shape shape = value.tensor().sizes().vec();
    shape[0] = 0;
    return torch::empty(shape, value.tensor().options());
  });
}

void PrefetchStream::start(int64_t run) {
  stop();
  input_->start(run);
  position_.clear();
  input_->mark(position_);
}

void PrefetchStream::restore(const json& state, int64_t run) {
  stop();
  input_->restore(state, run);
  position_.clear();
  input_->mark(position_);
}

int64_t PrefetchStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  while (got < count && !ended_) {
    if (queue_ == nullptr) {
      queue_ = std::make_unique<BlockingQueue<Entry>>(static_cast<size_t>(count_));
      thread_ = std::thread([this] { produce(); });
    }
    std::optional<Entry> entry = queue_->pop();
    if (!entry) {
      ended_ = true;
      break;
    }
    out[got++] = std::move(entry->item);
    position_ = std::move(entry->position);
  }
  return got;
}

int64_t PrefetchStream::skip(int64_t count) {
  int64_t got = 0;
  if (queue_ == nullptr && !ended_) {
    got = input_->skip(count);
    position_.clear();
    input_->mark(position_);
    return got;
  }
  Item item;
  while (got < count && read(&item, 1) == 1) ++got;
  return got;
}

void PrefetchStream::stop() {
  if (queue_ != nullptr) queue_->cancel();
  if (thread_.joinable()) thread_.join();
  queue_.reset();
  ended_ = false;
}

void PrefetchStream::produce() {
  Entry entry;
  try {
    enter_thread();
    while (input_->read(&entry.item, 1) == 1) {
      entry.position.clear();
      input_->mark(entry.position);
      if (!queue_->push(std::move(entry))) return;
      entry = {};
    }
  } catch (...) {
    entry.item.error = current_failure();
    input_->mark(entry.position);
    queue_->push(std::move(entry));
  }
  queue_->close();
}

}  // namespace muster::inline v0_1::data::internal
