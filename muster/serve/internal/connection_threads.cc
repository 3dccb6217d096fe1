#include "muster/serve/internal/connection_threads.h"

#include <utility>

namespace muster::inline v0_1::serve::internal {
namespace {

constexpr size_t kMostRefused = 64;

thread_local bool refusing_thread = false;

// Returns true, or nothing where nothing is wanted.
template <typename T>
T yes() {
  if constexpr (!std::is_void_v<T>) return true;
}

}  // namespace

ConnectionThreads::ConnectionThreads(int most, std::atomic<int64_t>& connections)
    : most_(static_cast<size_t>(most)),
      connections_(connections),
      refuser_([this] { refuse_connections(); }) {}

ConnectionThreads::Taken ConnectionThreads::enqueue(std::function<void()> serve) {
  put(std::move(serve));
  return yes<Taken>();
}

void ConnectionThreads::put(std::function<void()> serve) {
  std::unique_lock lock(mutex_);
  if (waiting_.size() < idle_) {
    waiting_.push_back(std::move(serve));
    arrived_.notify_one();
  } else if (threads_.size() < most_) {
    waiting_.push_back(std::move(serve));
    threads_.emplace_back([this] { serve_connections(); });
  } else {
    has_room_.wait(lock, [this] { return refused_.size() < kMostRefused; });
    refused_.push_back(std::move(serve));
    refusing_.notify_one();
  }
}

void ConnectionThreads::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_all();
  refusing_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  refuser_.join();
}

bool ConnectionThreads::refuses() { return refusing_thread; }

void ConnectionThreads::serve_connections() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    arrived_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    const std::function<void()> serve = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    connections_.fetch_add(1);
    serve();
    connections_.fetch_sub(1);
    lock.lock();
  }
}

void ConnectionThreads::refuse_connections() {
  refusing_thread = true;
  std::unique_lock lock(mutex_);
  while (true) {
    refusing_.wait(lock, [this] { return ending_ || !refused_.empty(); });
    if (refused_.empty()) return;
    const std::function<void()> serve = std::move(refused_.front());
    refused_.pop_front();
    has_room_.notify_one();
    lock.unlock();
    serve();
    lock.lock();
  }
}

}  // namespace muster::inline v0_1::serve::internal
