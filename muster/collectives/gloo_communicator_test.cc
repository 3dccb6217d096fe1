#include "muster/collectives/gloo_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <thread>

#include "muster/collectives/communicator_suite.h"
#include "tests/support/process_tasks.h"
#include "tests/support/run_ranks.h"

namespace muster {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ProcessTasks;
using testing::Task;

void run_gloo_with(const GlooOptions& common, const RankBody& body) {
  MemoryStore store;
  testing::run_ranks(common.size, [&](int rank) {
    GlooOptions options = common;
    options.rendezvous = &store;
    options.rank = rank;
    body(make_gloo_communicator(options));
  });
}

void run_gloo(const GroupOptions& options, const RankBody& body) {
  run_gloo_with({.size = options.size, .timeout = options.timeout}, body);
}

void run_small_segments(const GroupOptions& options, const RankBody& body) {
  run_gloo_with({.size = options.size,
                 .timeout = options.timeout,
                 .inline_bytes = 0,
                 .segment_bytes = 20'000},
                body);
}

INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorSuite,
                         ::testing::Values(Transport{"gloo", run_gloo},
                                           Transport{"small_segments", run_small_segments}),
                         [](const auto& info) { return info.param.name; });

TEST(GlooCommunicator, InlineAndChunkedGiveTheSameBits) {
  for (const int64_t inline_bytes : {0, 100, 16 * 1024}) {
    for (const int64_t segment_bytes : {64, 1000, 256 * 1024}) {
      run_gloo_with({.size = 3, .inline_bytes = inline_bytes, .segment_bytes = segment_bytes},
                    [&](std::unique_ptr<Communicator> group) {
                      for (const int64_t count : {1, 24, 26, 2500, 4097}) {
                        Tensor buffer = uneven_values(group->rank(), count, kFloat32);
                        group->all_reduce(buffer).wait();
                        EXPECT_TRUE(same_bits(buffer, expected_sum(3, count, kFloat32)))
                            << count << " " << inline_bytes << " " << segment_bytes;
                      }
                    });
    }
  }
}

TEST(GlooCommunicator, OptionsThatDifferAreNamed) {
  MemoryStore store;
  testing::run_ranks(2, [&](int rank) {
    auto group = make_gloo_communicator(
        {.rendezvous = &store, .rank = rank, .size = 2, .segment_bytes = 1000 + rank * 8});
    try {
      group->all_reduce(torch::ones({100'000})).wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("1008"));
    }
  });
}

TEST(GlooCommunicator, RefusesOptionsThatMakeNoSense) {
  MemoryStore store;
  EXPECT_THROW(make_gloo_communicator({.size = 2}), Error);
  EXPECT_THROW(make_gloo_communicator({.rendezvous = &store, .rank = 2, .size = 2}), Error);
  EXPECT_THROW(make_gloo_communicator({.inline_bytes = 16 * 1024 + 1}), Error);
  EXPECT_THROW(make_gloo_communicator({.segment_bytes = 0}), Error);
  EXPECT_THROW(make_gloo_communicator({.timeout = 0ms}), Error);
}

TEST(GlooCommunicator, ARankThatNeverAppearsIsNamed) {
  MemoryStore store;
  try {
    make_gloo_communicator({.rendezvous = &store, .rank = 0, .size = 2, .connect_timeout = 100ms});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not appear within 100 ms"));
  }
}

std::unique_ptr<Communicator> join(Task& task, std::chrono::milliseconds timeout = 30s) {
  return make_gloo_communicator(
      {.rendezvous = &task.store(), .rank = task.rank(), .size = task.size(), .timeout = timeout});
}

TEST(GlooProcesses, ReduceInRankOrder) {
  ProcessTasks tasks(2, [](Task& task) {
    auto group = join(task);
    for (const int64_t count : {1, 100, 350'000}) {
      Tensor buffer = uneven_values(task.rank(), count, kFloat32);
      group->all_reduce(buffer).wait();
      EXPECT_TRUE(same_bits(buffer, expected_sum(2, count, kFloat32)));
    }
  });
  tasks.expect_success();
}

// Ranks that survive post the error they got under "error<rank>".
void reduce_until_error(Task& task) {
  auto group = join(task);
  Tensor buffer = torch::ones({400'000});
  group->all_reduce(buffer).wait();
  task.store().set("ready" + std::to_string(task.rank()), "");
  try {
    while (true) group->all_reduce(buffer.fill_(1)).wait();
  } catch (const Error& error) {
    task.store().set("error" + std::to_string(task.rank()), error.what());
  }
}

TEST(GlooProcesses, AKilledRankIsNamedAtOnceByEverySurvivor) {
  ProcessTasks tasks(3, reduce_until_error);
  for (int rank = 0; rank < 3; ++rank) tasks.store().get("ready" + std::to_string(rank), 30s);
  tasks.kill(1);
  for (const int rank : {0, 2}) {
    // Long before the time-out of 30 s.
    EXPECT_EQ(tasks.wait(rank, 10s), 0) << tasks.output(rank);
    const std::string error = tasks.store().get("error" + std::to_string(rank), 0ms);
    EXPECT_THAT(error, HasSubstr("PeerLost"));
    EXPECT_THAT(error, HasSubstr("rank 1"));
    EXPECT_THAT(error, HasSubstr("all_reduce #"));
  }
}

TEST(GlooProcesses, AStoppedRankCanBeAborted) {
  ProcessTasks tasks(2, [](Task& task) {
    auto group = join(task);
    Tensor buffer = torch::ones({400'000});
    group->all_reduce(buffer).wait();
    task.store().set("ready" + std::to_string(task.rank()), "");
    std::thread watcher;
    if (task.rank() == 0) {
      watcher = std::thread([&] {
        task.store().get("abort", 30s);
        group->abort(ErrorKind::kPeerLost, "worker:1 makes no progress");
      });
    }
    try {
      while (true) group->all_reduce(buffer.fill_(1)).wait();
    } catch (const Error& error) {
      task.store().set("error" + std::to_string(task.rank()), error.what());
    }
    if (watcher.joinable()) watcher.join();
  });
  tasks.store().get("ready0", 30s);
  tasks.store().get("ready1", 30s);
  tasks.stop(1);
  EXPECT_THROW(tasks.wait(0, 100ms), Error);  // nothing tells it that its peer is stopped
  tasks.store().set("abort", "");
  EXPECT_EQ(tasks.wait(0, 10s), 0) << tasks.output(0);
  EXPECT_THAT(tasks.store().get("error0", 0ms), HasSubstr("worker:1 makes no progress"));
  tasks.resume(1);
  EXPECT_EQ(tasks.wait(1, 10s), 0) << tasks.output(1);
  EXPECT_THAT(tasks.store().get("error1", 0ms), HasSubstr("PeerLost"));
  EXPECT_THAT(tasks.store().get("error1", 0ms), HasSubstr("rank 0"));
}

TEST(GlooProcesses, AStoppedRankIsATimeout) {
  ProcessTasks tasks(2, [](Task& task) {
    auto group = join(task, 1s);
    Tensor buffer = torch::ones({400'000});
    group->all_reduce(buffer).wait();
    if (task.rank() == 1) {
      task.store().set("ready", "");
      task.store().get("never", 30s);
    }
    task.store().get("stopped", 30s);
    try {
      group->all_reduce(buffer).wait();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    }
  });
  tasks.store().get("ready", 30s);
  tasks.stop(1);
  tasks.store().set("stopped", "");
  EXPECT_EQ(tasks.wait(0, 20s), 0) << tasks.output(0);
}

}  // namespace
}  // namespace muster
