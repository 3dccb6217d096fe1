#include "muster/train/replica_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.message();
  } catch (const std::exception& foreign) {
    return foreign_error(foreign).message();
  } catch (...) {
    return unknown_error().message();
  }
}

// Which replicas are through.
class Ends {
 public:
  Ends(size_t count, std::chrono::duration<double> patience)
      : patience_(patience), ended_(count, false) {}

  void add(size_t replica) {
    const std::lock_guard lock(mutex_);
    ended_[replica] = true;
    changed_.notify_all();
  }

  // Waits for all, and names from time to time those that `failure` of replica `first` has not
  // ended yet.
  void wait(size_t first, const std::exception_ptr& failure) {
    std::unique_lock lock(mutex_);
    std::chrono::duration<double> waited(0);
    const auto all = [&] { return std::find(ended_.begin(), ended_.end(), false) == ended_.end(); };
    for (auto next = patience_; !changed_.wait_for(lock, next, all); next *= 2) {
      waited += next;
      std::vector<std::string> missing;
      for (size_t replica = 0; replica < ended_.size(); ++replica) {
        if (!ended_[replica]) missing.push_back(std::to_string(replica));
      }
      log::warning(fmt::format("replica {} failed ({}); not ended {:.1f} s later: replica {}",
                               first, text_of(failure), waited.count(), join(missing, ", ")));
    }
  }

 private:
  const std::chrono::duration<double> patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
};

}  // namespace

void run_replicas(size_t count, const ReplicaFn& run, std::chrono::duration<double> patience) {
  const int threads = num_threads();
  set_threads(std::max(1, threads / static_cast<int>(count)));
  std::atomic<size_t> failures{0};
  // By replica: how many failed before it, and with what.
  std::vector<size_t> order(count, count);
  std::vector<std::exception_ptr> errors(count);
  Ends ends(count, patience);
  const auto work = [&](size_t replica) {
    const auto failing = [&] {
      if (order[replica] == count) order[replica] = failures++;
    };
    try {
      if (replica > 0) enter_thread();
      run(replica, failing);
    } catch (...) {
      failing();
      errors[replica] = std::current_exception();
    }
    ends.add(replica);
    if (order[replica] == 0) ends.wait(replica, errors[replica]);
  };
  // None begins before all exist: they would wait for one that cannot be made.
  std::promise<bool> go;
  const std::shared_future<bool> may_go = go.get_future().share();
  std::vector<std::thread> others;
  std::exception_ptr no_thread;
  try {
    for (size_t replica = 1; replica < count; ++replica) {
      others.emplace_back([&work, may_go, replica] {
        if (may_go.get()) work(replica);
      });
    }
  } catch (...) {
    no_thread = std::current_exception();
  }
  go.set_value(!no_thread);
  if (!no_thread) work(0);
  for (std::thread& other : others) other.join();
  set_threads(threads);
  if (no_thread) std::rethrow_exception(no_thread);
  const auto first = std::min_element(order.begin(), order.end());
  if (*first < count) std::rethrow_exception(errors[static_cast<size_t>(first - order.begin())]);
}

InputFn called_once(const InputFn& input_fn) {
  struct Shared {
    InputFn input_fn;
    std::mutex mutex;
    std::optional<Dataset> dataset;
  };
  auto shared = std::make_shared<Shared>();
  shared->input_fn = input_fn;
  const auto call = [shared](const InputContext& context) {
    const std::lock_guard lock(shared->mutex);
    if (!shared->dataset) shared->dataset = shared->input_fn(context);
    return *shared->dataset;
  };
  if (input_fn.shards_itself()) return InputFn(call);
  return InputFn([call] { return call(InputContext{}); });
}

}  // namespace muster::inline v0_1
