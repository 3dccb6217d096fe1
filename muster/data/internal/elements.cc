#include "muster/data/internal/elements.h"


#include "muster/base/memory_size.h"
#include "muster/base/strings.h"
#include "muster/data/internal/batch.h"
#include "muster/data/internal/row_collector.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::data::internal {

Element MapStage::operator()(const Element& element, const Place& from, const Run& run) const {
  const Map& map = std::get<Map>(node->spec);
  const Cores::Use core(map.calls == kAutotune ? &run.cores() : nullptr);
  try {
    const torch::NoGradGuard no_grad;
    if (!map.keyed) return map.fn(element, {});
    return map.fn(element,
                  derive_key(run.seed(), {id_of("data.map"), static_cast<uint64_t>(node->ordinal),
                                          static_cast<uint64_t>(from.tag.run),
                                          static_cast<uint64_t>(from.tag.index)}));
  } catch (...) {
    std::rethrow_exception(current_failure(fmt::format(
        "{} failed on {} (pass {}), {}, in {}", node->name, describe_place(from, *node->input()),
        from.tag.run, element.describe(), node->description)));
  }
}

void MapStage::apply(Item& item, const Run& run) const {
  if (item.error != nullptr) return;
  try {
    item.settle();
    item.element = (*this)(item.element, item.from, run);
  } catch (...) {
    item.element = {};
    item.block.reset();
    item.error = current_failure();
  }
}

int calls_of(const Map& map) {
  return map.calls == kAutotune ? num_threads() : static_cast<int>(map.calls);
}

Reader::Reader(NodePtr node, const Run& run) : run_(run) {
  for (; node != nullptr; node = node->input()) {
    if (node->is<Map>()) maps_.push_back({node});
    if (const auto* from = node->as<FromSource>()) source_ = from->source;
  }
  std::reverse(maps_.begin(), maps_.end());
  for (size_t i = 0; i < maps_.size(); ++i) {
    const int calls = calls_of(std::get<Map>(maps_[i].node->spec));
    if (groups_.empty() || groups_.back().calls != calls) {
      groups_.push_back({calls, i, i, calls > 1 ? std::make_unique<WorkerPool>(calls) : nullptr});
    }
    groups_.back().end = i + 1;
  }
}

void Reader::apply(const Group& group, const Ref& ref, Element& element) const {
  if (run_.stopping()) throw Error(ErrorKind::kCancelled, "the iterator was closed");
  for (size_t i = group.begin; i < group.end; ++i) element = maps_[i](element, ref, run_);
}

Element Reader::read(const Ref& ref) const {
  Element element = source_->element(ref.index);
  for (const MapStage& map : maps_) element = map(element, ref, run_);
  return element;
}

uint64_t Reader::element_bytes() const {
  return !maps_.empty() || source_->size() == 0 ? 0 : size_in_bytes(source_->element(0));
}

Element Reader::gather(std::span<const Ref> refs, const Node& batch) {
  if (maps_.empty()) {
    indices_.resize(refs.size());
    for (size_t i = 0; i < refs.size(); ++i) indices_[i] = refs[i].index;
    return source_->gather(indices_);
  }
  if (refs.empty()) return Element::stack({});
  const auto n = static_cast<int64_t>(refs.size());
  Element first = read(refs.front());
  check_fits(batch, n, [&] { return size_in_bytes(first); });
  RowCollector rows(first, n, memory_);
  rows.put(0, std::move(first));
  std::vector<Element> elements(groups_.size() > 1 ? refs.size() : 0);  // between two groups
  for (const Group& group : groups_) {
    const bool begins = &group == &groups_.front(), ends = &group == &groups_.back();
    const auto apply_one = [&](size_t i) {
      Element element =
          begins ? source_->element(refs[i].index) : std::exchange(elements[i], Element());
      apply(group, refs[i], element);
      if (ends) {
        rows.put(static_cast<int64_t>(i), std::move(element));
      } else {
        elements[i] = std::move(element);
      }
    };
    if (group.pool == nullptr) {
      for (size_t i = 1; i < refs.size(); ++i) apply_one(i);
    } else if (refs.size() > 1) {
      group.pool->each(refs.size() - 1, [&](size_t i) { apply_one(i + 1); });
    }
  }
  return in_batch(batch, refs.front(), [&] { return rows.join(); });
}

int64_t ReadStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  for (; got < count; ++got) {
    Item& item = out[got];
    Ref ref;
    if (refs_->read(&ref, 1) == 0) break;
    item.from = ref;
    item.error = nullptr;
    item.block.reset();
    try {
      item.element = reader_.read(ref);
    } catch (...) {
      item.error = current_failure();
    }
  }
  return got;
}

int64_t MapStream::read(Item* out, int64_t count) {
  const int64_t got = input().read(out, count);
  for (int64_t i = 0; i < got; ++i) stage_.apply(out[i], run_);
  return got;
}

void check_fits(const Node& batch, int64_t rows, const std::function<uint64_t()>& row_bytes) {
  constexpr int64_t kManyRows = 1 << 16;  // so few need no look at the machine
  if (rows <= kManyRows) return;
  const double needed = static_cast<double>(rows) * static_cast<double>(row_bytes());
  const auto memory = static_cast<double>(memory_size());
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

void PrefetchStream::restore(MarkReader& marks, int64_t run) {
  stop();
  input_->restore(marks, run);
  position_.clear();
  input_->mark(position_);
}

int64_t PrefetchStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  while (got < count && !ended_) {
    if (queue_ == nullptr) {
      queue_ = std::make_unique<BlockingQueue<Entry>>(static_cast<size_t>(count_));
      try {
        thread_ = std::thread([this] { produce(); });
      } catch (...) {
        queue_.reset();
        throw;
      }
    }
    std::optional<Entry> entry = queue_->pop();
    if (!entry) {
      ended_ = true;
      break;
    }
    out[got++] = std::move(entry->item);
    position_ = std::move(entry->position);
    const std::lock_guard lock(bytes_mutex_);
    bytes_ahead_ -= entry->bytes;
    has_room_.notify_one();
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
  {
    const std::lock_guard lock(bytes_mutex_);
    stopped_ = true;
    has_room_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  queue_.reset();
  bytes_ahead_ = 0;
  stopped_ = ended_ = false;
}

bool PrefetchStream::wait_for_room() {
  std::unique_lock lock(bytes_mutex_);
  has_room_.wait(lock, [this] { return stopped_ || bytes_ahead_ < kMostBytesAhead; });
  return !stopped_;
}

void PrefetchStream::produce() {
  enter_thread();
  while (wait_for_room()) {
    Entry entry;
    try {
      if (input_->read(&entry.item, 1) == 0) break;
      entry.bytes = size_in_bytes(entry.item);
    } catch (...) {
      entry.item = {};
      entry.item.error = current_failure();
    }
    input_->mark(entry.position);
    {
      const std::lock_guard lock(bytes_mutex_);
      bytes_ahead_ += entry.bytes;
    }
    if (!queue_->push(std::move(entry))) return;
  }
  queue_->close();
}

}  // namespace muster::inline v0_1::data::internal
