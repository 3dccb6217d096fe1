#include "muster/data/element_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/internal/element_row.h"
#include "muster/data/internal/positioned_source.h"
#include "muster/data/own_reader.h"

namespace muster::inline v0_1::data {
namespace {

class QueueReader final : public internal::PositionedReader {
 public:
  explicit QueueReader(std::shared_ptr<ElementQueue> queue) : queue_(std::move(queue)) {}
  int64_t read(int64_t, Element* rows) override {
    std::optional<Element> element = queue_->pop();
    if (!element) return 0;
    *rows = internal::element_as_row(*element, "queue");
    return 1;
  }
  // The elements that were read are gone: there is nothing to find again.
  std::string save() const override { return ""; }
  void restore(const std::string&) override {}

 private:
  const std::shared_ptr<ElementQueue> queue_;
};

class QueueSource final : public internal::PositionedSource {
 public:
  explicit QueueSource(std::shared_ptr<ElementQueue> queue) : queue_(std::move(queue)) {}
  std::string kind() const override { return "queue"; }
  bool live() const override { return true; }
  std::unique_ptr<ElementReader> open() const override {
    return std::make_unique<QueueReader>(queue_);
  }

 private:
  const std::shared_ptr<ElementQueue> queue_;
};

}  // namespace

// How often a wait for an element looks whether anybody wants it.
constexpr std::chrono::milliseconds kLook{20};

struct ElementQueue::Impl {
  ElementQueueOptions options{};
  std::mutex mutex{};
  std::condition_variable has_room{}, has_element{};
  std::deque<Element> elements{};
  std::exception_ptr error{};
  bool closed = false;

  void close(std::exception_ptr why) {
    const std::lock_guard lock(mutex);
    if (closed) return;
    closed = true;
    error = std::move(why);
    has_room.notify_all();
    has_element.notify_all();
  }
};

ElementQueue::ElementQueue(const ElementQueueOptions& options) : impl_(std::make_unique<Impl>()) {
  if (options.capacity == 0) throw invalid_argument("an ElementQueue got a capacity of 0");
  for (const Seconds timeout : {options.push_timeout, options.pop_timeout}) {
    if (!(timeout > Seconds(0)))
      throw invalid_argument(fmt::format(
          "an ElementQueue got a timeout of {} s, which is not positive", timeout.count()));
  }
  impl_->options = options;
}

ElementQueue::~ElementQueue() = default;

bool ElementQueue::push(Element element) {
  std::unique_lock lock(impl_->mutex);
  const Seconds limit = impl_->options.push_timeout;
  if (!impl_->has_room.wait_for(lock, limit, [&] {
        return impl_->closed || impl_->elements.size() < impl_->options.capacity;
      })) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("push(): the queue was full for {} s ({} elements)", limit.count(),
                            impl_->elements.size()),
                "is it read by a run? ElementQueueOptions::push_timeout sets the limit");
  }
  if (impl_->closed) return false;
  impl_->elements.push_back(std::move(element));
  impl_->has_element.notify_one();
  return true;
}

void ElementQueue::close() { impl_->close(nullptr); }
void ElementQueue::fail(std::exception_ptr error) { impl_->close(std::move(error)); }

std::optional<Element> ElementQueue::pop() {
  std::unique_lock lock(impl_->mutex);
  const Seconds limit = impl_->options.pop_timeout;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto ready = [&] { return impl_->closed || !impl_->elements.empty(); };
  while (!impl_->has_element.wait_for(lock, kLook, ready)) {
    if (reading_is_over())
      throw Error(ErrorKind::kCancelled, "the iterator that reads the queue is being destroyed");
    if (std::chrono::steady_clock::now() < deadline) continue;
    throw Error(
        ErrorKind::kTimeout, fmt::format("the queue gave no element for {} s", limit.count()),
        "close() it at the end of the data; ElementQueueOptions::pop_timeout sets the limit");
  }
  if (impl_->elements.empty()) {
    if (impl_->error) std::rethrow_exception(std::exchange(impl_->error, nullptr));
    return std::nullopt;
  }
  std::optional<Element> element(std::move(impl_->elements.front()));
  impl_->elements.pop_front();
  impl_->has_room.notify_one();
  return element;
}

Dataset from_queue(std::shared_ptr<ElementQueue> queue) {
  if (!queue) throw invalid_argument("from_queue() got no queue");
  // Each worker has a queue of its own: this pipeline is a worker's part already.
  return Dataset::from_sequential(std::make_shared<const QueueSource>(std::move(queue)))
      .shard(1, 0);
}

}  // namespace muster::inline v0_1::data
