#include "muster/collectives/internal/operation.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <utility>
#include <vector>

namespace muster {

struct Work::State {
  std::atomic<int> finished = 0;
  std::optional<Error> error;  // written before `finished`

  void finish(std::optional<Error> failure) {
    error = std::move(failure);
    finished.store(1, std::memory_order_release);
    finished.notify_all();
  }
};

void Work::wait() const {
  if (!state_) return;
  state_->finished.wait(0, std::memory_order_acquire);
  if (state_->error) throw Error(*state_->error);
}

bool Work::done() const { return !state_ || state_->finished.load(std::memory_order_acquire) != 0; }

namespace internal {
namespace {

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "all_reduce";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kBarrier:
      return "barrier";
  }
  return "unknown operation";
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return "bytes";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kInt64:
      return "int64";
  }
  return "unknown elements";
}

}  // namespace

int64_t size_of(ElementType type) {
  return type == ElementType::kByte ? 1 : type == ElementType::kFloat32 ? 4 : 8;
}

bool Operation::matches(const Operation& other) const {
  return kind == other.kind && type == other.type && root == other.root && count == other.count &&
         sequence == other.sequence;
}

std::string Operation::describe() const {
  std::string text = fmt::format("{} #{}", name_of(kind), sequence);
  if (kind != OperationKind::kBarrier) text += fmt::format(" of {} {}", count, name_of(type));
  if (kind == OperationKind::kBroadcast) text += fmt::format(" from rank {}", root);
  return text;
}

Error mismatch(int rank, const Operation& mine, int peer, const Operation& theirs) {
  return invalid_argument(
      fmt::format("ranks called different collectives: rank {} is in {}, rank {} in {}", rank,
                  mine.describe(), peer, theirs.describe()),
      "every rank must issue the same operations, in the same order, with the same sizes");
}

Work failed_work(const Error& error) {
  auto state = std::make_shared<Work::State>();
  state->finish(error);
  return Work(std::move(state));
}

OperationQueue::OperationQueue(Hooks hooks)
    : hooks_(std::move(hooks)), thread_([this] { run(); }) {}

OperationQueue::~OperationQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Work OperationQueue::submit(Operation operation) {
  auto state = std::make_shared<Work::State>();
  const std::lock_guard lock(mutex_);
  operation.sequence = ++sequence_;
  if (failure_) {
    state->finish(failure_->with_context(operation.describe() + " was not started"));
  } else {
    queue_.emplace_back(std::move(operation), state);
    changed_.notify_one();
  }
  return Work(std::move(state));
}

bool OperationQueue::fail(const Error& error) {
  std::deque<std::pair<Operation, std::shared_ptr<Work::State>>> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = error;
    dropped.swap(queue_);
    changed_.notify_one();
  }
  for (auto& [operation, state] : dropped) {
    state->finish(error.with_context(operation.describe() + " was not started"));
  }
  return true;
}

bool OperationQueue::idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

void OperationQueue::run() {
  pthread_setname_np(pthread_self(), "collectives");
  hooks_.start();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || failure_ || !queue_.empty(); });
    if (stop_ || failure_) break;
    auto [operation, state] = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    std::optional<Error> error;
    try {
      hooks_.execute(operation);
    } catch (const Error& failure) {
      error = failure;
    } catch (const std::exception& failure) {
      error = internal_error(fmt::format("{} failed: {}", operation.describe(), failure.what()));
    }
    operation.owner.reset();
    lock.lock();
    busy_ = false;
    if (!error) {
      state->finish(std::nullopt);
      continue;
    }
    // The queue fails before its Work does: who sees the error finds the group failed as well.
    lock.unlock();
    fail(*error);
    state->finish(std::move(error));
    lock.lock();
  }
  const std::optional<Error> failure = failure_;
  lock.unlock();
  if (!failure) fail(Error(ErrorKind::kCancelled, "the communicator was closed"));
  hooks_.finish(failure ? &*failure : nullptr);
}

}  // namespace internal
}  // namespace muster
