// On a stand-in for a GPU: its tensors mix with no others, and its copies are done only when a
// thread waits for them.
#include "muster/collectives/device_communicator.h"

#include <c10/core/Stream.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <latch>

#include "muster/base/error_of.h"
#include "muster/collectives/communicator_suite.h"
#include "muster/collectives/connect.h"
#include "muster/collectives/internal/device_backend.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_device.h"

namespace muster::inline v0_1 {
namespace {

using internal::DeviceBackend;
using internal::Operation;
using internal::OperationKind;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::test_device;

// The sums of a group of threads stand in for the exchange between devices. An error among the
// devices reaches no caller: enqueue() does not report it.
class ThreadsAsDevices final : public DeviceBackend {
 public:
  // `fails_at`: the number of the operation that cannot be enqueued.
  ThreadsAsDevices(std::unique_ptr<Communicator> threads, uint64_t fails_at)
      : threads_(std::move(threads)), fails_at_(fails_at) {}

  std::string_view name() const override { return "stand-in"; }
  void enqueue(const Operation& operation, const c10::Stream&) override {
    if (operation.sequence == fails_at_) throw internal_error("the group has no memory");
    const auto dtype = operation.type == internal::ElementType::kFloat32   ? kFloat32
                       : operation.type == internal::ElementType::kFloat64 ? kFloat64
                       : operation.type == internal::ElementType::kInt64   ? kInt64
                                                                           : kUInt8;
    const auto here = [&](std::byte* data, int64_t count) {
      return torch::from_blob(data, {count}, at::dtype(dtype));
    };
    const int64_t n = operation.count, all = n * threads_->size();
    try {
      Work work;
      if (operation.kind == OperationKind::kAllReduce)
        work = threads_->all_reduce(here(operation.data, n));
      if (operation.kind == OperationKind::kReduceScatter)
        work = threads_->reduce_scatter(here(operation.data, all), here(operation.out, n));
      if (operation.kind == OperationKind::kBroadcast)
        work = threads_->broadcast(here(operation.data, n), operation.root);
      if (operation.kind == OperationKind::kAllGather)
        work = threads_->all_gather(here(operation.data, n), here(operation.out, all));
      work.wait();
    } catch (const Error&) {
    }
  }
  void check() override {}
  void abort() noexcept override { threads_->abort("the group was ended"); }

