#include "muster/collectives/internal/operation_queue.h"

#include <fmt/format.h>
#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/collectives/internal/work_state.h"

namespace muster::inline v0_1::internal {

// Shared with every Work, which may outlive the queue.
struct OperationQueue::Core : std::enable_shared_from_this<Core> {
  struct State : Work::State {
    explicit State(std::weak_ptr<Core> core) : core(std::move(core)) {}
    void help(bool block) override {
      if (!block) return;  // the queue's thread is at it
      if (const auto alive = core.lock()) alive->help(*this);
    }
    const std::weak_ptr<Core> core;
  };

  explicit Core(Hooks hooks) : hooks(std::move(hooks)) {}

  bool fail(const Error& error);
  void help(const Work::State& wanted);
  void execute_next(std::unique_lock<std::mutex>& lock);
  void run();

  const Hooks hooks;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<Operation, std::shared_ptr<Work::State>>> queue;
  std::optional<Error> failure;
  uint64_t sequence = 0;
  bool busy = false;  // some thread is in execute()
  bool stop = false;
};

OperationQueue::OperationQueue(Hooks hooks)
    : core_(std::make_shared<Core>(std::move(hooks))), thread_([core = core_] { core->run(); }) {}

OperationQueue::~OperationQueue() {
  {
    const std::lock_guard lock(core_->mutex);
    core_->stop = true;
    core_->changed.notify_all();
  }
  thread_.join();
}

Work OperationQueue::submit(Operation operation) {
  auto state = std::make_shared<Core::State>(core_);
  const std::lock_guard lock(core_->mutex);
  operation.sequence = ++core_->sequence;
  if (core_->failure) {
    state->finish(core_->failure->with_context(operation.describe() + " was not started"));
  } else {
    core_->queue.emplace_back(std::move(operation), state);
    if (!core_->busy) core_->changed.notify_one();
  }
  return Work(std::move(state));
}

bool OperationQueue::fail(const Error& error) { return core_->fail(error); }

bool OperationQueue::idle() const {
  const std::lock_guard lock(core_->mutex);
  return core_->queue.empty() && !core_->busy;
}

bool OperationQueue::Core::fail(const Error& error) {
  std::deque<std::pair<Operation, std::shared_ptr<Work::State>>> dropped;
  {
    const std::lock_guard lock(mutex);
    if (failure) return false;
    failure = error;
    dropped.swap(queue);
    changed.notify_one();
  }
  for (auto& [operation, state] : dropped) {
    state->finish(error.with_context(operation.describe() + " was not started"));
  }
  return true;
}

// Executes the operations up to `wanted`, unless another thread is doing so already.
void OperationQueue::Core::help(const Work::State& wanted) {
  std::unique_lock lock(mutex);
  while (!wanted.is_finished() && !busy && !stop && !failure && !queue.empty()) execute_next(lock);
}

void OperationQueue::Core::execute_next(std::unique_lock<std::mutex>& lock) {
  auto [operation, state] = std::move(queue.front());
  queue.pop_front();
  busy = true;
  lock.unlock();
  std::optional<Error> error;
  try {
    hooks.execute(operation);
  } catch (const Error& caught) {
    error = caught;
  } catch (const std::exception& caught) {
    error = internal_error(fmt::format("{} failed: {}", operation.describe(), caught.what()));
  }
  operation.owner.reset();
  // The queue fails before its Work does: a thread that sees the error finds the group failed as
  // well.
  if (error) fail(*error);
  lock.lock();
  busy = false;
  // For the queue's thread, when it is another one.
  if (!queue.empty() || stop || failure) changed.notify_one();
  lock.unlock();
  state->finish(std::move(error));
  lock.lock();
}

void OperationQueue::Core::run() {
  pthread_setname_np(pthread_self(), "collectives");
  hooks.start();
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return !busy && (stop || failure || !queue.empty()); });
    if (stop || failure) break;
    execute_next(lock);
  }
  const std::optional<Error> why = failure;
  lock.unlock();
  if (!why) fail(Error(ErrorKind::kCancelled, "the communicator was closed"));
  hooks.finish(why ? &*why : nullptr);
}

}  // namespace muster::inline v0_1::internal
