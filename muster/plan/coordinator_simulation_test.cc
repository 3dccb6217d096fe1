// A group in a random world.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "muster/plan/coordinator_state.h"
#include "muster/plan/internal/test_groups.h"

namespace muster::inline v0_1::plan {
namespace {

using State = Verdict::State;

// n tasks beat, pass barriers and wait for keys; one of them is killed (with or without its
// connection breaking) or paused at a random time. Whatever happens:
// - no barrier completes before all have arrived,
// - every survivor learns of the failure, and of the right task, within heartbeat_timeout + two
// beats,
// - every wait of a survivor ends.
TEST(Simulation, SurvivorsLearnAndWaitsEnd) {
  constexpr double kStep = 0.05, kBeat = 1.0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    auto uniform = [&](double low, double high) {
      return std::uniform_real_distribution<>(low, high)(random);
    };
    const int tasks = 2 + static_cast<int>(random() % 5);
    CoordinatorOptions given = options(tasks);
    CoordinatorState state(given, 0);
    struct Task {
      double starts, next_beat = 0, busy_until = 0;
      bool joined = false, failed = false;
      int64_t generation = 0;  // barriers entered
      bool at_barrier = false;
      std::optional<Failure> heard;
      double heard_at = 0;
    };
    std::vector<Task> world(tasks);
    for (Task& task : world) task.starts = uniform(0, 20);
    const int victim = static_cast<int>(random() % tasks);
    const bool breaks = random() % 2;  // killed: the connection breaks; otherwise stopped: silence
    const double strikes = uniform(25, 60);
    std::vector<int64_t> arrived(tasks, 0);
    bool struck = false;

    double now = 0;
    for (; now < 90; now += kStep) {
      if (!struck && now >= strikes) {
        struck = true;
        if (breaks) state.disconnected(caller(victim), now);
      }
      for (int rank = 0; rank < tasks; ++rank) {
        Task& task = world[rank];
        if (now < task.starts || task.heard || (struck && rank == victim)) continue;
        if (!task.joined) {
          Verdict verdict = state.join(caller(rank), rank, tasks, now);
          if (verdict.state != State::kReady) continue;
          for (const Task& other : world)
            ASSERT_LE(other.starts, now) << "a group without all members";
          task.joined = true;
          state.connected(caller(rank));
        }
        if (now >= task.next_beat) {
          task.next_beat = now + kBeat;
          HeartbeatReply reply =
              state.heartbeat(caller(rank), task.at_barrier ? Phase::kWaiting : Phase::kTraining,
                              task.generation, now);
          if (reply.failure) {
            task.heard = reply.failure;
            task.heard_at = now;
            continue;
          }
        }
        if (!task.at_barrier && now >= task.busy_until) {
          task.at_barrier = true;
          arrived[rank] = ++task.generation;
        }
        if (task.at_barrier) {
          Verdict verdict = state.barrier(caller(rank), "step", task.generation, 0, now);
          ASSERT_NE(verdict.state, State::kRefused) << verdict.refusal->message();
          if (verdict.state == State::kReady) {
            for (int other = 0; other < tasks; ++other) ASSERT_GE(arrived[other], task.generation);
            task.at_barrier = false;
            task.busy_until = now + uniform(0, 3);
          } else if (verdict.state == State::kFailed) {
            task.heard = verdict.failure;
            task.heard_at = now;
          }
        } else if (random() % 50 == 0) {
          ASSERT_NE(state.wait(caller(rank), {"never"}).state, State::kReady);
        }
      }
      state.tick(now);
      if (!struck) {
        ASSERT_FALSE(state.first_failure()) << state.first_failure()->describe();
      }
    }
    for (int rank = 0; rank < tasks; ++rank) {
      if (rank == victim) continue;
      ASSERT_TRUE(world[rank].heard) << rank;
      EXPECT_EQ(world[rank].heard->task, caller(victim).task);
      const double limit = (breaks ? given.reconnect_grace : given.heartbeat_timeout) + 2 * kBeat;
      EXPECT_LE(world[rank].heard_at - strikes, limit + 2 * kStep);
      EXPECT_EQ(state.wait(caller(rank), {"never"}).state, State::kFailed);
      EXPECT_EQ(state.barrier(caller(rank), "step", 1000, 0, now).state, State::kFailed);
    }
  }
}

// A pause shorter than the time-out costs nothing but time.
TEST(Simulation, ShortPausesAreForgiven) {
  for (int seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    CoordinatorState state = group_of(3);
    double paused_until[3] = {0, 0, 0}, next[3] = {0, 0, 0};
    for (double now = 0; now < 120; now += 0.1) {
      for (int rank = 0; rank < 3; ++rank) {
        if (now < paused_until[rank] || now < next[rank]) continue;
        next[rank] = now + 1;
        ASSERT_FALSE(
            state.heartbeat(caller(rank), Phase::kTraining, static_cast<int64_t>(now), now).failure)
            << seed;
        if (random() % 10 == 0) paused_until[rank] = now + static_cast<double>(random() % 58) / 10;
      }
      state.tick(now);
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