 private:
  const std::unique_ptr<Communicator> threads_;
  const uint64_t fails_at_;
};

std::vector<std::unique_ptr<Communicator>> hosts(const GroupOptions& options) {
  return make_thread_communicators({.size = options.size, .timeout = options.timeout});
}

// Rank r on device r.
void run_staged(const GroupOptions& options, const RankBody& body) {
  auto group = hosts(options);
  run_ranks(options.size, [&](int rank) {
    body(make_staged_communicator(std::move(group[rank]), test_device(rank), options.timeout));
  });
}

void run_group(const GroupOptions& options, const RankBody& body,
               const std::vector<uint64_t>& fails_at = {}) {
  auto group = hosts(options);
  auto devices = hosts(options);
  run_ranks(options.size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    body(internal::make_device_backend_communicator(
        std::move(group[r]),
        std::make_unique<ThreadsAsDevices>(std::move(devices[r]),
                                           r < fails_at.size() ? fails_at[r] : 0),
        test_device(rank), options.timeout));
  });
}

// Tensors on the CPU are reduced by the inner communicator.
INSTANTIATE_TEST_SUITE_P(Staged, CommunicatorSuite,
                         ::testing::Values(TransportCase{"staged", run_staged}));

struct Kind {
  const char* name{};
  std::function<void(const GroupOptions&, const RankBody&)> run{};
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class OnDevices : public ::testing::TestWithParam<Kind> {};

TEST_P(OnDevices, OperationsGiveWhatTheCpuGives) {
  for (int ranks : {1, 2, 4}) {
    GetParam().run({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      const int rank = group->rank();
      const Device device = test_device(rank);
      for (DType dtype : {kFloat32, kFloat64, kInt64}) {
        for (int64_t count : {0, 1, 1000, 70'000}) {
          const Tensor sums = uneven_values(rank, count, dtype).to(device);
          const Work work = group->all_reduce(sums);
          // Something of the CPU in between, in the same order on all ranks.
          const Tensor host = torch::full({3}, rank + 1, kFloat32);
          const Work other = group->all_reduce(host);
          work.wait();
          other.wait();
          EXPECT_TRUE(same_bits(sums.cpu(), expected_sum(ranks, count, dtype)));
          EXPECT_EQ(host[2].item<float>(), ranks * (ranks + 1) / 2);
        }
      }
      const Tensor mine = torch::full({5}, rank, at::device(device).dtype(at::kShort));
      const Tensor all = torch::empty({5 * ranks}, mine.options());
      group->all_gather(mine, all).wait();
      for (int r = 0; r < ranks; ++r)
        EXPECT_TRUE((all.cpu().slice(0, 5 * r, 5 * r + 5) == r).all().item<bool>());
      const Tensor told = torch::full({9}, rank + 7, at::device(device).dtype(at::kBool));
      group->broadcast(told.view(kUInt8), ranks - 1).wait();
      EXPECT_TRUE(told.cpu().all().item<bool>());
      const Tensor whole = uneven_values(rank, 12 * ranks, kFloat32).to(device);
      const Tensor part = torch::empty({12}, whole.options());
      group->reduce_scatter(whole, part).wait();
      EXPECT_TRUE(
          same_bits(part.cpu(),
                    expected_sum(ranks, 12 * ranks, kFloat32).slice(0, 12 * rank, 12 * rank + 12)));
      const Tensor memory = group->allocate(100);
      EXPECT_EQ(memory.device(), device);
      EXPECT_EQ(memory.count_nonzero().item<int64_t>(), 0);
      group->barrier().wait();
    });
  }
}

TEST_P(OnDevices, ManyAreUnderWayAtOnce) {
  GetParam().run({.size = 3}, [&](std::unique_ptr<Communicator> group) {
    const Device device = test_device(group->rank());
    std::vector<Tensor> buffers;
    std::vector<Work> works;
    for (int i = 0; i < 40; ++i) {
      buffers.push_back(torch::full({100 + i}, i + group->rank(), device));
      works.push_back(group->all_reduce(buffers.back()));
    }
    works.front().wait();
    works.back().wait();
    EXPECT_TRUE(works[20].done());
    for (int i = 0; i < 40; ++i)
      EXPECT_TRUE((buffers[static_cast<size_t>(i)].cpu() == 3 * i + 3).all().item<bool>());
  });
}

TEST_P(OnDevices, DifferentOperationsAreNamedOnAllRanks) {
  GetParam().run({.size = 2, .timeout = std::chrono::seconds(20)},
                 [&](std::unique_ptr<Communicator> group) {
                   const Device device = test_device(group->rank());
                   const Tensor buffer = torch::ones({group->rank() == 0 ? 10 : 12}, device);
                   const Error error = error_of([&] { group->all_reduce(buffer).wait(); });
                   EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
                   EXPECT_THAT(error.message(), HasSubstr("all_reduce #1 of 10 float32"));
                   EXPECT_THAT(error.message(), HasSubstr("all_reduce #1 of 12 float32"));
                   // The group is over.
                   EXPECT_THROW(group->all_reduce(torch::ones({1}, device)).wait(), Error);
                 });
}

TEST_P(OnDevices, ARankThatDoesNotComeIsNamed) {
  std::latch gave_up(2);  // the others
  GetParam().run(
      {.size = 3, .timeout = milliseconds(300)}, [&](std::unique_ptr<Communicator> group) {
        if (group->rank() == 1) return gave_up.wait();
        const Tensor buffer = torch::ones({10}, test_device(group->rank()));
        const Error error = error_of([&] { group->all_reduce(buffer).wait(); });
        gave_up.count_down();
        EXPECT_TRUE(error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kPeerLost)
            << error.what();
        EXPECT_THAT(std::string(error.what()), HasSubstr("rank 1"));
      });
}

TEST_P(OnDevices, AbortEndsWhoWaits) {
  std::latch comes(1), told(1);
  GetParam().run({.size = 2, .timeout = std::chrono::seconds(20)},
                 [&](std::unique_ptr<Communicator> group) {
                   if (group->rank() == 1) {
                     comes.wait();
                     group->abort("enough");
                     return told.wait();
                   }
                   comes.count_down();
                   const Tensor buffer = torch::ones({10}, test_device(0));
                   const Error error = error_of([&] { group->all_reduce(buffer).wait(); });
                   told.count_down();
                   EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
                   EXPECT_THAT(std::string(error.what()), HasSubstr("enough"));
                 });
}

TEST(StagedCommunicator, ADeviceThatHangsIsNamed) {
  const testing::TestDevicesAtWork at_work;
  run_staged({.size = 2, .timeout = milliseconds(300)}, [&](std::unique_ptr<Communicator> group) {
    const Tensor buffer = torch::ones({4}, test_device(group->rank()));
    const Error error = error_of([&] { group->all_reduce(buffer).wait(); });
    EXPECT_THAT(std::string(error.what()), HasSubstr("was not through with its own work"));
    EXPECT_THROW(group->all_reduce(buffer).wait(), Error);
  });
}

TEST_P(OnDevices, TensorsOfElsewhereAreRefused) {
  GetParam().run({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    const int rank = group->rank();
    const Tensor elsewhere = torch::ones({4}, test_device(rank + 2));
    EXPECT_THAT(error_of([&] { group->all_reduce(elsewhere); }).message(),
                HasSubstr(elsewhere.device().str()));
    const Tensor square = torch::ones({4, 4}, test_device(rank));
    EXPECT_THROW(group->all_reduce(square), Error);
    EXPECT_THROW(group->all_reduce(square.view({-1}).slice(0, 0, 16, 2)), Error);
    group->barrier().wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnDevices,
                         ::testing::Values(Kind{"staged", run_staged},
                                           Kind{"group", [](const GroupOptions& options,
                                                            const RankBody& body) {
                                                  run_group(options, body);
                                                }}));

TEST(DeviceBackendCommunicator, ACallThatItCannotEnqueueEndsEveryRank) {
  run_group({.size = 2, .timeout = std::chrono::seconds(20)},
            [&](std::unique_ptr<Communicator> group) {
              const Device device = test_device(group->rank());
              const auto sum = [&] { group->all_reduce(torch::ones({4}, device)).wait(); };
              sum();
              if (group->rank() == 1) {
                EXPECT_THAT(error_of(sum).message(), HasSubstr("the group has no memory"));
              } else {
                // It learns of it with its next operation at the latest.
                try {
                  sum();
                } catch (const Error&) {
                }
              }
              const Error next = error_of(sum);
              EXPECT_NE(next.kind(), ErrorKind::kTimeout) << next.what();
              EXPECT_THAT(std::string(next.what()), HasSubstr("the group has no memory"));
            },
            {0, 2});
}

// While the device is still at it.
TEST(DeviceBackendCommunicator, ACallThatTakesTooLongEndsTheGroup) {
  const testing::TestDevicesAtWork at_work;
  run_group({.size = 2, .timeout = milliseconds(300)}, [&](std::unique_ptr<Communicator> group) {
    const Device device = test_device(group->rank());
    const Work work = group->all_reduce(torch::ones({4}, device));
    EXPECT_FALSE(work.done());
    const Error error = error_of([&] { work.wait(); });
    // The rank that is a little later gets the other's error.
    EXPECT_TRUE(error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kPeerLost);
    EXPECT_THAT(std::string(error.what()), HasSubstr("took longer than 0.3 s"));
    EXPECT_THROW(group->all_reduce(torch::ones({4}, device)).wait(), Error);
  });
}

TEST(DeviceBackendCommunicator, AnAbortedOperationIsNoSuccess) {
  run_group({.size = 2, .timeout = std::chrono::seconds(20)},
            [&](std::unique_ptr<Communicator> group) {
              const Work work = [&] {
                const testing::TestDevicesAtWork at_work;
                Work begun = group->all_reduce(torch::ones({4}, test_device(group->rank())));
                EXPECT_FALSE(begun.done());
                group->barrier().wait();
                // Its kernels are ended, and so the device is done.
                group->abort(ErrorKind::kPeerLost, "worker 7 was lost");
                return begun;
              }();
              const Error error = error_of([&] { work.wait(); });
              EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
              EXPECT_THAT(std::string(error.what()), HasSubstr("worker 7 was lost"));
            });
}

TEST(DeviceBackendCommunicator, ACallThatIsDoneNeedsNoWait) {
  run_group({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    const Tensor sums = torch::full({4}, group->rank() + 1, test_device(group->rank()));
    (void)group->all_reduce(sums);
    group->barrier().wait();
    EXPECT_EQ(sums.cpu()[0].item<float>(), 3);
    // Otherwise the other rank would receive the failure of this operation.
    group.reset();
  });
}

TEST(DeviceCommunicator, NcclIsForGpus) {
  MemoryStore store;
  const auto refused = [&](Device device) {
    return error_of([&] {
      make_communicator({.transport = Transport::kNccl,
                         .rendezvous = &store,
                         .rank = 0,
                         .size = 1,
                         .device = device});
    });
  };
  if (built_with_nccl()) {
    EXPECT_THAT(refused(at::kCPU).message(), HasSubstr("this replica computes on cpu"));
    EXPECT_THAT(refused(test_device(0)).message(), HasSubstr("this replica computes on private"));
    return;
  }
  const Error error = refused(Device(at::kCUDA, 0));
  EXPECT_THAT(error.message(), HasSubstr("not supported: NCCL"));
  EXPECT_THAT(error.hint(), HasSubstr("libnccl-dev"));
}

TEST(DeviceCommunicator, DevicesMeetOverAnyTransport) {
  for (Transport transport : {Transport::kAuto, Transport::kTcp, Transport::kSharedMemory}) {
    MemoryStore store;
    run_ranks(2, [&](int rank) {
      const auto group = make_communicator({.transport = transport,
                                            .rendezvous = &store,
                                            .rank = rank,
                                            .size = 2,
                                            .device = test_device(rank)});
      const Tensor sums = torch::full({5000}, rank + 1, test_device(rank));
      group->all_reduce(sums).wait();
      EXPECT_TRUE((sums.cpu() == 3).all().item<bool>());
      EXPECT_THAT(std::string(group->name()), HasSubstr("through the CPU"));
    });
  }
}

// NCCL has nothing to move if there is no GPU; its logic without it is tested above.
TEST(NcclTest, SumsWhatGpusBring) {
  const auto gpus = static_cast<int>(torch::cuda::device_count());
  if (!built_with_nccl() || gpus == 0) GTEST_SKIP() << "there is no NCCL here, or no GPU";
  auto group = hosts({.size = gpus});
  run_ranks(gpus, [&](int rank) {
    const Device device(at::kCUDA, static_cast<c10::DeviceIndex>(rank));
    std::string how;
    const auto nccl =
        make_device_communicator(std::move(group[static_cast<size_t>(rank)]),
                                 {.device = device, .transport = Transport::kNccl}, &how);
    for (int64_t count : {1, 1000, 5'000'000}) {
      const Tensor sums = torch::full({count}, rank + 1, device);
      nccl->all_reduce(sums).wait();
      EXPECT_TRUE((sums.cpu() == gpus * (gpus + 1) / 2).all().item<bool>());
    }
    const auto floats = at::dtype(kFloat32).device(device);
    const Tensor mine = torch::full({5}, rank, floats), all = torch::empty({5 * gpus}, floats);
    nccl->all_gather(mine, all).wait();
    EXPECT_EQ(all.cpu()[5 * gpus - 1].item<float>(), gpus - 1);
    const Tensor told = torch::full({3}, rank, device);
    nccl->broadcast(told, gpus - 1).wait();
    EXPECT_EQ(told.cpu()[0].item<float>(), gpus - 1);
    nccl->barrier().wait();
  });
}

TEST(NcclTest, TwoRanksOfOneGpuAreRefused) {
  // As above: without these nothing would be asked.
  if (!built_with_nccl() || torch::cuda::device_count() == 0)
    GTEST_SKIP() << "there is no NCCL here, or no GPU";
  auto group = hosts({.size = 2});
  run_ranks(2, [&](int rank) {
    std::string how;
    const Error error = error_of([&] {
      make_device_communicator(std::move(group[static_cast<size_t>(rank)]),
                               {.device = Device(at::kCUDA, 0), .transport = Transport::kNccl},
                               &how);
    });
    EXPECT_EQ(error.message(), "NCCL cannot be used: ranks 0 and 1 have the same GPU");
    EXPECT_THAT(error.hint(), HasSubstr("CUDA_VISIBLE_DEVICES"));
  });
}

}  // namespace
}  // namespace muster::inline v0_1
