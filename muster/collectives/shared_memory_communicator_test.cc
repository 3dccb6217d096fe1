#include "muster/collectives/shared_memory_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/host_identity.h"
#include "muster/base/secret.h"
#include "muster/base/shared_memory.h"
#include "muster/collectives/communicator_suite.h"
#include "muster/collectives/internal/shared_memory_operations.h"
#include "muster/collectives/internal/unix_socket.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

void run_with(const SharedMemoryOptions& common, const RankBody& body) {
  MemoryStore store;
  testing::run_ranks(common.size, [&](int rank) {
    SharedMemoryOptions options = common;
    options.rendezvous = &store;
    options.rank = rank;
    body(make_shared_memory_communicator(options));
  });
}

void run_shared(const GroupOptions& options, const RankBody& body) {
  run_with({.size = options.size, .timeout = options.timeout}, body);
}

void run_small_stages(const GroupOptions& options, const RankBody& body) {
  run_with({.size = options.size, .timeout = options.timeout, .stage_bytes = 16'000}, body);
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, CommunicatorSuite,
                         ::testing::Values(TransportCase{"shared_memory", run_shared},
                                           TransportCase{"small_stages", run_small_stages}),
                         [](const auto& info) { return info.param.name; });

Tensor shared_copy(Communicator& group, const Tensor& values) {
  Tensor memory = group.allocate(static_cast<int64_t>(values.nbytes())).view(values.scalar_type());
  return memory.copy_(values);
}

TEST(SharedMemoryCommunicator, ReducesAllocatedMemoryInPlace) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_with({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      for (const DType dtype : {kFloat32, kFloat64, kInt64}) {
        for (const int64_t count : {1, 17, 1000, 5001, 150'007}) {
          const Tensor buffer = shared_copy(*group, uneven_values(group->rank(), count, dtype));
          group->all_reduce(buffer).wait();
          EXPECT_TRUE(same_bits(buffer, expected_sum(ranks, count, dtype)))
              << describe(buffer) << " on rank " << group->rank() << " of " << ranks;
        }
      }
    });
  }
}

TEST(SharedMemoryCommunicator, SomeBuffersMayBeSharedAndOthersNot) {
  run_with({.size = 3, .stage_bytes = 6400}, [&](std::unique_ptr<Communicator> group) {
    constexpr int64_t kCount = 10'001;
    for (int sharing = 0; sharing < 3; ++sharing) {
      const bool shares = group->rank() == sharing;
      const auto place = [&](const Tensor& values) {
        return shares ? shared_copy(*group, values) : values.clone();
      };
      const Tensor values = uneven_values(group->rank(), kCount, kFloat32);
      const Tensor sum = place(values);
      const Tensor root = place(values);
      const Tensor in = place(values);
      const Tensor out = torch::zeros({3 * kCount});
      const std::vector<Work> works = {group->all_reduce(sum), group->broadcast(root, 1),
                                       group->all_gather(in, out), group->barrier()};
      for (const Work& work : works) work.wait();
      EXPECT_TRUE(same_bits(sum, expected_sum(3, kCount, kFloat32)));
      EXPECT_TRUE(same_bits(root, uneven_values(1, kCount, kFloat32)));
      for (int r = 0; r < 3; ++r) {
        EXPECT_TRUE(same_bits(out.slice(0, r * kCount, (r + 1) * kCount),
                              uneven_values(r, kCount, kFloat32)));
      }
    }
  });
}

TEST(SharedMemoryCommunicator, ManyOperationsMayBeOutstanding) {
  run_with({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    const Tensor buffer = group->allocate(4 * 300).view(kFloat32).fill_(1);
    std::vector<Work> works;
    for (int i = 0; i < 300; ++i) works.push_back(group->all_reduce(buffer.slice(0, i, 300)));
    for (const Work& work : works) work.wait();
    EXPECT_EQ(buffer[0].item<float>(), 2);
    EXPECT_EQ(buffer[10].item<float>(), 2048);
  });
}

TEST(SharedMemoryCommunicator, AskingMovesOperationsToo) {
  run_with({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    Tensor plain = torch::ones({200'000});
    const Work work = group->all_reduce(plain);
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!work.done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    ASSERT_TRUE(work.done());
    EXPECT_EQ(plain.sum().item<float>(), 400'000);
  });
}

TEST(SharedMemoryCommunicator, MemoryOutlivesItsCommunicator) {
  std::array<Tensor, 2> kept;
  run_with({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    Tensor& mine = kept[static_cast<size_t>(group->rank())];
    mine = group->allocate(400).view(kFloat32).fill_(1);
    group->all_reduce(mine).wait();
  });
  for (const Tensor& tensor : kept) EXPECT_EQ(tensor.sum().item<float>(), 200);
}

TEST(SharedMemoryCommunicator, RefusesOptionsThatMakeNoSense) {
  MemoryStore store;
  EXPECT_THROW(make_shared_memory_communicator({.size = 2}), Error);
  EXPECT_THROW(make_shared_memory_communicator({.rendezvous = &store, .rank = 2, .size = 2}),
               Error);
  EXPECT_THROW(make_shared_memory_communicator({.timeout = 0ms}), Error);
  EXPECT_THROW(make_shared_memory_communicator({.stage_bytes = 100}), Error);
}

// Any process of this network namespace can find the socket's name in /proc/net/unix.
TEST(SharedMemoryCommunicator, SilentProcessesHoldUpNobody) {
  MemoryStore store;
  std::vector<FileDescriptor> silent;
  testing::run_ranks(2, [&](int rank) {
    if (rank == 1) {
      const std::string endpoint = store.get("collectives/group/shared_memory/at/0", 10s);
      const size_t begin = endpoint.find(' ') + 1;
      const std::string name = endpoint.substr(begin, endpoint.rfind(' ') - begin);
      for (int i = 0; i < 40; ++i) silent.push_back(internal::connect_unix(name).value());
    }
    const auto start = std::chrono::steady_clock::now();
    auto group = make_shared_memory_communicator({.rendezvous = &store, .rank = rank, .size = 2});
    EXPECT_LT(std::chrono::steady_clock::now() - start, 20s) << "bounded by the time-out of 60 s";
    Tensor one = torch::ones({10});
    group->all_reduce(one).wait();
    EXPECT_EQ(one.sum().item<float>(), 20);
  });
}

// Name and token of the socket of `rank`.
struct Door {
  std::string name, token;
};
Door door_of(KeyValueStore& store, int rank) {
  const std::string text =
      store.get("collectives/group/shared_memory/at/" + std::to_string(rank), 10s);
  const size_t first = text.find(' '), last = text.rfind(' ');
  return {.name = text.substr(first + 1, last - first - 1), .token = text.substr(last + 1)};
}

// A peer that fills the queue of a rank's socket delays a connection within its bounds.
TEST(SharedMemoryCommunicator, AFullQueueIsWaitedForWithinBounds) {
  const std::string name = "muster-test-" + random_secret();
  const FileDescriptor crowded = internal::listen_unix(name);
  ASSERT_EQ(listen(crowded.get(), 1), 0);
  std::vector<FileDescriptor> intruders;
  while (auto socket = internal::connect_unix(name)) intruders.push_back(std::move(*socket));
  const auto connect = [&](std::chrono::milliseconds timeout, std::function<void()> check) {
    MemoryStore store;
    store.set("collectives/group/shared_memory/at/0", "=" + host_identity() + " " + name + " word");
    return error_of([&] {
      make_shared_memory_communicator({.rendezvous = &store,
                                       .rank = 1,
                                       .size = 2,
                                       .connect_timeout = timeout,
                                       .check_failure = std::move(check)});
    });
  };
  const Error late = connect(100ms, {});
  EXPECT_EQ(late.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(late.message(), HasSubstr("rank 1 of 2 could not connect to rank 0 within 100 ms: "
                                        "the queue of its socket is full"));
  const Error lost = connect(20s, [] { throw Error(ErrorKind::kPeerLost, "worker 0 was lost"); });
  EXPECT_EQ(lost.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(lost.message(), HasSubstr("worker 0 was lost"));
}

// Rank 0 names another rank, or memory of another size than its file has.
TEST(SharedMemoryCommunicator, AReplyThatIsNotTrueEndsTheGroup) {
  for (const int named : {7, 1, 0}) {
    MemoryStore store;
    const std::string name = "muster-test-" + random_secret();
    const FileDescriptor listener = internal::listen_unix(name);
    store.set("collectives/group/shared_memory/at/0", "=" + host_identity() + " " + name + " word");
    store.set("collectives/group/shared_memory/obstacle/0", "=");
    std::thread rank_0([&] {
      const Door door = door_of(store, 1);
      const auto socket = internal::accept_unix(listener, 10s);
      const auto hello = internal::receive_handle(socket.value(), 10s);
      const auto memory = SharedMemory::create(4096);  // too little
      const internal::MemoryHandle reply{
          .rank = named, .token = door.token, .id = 0, .bytes = hello.value().bytes, .file = {}};
      EXPECT_TRUE(internal::send_handle(*socket, reply, memory.file()));
      internal::readable(*socket, 10s);  // until rank 1 has left
    });
    const Error error = error_of(
        [&] { make_shared_memory_communicator({.rendezvous = &store, .rank = 1, .size = 2}); });
    EXPECT_EQ(error.kind(), named == 0 ? ErrorKind::kCorrupt : ErrorKind::kPeerLost)
        << named << ": " << error.what();
    rank_0.join();
  }
}

// It knows everything that the ranks know, and yet no memory is shared with it.
TEST(SharedMemoryCommunicator, AnotherUserIsRefused) {
  // A peer of another user is a process that gave up root; only root can make one.
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  constexpr uid_t kNobody = 65534;
  int doors[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, doors), 0);
  const pid_t intruder = fork();
  if (intruder == 0) {
    close(doors[1]);
    char door[256] = {};
    const ssize_t got = read(doors[0], door, sizeof(door) - 1);
    if (got <= 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(2);
    try {
      const char* const space = std::strchr(door, ' ');
      const auto socket =
          internal::connect_unix(std::string(door, static_cast<size_t>(space - door)));
      const auto memory =
          SharedMemory::create(internal::SharedMemoryOperations::control_bytes(1 << 16));
      const internal::MemoryHandle hello{
          .rank = 1, .token = space + 1, .id = 0, .bytes = memory.bytes(), .file = {}};
      if (!socket || !internal::send_handle(*socket, hello, memory.file())) _exit(3);
      if (write(doors[0], "!", 1) != 1) _exit(7);
      // Rank 0 closes the connection, and answers nothing.
      if (!internal::readable(*socket, 20s)) _exit(4);
      _exit(internal::receive_handle(*socket, 0ms) ? 5 : 0);
    } catch (...) {
      _exit(6);
    }
  }
  close(doors[0]);
  MemoryStore store;
  testing::run_ranks(2, [&](int rank) {
    if (rank == 1) {
      const Door door = door_of(store, 0);
      const std::string text = door.name + " " + door.token;
      ASSERT_EQ(write(doors[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
      char sent = 0;  // before this rank exists
      ASSERT_EQ(read(doors[1], &sent, 1), 1);
    }
    auto group = make_shared_memory_communicator(
        {.rendezvous = &store, .rank = rank, .size = 2, .stage_bytes = 1 << 16});
    Tensor one = torch::ones({10});
    group->all_reduce(one).wait();
    EXPECT_EQ(one.sum().item<float>(), 20);
  });
  int status = 0;
  ASSERT_EQ(waitpid(intruder, &status, 0), intruder);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "exit code";
  close(doors[1]);
}

TEST(SharedMemoryCommunicator, AFailureThatTheCallerKnowsOfEndsTheWait) {
  MemoryStore store;
  const auto mine = [&](const std::string& name) {
    return store.get("collectives/group/shared_memory/" + name + "/0", 10s);
  };
  // Rank 1 answers both rounds and never connects.
  std::thread other([&] {
    const std::string endpoint = mine("at");
    store.set("collectives/group/shared_memory/at/1",
              endpoint.substr(0, endpoint.find(' ')) + " muster-nobody word");
    mine("obstacle");
    store.set("collectives/group/shared_memory/obstacle/1", "=");
  });
  try {
    make_shared_memory_communicator(
        {.rendezvous = &store, .rank = 0, .size = 2, .check_failure = [] {
           throw Error(ErrorKind::kPeerLost, "worker 1 was lost");
         }});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  }
  other.join();
}

TEST(SharedMemoryCommunicator, ARankThatNeverAppearsIsNamed) {
  MemoryStore store;
  try {
    make_shared_memory_communicator({.rendezvous = &store, .size = 2, .connect_timeout = 100ms});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not appear within 100 ms"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
