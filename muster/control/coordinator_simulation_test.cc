// Real clients and a real coordinator in a simulated world: random starts, delays, losses, deaths.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/simulated_threads.h"
#include "muster/control/coordinator.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/testing/simulated_network.h"

namespace muster::inline v0_1::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string task_of(int rank) { return rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1); }

// A group of tasks, each a simulated process with the real client, and the chief's coordinator.
class World {
 public:
  struct Options {
    int tasks = 2;
    NetworkOptions network = {};
    double progress_timeout = 300;
  };
  using Body = std::function<void(int rank, CoordinatorClient& client)>;

  World(uint64_t seed, const Options& options)
      : simulated(seed),
        server_(simulated, options.tasks),
        coordinator(coordinator_options(options), server_),
        network(simulated, coordinator, options.network),
        heard(options.tasks),
        heard_at(options.tasks, 0),
        starts(options.tasks, 0),
        arrived(options.tasks, 0) {
    for (int rank = 0; rank < options.tasks; ++rank) processes.emplace_back(simulated, rank);
    simulated.start(server_, [this] { coordinator.tick_until_ended(); });
  }

  ~World() {
    over_ = true;
    for (SimulatedThreads::Process& process : processes) process.freeze_until(simulated.now());
    for (SimulatedThreads::Process& process : processes) simulated.join(process);
    coordinator.end();
    simulated.join(server_);
  }

  JoinOptions join_options(int rank) {
    return {
        .address = "chief:2222",
        .task = task_of(rank),
        .rank = rank,
        .world_size = static_cast<int>(processes.size()),
        .incarnation = static_cast<uint64_t>(rank) + 1,
        .clock = &processes[rank],
        .connect = [this, rank](const std::string&) { return network.connect(processes[rank]); }};
  }

  // Every task joins at its time and runs `body`; what it throws ends the task's work, but the
  // client stays until the end of the world.
  void run(Body body) {
    for (int rank = 0; rank < static_cast<int>(processes.size()); ++rank) {
      simulated.start(processes[rank], [this, rank, body] { run_task(rank, body); });
    }
  }

  // Lets the others run until that time. The clock is simulated: nothing waits in real time.
  void pass_until(double time) { outside_.sleep_for(from_seconds(time - simulated.seconds())); }
  bool over() const { return over_; }
  // Waits for the end of the world.
  void rest(int rank) {
    processes[rank].wait_until(TimePoint::max(), [this] { return over_; });
  }
  // Of simulated time too.
  void sleep(int rank, double seconds) { processes[rank].sleep_for(from_seconds(seconds)); }

  SimulatedThreads simulated;

 private:
  SimulatedThreads::Process server_;
  SimulatedThreads::Process outside_{simulated, -1};

 public:
  Coordinator coordinator;
  SimulatedNetwork network;
  std::deque<SimulatedThreads::Process> processes;  // by rank
  std::vector<std::optional<Failure>> heard;        // by rank: what on_failure said
  std::vector<double> heard_at;
  std::vector<double> starts;
  std::vector<int64_t> arrived;  // by rank: at the barrier after this step

 private:
  static Coordinator::Options coordinator_options(const Options& options) {
    Coordinator::Options result{.look_interval = 1};
    for (int rank = 0; rank < options.tasks; ++rank) {
      result.group.roster.push_back({task_of(rank), fmt::format("10.0.0.{}:2222", rank)});
    }
    result.group.progress_timeout = options.progress_timeout;
    return result;
  }

  void run_task(int rank, const Body& body) {
    sleep(rank, starts[rank]);
    const auto client = CoordinatorClient::join(join_options(rank));
    for (double start : starts)
      EXPECT_LE(start, simulated.seconds()) << "a group without all members";
    simulated.await_threads(processes[rank], 3);
    client->on_failure([this, rank](const Failure& failure) {
      EXPECT_FALSE(heard[rank]) << "told twice";
      heard[rank] = failure;
      heard_at[rank] = simulated.seconds();
    });
    try {
      body(rank, *client);
    } catch (const Error& error) {
      // A victim that comes to life again after hours may say what it likes.
      if (over_) return;
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.message();
      // Later waits end at once.
      EXPECT_EQ(error_of([&] { client->get("never"); }).kind(), ErrorKind::kPeerLost);
      EXPECT_EQ(error_of([&] { client->barrier("step"); }).kind(), ErrorKind::kPeerLost);
    }
    rest(rank);
  }

