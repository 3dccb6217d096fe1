#include "tests/support/run_ranks.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster::inline v0_1::testing {
namespace {

std::string what_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "no std::exception";
  }
}

}  // namespace

void run_ranks(int n, const std::function<void(int)>& fn, std::chrono::milliseconds deadline) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> finished(n, false);
  int left = n;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      std::exception_ptr failure;
      try {
        fn(rank);
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      if (failure && !first) first = failure;
      finished[rank] = true;
      --left;
      changed.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, deadline, [&] { return left == 0; })) {
      for (int rank = 0; rank < n; ++rank) {
        if (!finished[rank]) {
          std::fprintf(stderr, "run_ranks: rank %d of %d is still running after %lld ms\n", rank, n,
                       static_cast<long long>(deadline.count()));
        }
      }
      // Others may wait for a failed one.
      if (first)
        std::fprintf(stderr, "run_ranks: before, one failed: %s\n", what_of(first).c_str());
      std::fflush(nullptr);
      std::_Exit(124);
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace muster::inline v0_1::testing
