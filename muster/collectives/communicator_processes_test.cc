// Ranks as processes, which end, are killed or stop at any time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/collectives/communicator_suite.h"
#include "muster/collectives/connect.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/process_tasks.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ProcessTasks;
using testing::Task;

class CommunicatorProcesses : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, CommunicatorProcesses, ::testing::Values("tcp", "shared_memory"),
                         [](const auto& info) { return info.param; });

std::unique_ptr<Communicator> join_group(Task& task, std::chrono::milliseconds timeout = 30s) {
  return make_communicator({.transport = *parse_transport(task.setting("transport")),
                            .rendezvous = &task.store(),
                            .rank = task.rank(),
                            .size = task.size(),
                            .timeout = timeout});
}

TEST_P(CommunicatorProcesses, ReduceInRankOrder) {
  ProcessTasks tasks(2,
                     [](Task& task) {
                       auto group = join_group(task);
                       for (const int64_t count : {1, 100, 350'000}) {
                         Tensor buffer = uneven_values(task.rank(), count, kFloat32);
                         group->all_reduce(buffer).wait();
                         EXPECT_TRUE(same_bits(buffer, expected_sum(2, count, kFloat32)));
                         Tensor shared = group->allocate(count * 4).view(kFloat32);
                         shared.copy_(uneven_values(task.rank(), count, kFloat32));
                         group->all_reduce(shared).wait();
                         EXPECT_TRUE(same_bits(shared, buffer));
                       }
                     },
                     {.settings = {{"transport", GetParam()}}});
  tasks.expect_success();
}

// Ranks that survive post the error they got under "error<rank>".
void reduce_until_error(Task& task) {
  auto group = join_group(task);
  Tensor buffer = group->allocate(1'600'000).view(kFloat32).fill_(1);
  group->all_reduce(buffer).wait();
  task.store().set("ready" + std::to_string(task.rank()), "");
  try {
    while (true) group->all_reduce(buffer.fill_(1)).wait();
  } catch (const Error& error) {
    task.store().set("error" + std::to_string(task.rank()), error.what());
  }
}

TEST_P(CommunicatorProcesses, AKilledRankIsNamedAtOnceByEverySurvivor) {
  ProcessTasks tasks(3, reduce_until_error, {.settings = {{"transport", GetParam()}}});
  for (int rank = 0; rank < 3; ++rank) tasks.store().get("ready" + std::to_string(rank), 30s);
  tasks.kill(1);
  for (const int rank : {0, 2}) {
    // Long before the time-out of 30 s.
    EXPECT_EQ(tasks.wait(rank, 20s), 0) << tasks.output(rank);
    const std::string error = tasks.store().get("error" + std::to_string(rank), 0ms);
    EXPECT_THAT(error, HasSubstr("PeerLost"));
    EXPECT_THAT(error, HasSubstr("rank 1"));
    EXPECT_THAT(error, HasSubstr("all_reduce #"));
  }
}

// Makes a part of what is rank 2's to sum unreadable here, so that the process that sums it ends
// there.
void end_where_chunk_2_is_summed(const Tensor& buffer) {
  std::signal(SIGSEGV, [](int) { _exit(7); });
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(buffer.data_ptr());
  const uintptr_t inside = (begin + static_cast<uintptr_t>(buffer.nbytes()) * 5 / 6) / page * page;
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(inside), page, PROT_NONE), 0);
}

// Rank 1 finds that rank 2 has not begun with its own part, sums it, and dies in the middle.
TEST(SharedMemoryProcesses, WhoeverDiesInThePartOfAnotherIsNamedAtOnce) {
  ProcessTasks tasks(3,
                     [](Task& task) {
                       auto group = join_group(task);
                       Tensor buffer = group->allocate(1'600'000).view(kFloat32).fill_(1);
                       group->all_reduce(buffer).wait();
                       if (task.rank() == 1) {
                         task.store().get("posted0", 30s);
                         task.store().get("posted2", 30s);
                         end_where_chunk_2_is_summed(buffer);
                         group->all_reduce(buffer).wait();
                         return;
                       }
                       // What is posted first is begun by the last that posts.
                       Work sum = group->all_reduce(buffer);
                       task.store().set("posted" + std::to_string(task.rank()), "");
                       task.store().get("died", 30s);
                       const Error error = error_of([&] { sum.wait(); });
                       EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
                       EXPECT_THAT(error.message(), HasSubstr("lost rank 1"));
                     },
                     {.settings = {{"transport", "shared_memory"}}});
  EXPECT_EQ(tasks.wait(1, 30s), 7) << tasks.output(1);
  tasks.store().set("died", "");
  // Long before the time-out of 30 s.
  EXPECT_EQ(tasks.wait(0, 20s), 0) << tasks.output(0);
  EXPECT_EQ(tasks.wait(2, 20s), 0) << tasks.output(2);
}

TEST_P(CommunicatorProcesses, AStoppedRankCanBeAborted) {
  ProcessTasks tasks(2,
                     [](Task& task) {
                       auto group = join_group(task);
                       Tensor buffer = group->allocate(1'600'000).view(kFloat32).fill_(1);
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
                     },
                     {.settings = {{"transport", GetParam()}}});
  tasks.store().get("ready0", 30s);
  tasks.store().get("ready1", 30s);
  tasks.stop(1);
  EXPECT_THROW(tasks.wait(0, 100ms), Error);  // nothing tells it that its peer is stopped
  tasks.store().set("abort", "");
  EXPECT_EQ(tasks.wait(0, 20s), 0) << tasks.output(0);
  EXPECT_THAT(tasks.store().get("error0", 0ms), HasSubstr("worker:1 makes no progress"));
  tasks.resume(1);
  EXPECT_EQ(tasks.wait(1, 20s), 0) << tasks.output(1);
  EXPECT_THAT(tasks.store().get("error1", 0ms), HasSubstr("PeerLost"));
  EXPECT_THAT(tasks.store().get("error1", 0ms), HasSubstr("rank 0"));
}

TEST_P(CommunicatorProcesses, AStoppedRankIsATimeout) {
  ProcessTasks tasks(2,
                     [](Task& task) {
                       auto group = join_group(task, 2s);
                       Tensor buffer = group->allocate(1'600'000).view(kFloat32).fill_(1);
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
                     },
                     {.settings = {{"transport", GetParam()}}});
  tasks.store().get("ready", 30s);
  tasks.stop(1);
  tasks.store().set("stopped", "");
  EXPECT_EQ(tasks.wait(0, 20s), 0) << tasks.output(0);
}

}  // namespace
}  // namespace muster::inline v0_1