  bool over_ = false;
};

// Steps with a barrier after each, of random length; now and then a wait for a key nobody sets.
World::Body train_for_ever(World& world) {
  return [&world](int rank, CoordinatorClient& client) {
    for (int64_t step = 1; !world.over(); ++step) {
      client.report(Phase::kTraining, step);
      world.sleep(rank, world.simulated.uniform(0, 3));
      if (world.simulated.random()() % 20 == 0) {
        const ErrorKind kind = error_of([&] { client.get("never", 0.5); }).kind();
        EXPECT_EQ(kind, client.first_failure() ? ErrorKind::kPeerLost : ErrorKind::kTimeout);
      }
      world.arrived[rank] = step;
      client.barrier("step");
      for (int64_t other : world.arrived)
        EXPECT_GE(other, step) << "a barrier that let somebody through";
    }
  };
}

enum class Blow { kKilled, kStopped, kCutOff };

// One of the tasks is killed (its connections close), stopped (silence) or cut off at a random
// time. Whatever happens:
// - no group forms and no barrier completes before all have arrived,
// - nobody is blamed before the blow,
// - every survivor learns of the failure, and of the right task, within the time-out and two beats,
// - every wait of a survivor ends.
// A task that is cut off learns in time that it lost the coordinator.
void survivors_learn(uint64_t seed, Blow blow, const NetworkOptions& network) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const int tasks = 2 + static_cast<int>(random() % 4);
  World world(seed, {.tasks = tasks, .network = network});
  for (double& start : world.starts) start = world.simulated.uniform(0, 10);
  world.run(train_for_ever(world));
  const int victim = static_cast<int>(random() % tasks);
  const double strikes = world.simulated.uniform(15, 30);
  world.pass_until(strikes);
  ASSERT_FALSE(world.coordinator.first_failure()) << world.coordinator.first_failure()->describe();

  if (blow == Blow::kCutOff) {
    world.network.cut_until(victim, TimePoint(std::chrono::hours(1)));
  } else {
    world.processes[victim].freeze_until(TimePoint(std::chrono::hours(1)));
  }
  if (blow == Blow::kKilled) world.network.disconnect(victim);
  // A lost message may hide the news for as long as its answer is waited for.
  const double beats = network.loss > 0 ? 2 + 2 : 2;
  const double limit = (blow == Blow::kKilled ? 2 : 6) + beats + 2 * network.longest_delay + 0.3;
  world.pass_until(strikes + limit + 8);
  for (int rank = 0; rank < tasks; ++rank) {
    if (rank == victim && blow != Blow::kCutOff) {
      EXPECT_FALSE(world.heard[rank]);
      continue;
    }
    ASSERT_TRUE(world.heard[rank]) << rank;
    EXPECT_LE(world.heard_at[rank] - strikes, limit) << rank;
    if (rank == victim) {
      EXPECT_THAT(world.heard[rank]->describe(),
                  HasSubstr("the coordinator at chief:2222 is lost: no heartbeat"));
    } else {
      EXPECT_EQ(world.heard[rank]->task, task_of(victim));
    }
  }
  world.network.cut_until(victim, world.simulated.now());
}

TEST(Simulation, SurvivorsLearnOfAKilledTaskAndWaitsEnd) {
  for (uint64_t seed = 0; seed < 15; ++seed) survivors_learn(seed, Blow::kKilled, {});
}

TEST(Simulation, SurvivorsLearnOfASilentTaskAndWaitsEnd) {
  for (uint64_t seed = 100; seed < 115; ++seed) survivors_learn(seed, Blow::kStopped, {});
}

TEST(Simulation, SurvivorsLearnOfATaskThatIsCutOffAndItLearnsToo) {
  for (uint64_t seed = 200; seed < 215; ++seed) survivors_learn(seed, Blow::kCutOff, {});
}

