#include "muster/collectives/collective_history.h"

#include <chrono>
#include <deque>
#include <mutex>

#include "muster/base/error.h"
#include "muster/collectives/internal/collective_ring.h"

namespace muster::inline v0_1 {
namespace {

using Steady = std::chrono::steady_clock;

struct NotedCollective {
  std::string_view transport;
  int rank, size;
  internal::Operation operation;  // without its memory
  Steady::time_point begun;
  Work work;
};

struct Ring {
  std::mutex mutex;
  std::deque<NotedCollective> calls;
};

// It outlives all threads.
Ring& ring() {
  static Ring* const one = new Ring;
  return *one;
}

double seconds_between(Steady::time_point a, Steady::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

namespace internal {

void note_collective(std::string_view transport, int rank, int size, const Operation& operation,
                     const Work& work) {
  Operation form{.kind = operation.kind,
                 .type = operation.type,
                 .root = operation.root,
                 .count = operation.count,
                 .sequence = operation.sequence};
  const std::lock_guard lock(ring().mutex);
  ring().calls.push_back({transport, rank, size, std::move(form), Steady::now(), work});
  if (ring().calls.size() > kCollectivesKept) ring().calls.pop_front();
}

}  // namespace internal

std::vector<CollectiveCall> last_collectives() {
  std::deque<NotedCollective> noted;
  {
    const std::lock_guard lock(ring().mutex);
    noted = ring().calls;
  }
  std::vector<CollectiveCall> calls;
  for (const NotedCollective& it : noted) {
    CollectiveCall call{.transport = std::string(it.transport),
                        .rank = it.rank,
                        .size = it.size,
                        .number = it.operation.sequence,
                        .call = it.operation.describe(),
                        .before = seconds_between(it.begun, Steady::now())};
    if (it.work.done()) {
      const auto ended = it.work.ended();
      call.seconds = ended ? seconds_between(it.begun, *ended) : 0;
      try {
        it.work.wait();
      } catch (const Error& error) {
        call.failure = error.message();
      }
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace muster::inline v0_1
