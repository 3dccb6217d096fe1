#include "muster/distribute/internal/connect_replicas.h"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/foreign_error.h"

namespace muster::inline v0_1::distribute {

std::vector<std::unique_ptr<Communicator>> connect_replicas(
    int locals, const std::function<std::unique_ptr<Communicator>(int local)>& connect,
    const std::function<void(const Error& error)>& failed) {
  std::vector<std::unique_ptr<Communicator>> communicators(static_cast<size_t>(locals));
  std::mutex mutex;
  std::exception_ptr first;
  bool known = false;
  const auto run = [&](int local) {
    try {
      communicators[static_cast<size_t>(local)] = connect(local);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (std::exchange(known, true)) return;
        first = std::current_exception();
      }
      if (failed) failed(current_error());
    }
  };
  std::vector<std::thread> threads;
  for (int local = 1; local < locals; ++local) threads.emplace_back(run, local);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (!first) return communicators;
  // One by one, each would wait for the farewell of the next.
  for (const auto& communicator : communicators) {
    if (communicator) communicator->abort("another replica of the process could not connect");
  }
  std::rethrow_exception(first);
}

}  // namespace muster::inline v0_1::distribute
