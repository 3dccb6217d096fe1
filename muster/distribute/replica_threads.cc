#include "muster/distribute/replica_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::distribute {
namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    return current_error().message();
  }
}

// One call of run(): which replicas are through, and with which result.
class Round {
 public:
  Round(const ReplicaFn& work, size_t count, std::chrono::duration<double> patience)
      : work_(work),
        patience_(patience),
        order_(count, count),
        errors_(count),
        ended_(count, false) {}

  void make(size_t replica) {
    const auto failing = [&] {
      if (order_[replica] == order_.size()) order_[replica] = failures_++;
    };
    try {
      work_(replica, failing);
    } catch (...) {
      failing();
      errors_[replica] = std::current_exception();
    }
    end(replica);
  }

  // Returns when all are through. The replica that failed first names the replicas that do not end.
  void wait_for_all(size_t replica) {
    std::unique_lock lock(mutex_);
    const auto all = [&] { return std::find(ended_.begin(), ended_.end(), false) == ended_.end(); };
    if (order_[replica] != 0) return changed_.wait(lock, all);
    std::chrono::duration<double> waited(0);
    for (auto next = patience_; !changed_.wait_for(lock, next, all); next *= 2) {
      waited += next;
      std::vector<std::string> missing;
      for (size_t other = 0; other < ended_.size(); ++other) {
        if (!ended_[other]) missing.push_back(std::to_string(other));
      }
      log::warning(fmt::format("replica {} failed ({}); not ended {:.1f} s later: replica {}",
                               replica, text_of(errors_[replica]), waited.count(),
                               join(missing, ", ")));
    }
  }

  void throw_first() const {
    const auto first = std::min_element(order_.begin(), order_.end());
    if (*first < order_.size())
      std::rethrow_exception(errors_[static_cast<size_t>(first - order_.begin())]);
  }

 private:
  void end(size_t replica) {
    const std::lock_guard lock(mutex_);
    ended_[replica] = true;
    changed_.notify_all();
  }

  const ReplicaFn& work_;
  const std::chrono::duration<double> patience_;
  std::atomic<size_t> failures_{0};
  // By replica: how many failed before it, and with which error.
  std::vector<size_t> order_;
  std::vector<std::exception_ptr> errors_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
};

}  // namespace

struct ReplicaThreads::Impl {
  const size_t count;
  const int former_threads = num_threads();
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Round> round;  // the one to take part in; null at the end
  uint64_t rounds = 0;
  std::vector<std::thread> others;

  explicit Impl(size_t replicas) : count(replicas) {}

  void live(size_t replica) {
    bool entered = false;
    for (uint64_t seen = 0;;) {
      std::shared_ptr<Round> mine;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return rounds != seen; });
        seen = rounds;
        mine = round;
      }
      if (!mine) return;
      if (!std::exchange(entered, true)) enter_thread();
      mine->make(replica);
      mine->wait_for_all(replica);
    }
  }

  void start(std::shared_ptr<Round> next) {
    const std::lock_guard lock(mutex);
    round = std::move(next);
    ++rounds;
    changed.notify_all();
  }

  void end() {
    start(nullptr);
    for (std::thread& other : others) other.join();
    set_threads(former_threads);
  }
};

ReplicaThreads::ReplicaThreads(size_t count) : impl_(std::make_unique<Impl>(count)) {
  set_threads(std::max(1, impl_->former_threads / static_cast<int>(count)));
  try {
    for (size_t replica = 1; replica < count; ++replica)
      impl_->others.emplace_back([impl = impl_.get(), replica] { impl->live(replica); });
  } catch (...) {
    impl_->end();
    throw;
  }
}

ReplicaThreads::~ReplicaThreads() { impl_->end(); }

void ReplicaThreads::run(const ReplicaFn& work, std::chrono::duration<double> patience) {
  const auto round = std::make_shared<Round>(work, impl_->count, patience);
  impl_->start(round);
  round->make(0);
  round->wait_for_all(0);
  round->throw_first();
}

}  // namespace muster::inline v0_1::distribute
