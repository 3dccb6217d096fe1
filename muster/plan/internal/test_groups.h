// Groups for tests of the coordinator: one chief, the others workers.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::plan {

inline CoordinatorOptions options(int tasks, double heartbeat = 6, double grace = 2,
                                  double progress = 30) {
  CoordinatorOptions result{
      .heartbeat_timeout = heartbeat, .reconnect_timeout = grace, .progress_timeout = progress};
  for (int rank = 0; rank < tasks; ++rank) {
    result.roster.push_back({rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1),
                             fmt::format("10.0.0.{}:2222", rank)});
  }
  return result;
}

inline Caller caller(int rank, uint64_t incarnation = 1) {
  return {rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1), incarnation};
}

inline CoordinatorState group_of(int tasks, CoordinatorOptions given) {
  CoordinatorState state(std::move(given), 0);
  for (int rank = 0; rank < tasks; ++rank) state.join(caller(rank), rank, tasks, 0);
  return state;
}
inline CoordinatorState group_of(int tasks) { return group_of(tasks, options(tasks)); }

}  // namespace muster::inline v0_1::plan
