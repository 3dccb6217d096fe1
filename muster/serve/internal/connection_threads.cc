#include "muster/serve/internal/connection_threads.h"

#include <system_error>
#include <utility>

namespace muster::inline v0_1::serve::internal {

ConnectionThreads::ConnectionThreads(int most, std::function<void(FileDescriptor)> serve)
    : most_(static_cast<size_t>(most)), serve_(std::move(serve)) {}

ConnectionThreads::~ConnectionThreads() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ConnectionThreads::take(FileDescriptor& connection) {
  const std::lock_guard lock(mutex_);
  if (open_ == most_) return false;
  try {
    if (threads_.size() == open_) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    return false;  // the system has no more of them
  }
  waiting_.push_back(std::move(connection));
  ++open_;
  arrived_.notify_one();
  return true;
}

void ConnectionThreads::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    FileDescriptor connection = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    serve_(std::move(connection));
    lock.lock();
    --open_;
  }
}

}  // namespace muster::inline v0_1::serve::internal