TEST(Simulation, SlowMessagesThatOvertakeEachOtherAndLossesChangeNothing) {
  const NetworkOptions rough{.longest_delay = 0.4, .loss = 0.05};
  for (uint64_t seed = 300; seed < 308; ++seed) {
    survivors_learn(seed, Blow::kKilled, rough);
    survivors_learn(seed, Blow::kStopped, rough);
  }
}

// A pause or a cut shorter than the time-out costs nothing but time.
TEST(Simulation, ShortPausesAndCutsAreForgiven) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    World world(seed, {.tasks = 3});
    world.run(train_for_ever(world));
    while (world.simulated.seconds() < 90) {
      world.pass_until(world.simulated.seconds() + world.simulated.uniform(4, 8));
      const int rank = static_cast<int>(world.simulated.random()() % 3);
      const TimePoint end = world.simulated.now() + from_seconds(world.simulated.uniform(0, 2.8));
      if (world.simulated.random()() % 2) {
        world.processes[rank].freeze_until(end);
      } else {
        world.network.cut_until(rank, end);
      }
    }
    world.pass_until(100);
    for (const auto& heard : world.heard) EXPECT_FALSE(heard) << heard->describe();
    for (int64_t steps : world.arrived) EXPECT_GT(steps, 10);
  }
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  const auto run = [](uint64_t seed) {
    std::string trace;
    World world(seed, {.tasks = 3, .network = {.longest_delay = 0.3, .loss = 0.05}});
    world.run([&](int rank, CoordinatorClient& client) {
      for (int64_t step = 1; !world.over(); ++step) {
        world.sleep(rank, world.simulated.uniform(0, 1));
        client.barrier("step");
        trace += fmt::format("{} {} {:.9f}\n", rank, step, world.simulated.seconds());
      }
    });
    world.pass_until(30);
    return trace;
  };
  const std::string first = run(7);
  EXPECT_GT(first.size(), 100u);
  EXPECT_EQ(first, run(7));
  EXPECT_NE(first, run(8));
}

// --- one law each ---

TEST(Simulation, AnEvaluatingPeerIsWaitedForBeyondTheProgressLimit) {
  double passed_at = 0;
  World world(1, {.tasks = 2, .progress_timeout = 60});
  world.run([&](int rank, CoordinatorClient& client) {
    if (rank == 0) {
      client.report(Phase::kEvaluating, 10);
      world.sleep(rank, 500);
    }
    client.barrier("evaluated");
    passed_at = world.simulated.seconds();
  });
  world.pass_until(490);
  EXPECT_EQ(passed_at, 0);
  world.pass_until(510);
  EXPECT_GE(passed_at, 500);
  EXPECT_FALSE(world.coordinator.first_failure());
}

TEST(Simulation, APeerThatTrainsWithoutProgressIsNot) {
  World world(1, {.tasks = 2, .progress_timeout = 60});
  world.run([&](int rank, CoordinatorClient& client) {
    client.report(Phase::kTraining, 10);
    if (rank == 0) {
      world.sleep(rank, 500);
    } else {
      client.barrier("step");
    }
  });
  world.pass_until(50);
  EXPECT_FALSE(world.coordinator.first_failure());
  world.pass_until(70);
  ASSERT_TRUE(world.heard[1]);
  EXPECT_THAT(world.heard[1]->describe(),
              AllOf(HasSubstr("chief failed at step 10 (training)"), HasSubstr("no progress")));
}

TEST(Simulation, TheEndOfTheCoordinatorIsALossUnlessTheTaskIsDone) {
  World world(1, {.tasks = 3});
  world.run([&](int rank, CoordinatorClient& client) {
    client.report(Phase::kTraining, 30);
    if (rank == 2) return client.done();
    if (rank == 1) client.get("never");
  });
  world.pass_until(10);
  world.network.end_server();
  world.pass_until(20);
  EXPECT_FALSE(world.heard[2]);
  ASSERT_TRUE(world.heard[1]);
  EXPECT_THAT(world.heard[1]->describe(),
              AllOf(HasSubstr("chief was lost, last heard of at step 30"),
                    HasSubstr("the coordinator at chief:2222 is lost: its connection closed")));
  EXPECT_LE(world.heard_at[1], 10 + 2 + 0.5);
}

}  // namespace
}  // namespace muster::inline v0_1::control
