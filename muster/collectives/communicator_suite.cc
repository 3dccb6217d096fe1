#include "muster/collectives/communicator_suite.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorSuite);

namespace {

template <typename T>
void fill(T* out, int rank, int64_t count) {
  std::mt19937_64 random(1000 + rank);
  for (int64_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random() >> 11) / 9007199254740992.0 - 0.5;
    const double scale = std::pow(10.0, static_cast<double>(random() % 13) - 6);
    out[i] = static_cast<T>(unit * scale * (std::is_integral_v<T> ? 1e9 : 1));
  }
}

Tensor make_uneven_values(int rank, int64_t count, DType dtype) {
  if (c10::elementSize(dtype) == 2) {  // float16 ends at 65504
    return make_uneven_values(rank, count, kFloat32).mul(0.01).to(dtype);
  }
  Tensor values = torch::empty({count}, dtype);
  if (dtype == kFloat32) fill(values.data_ptr<float>(), rank, count);
  if (dtype == kFloat64) fill(values.data_ptr<double>(), rank, count);
  if (dtype == kInt64) fill(values.data_ptr<int64_t>(), rank, count);
  return values;
}

template <typename T>
Tensor sum_by_loop(int ranks, int64_t count, DType dtype) {
  std::vector<Tensor> values;
  for (int r = 0; r < ranks; ++r) values.push_back(uneven_values(r, count, dtype));
  Tensor sum = torch::empty({count}, dtype);
  for (int64_t i = 0; i < count; ++i) {
    volatile T total = values[0].data_ptr<T>()[i];  // volatile: no wider intermediate
    for (int r = 1; r < ranks; ++r) total = total + values[r].data_ptr<T>()[i];
    sum.data_ptr<T>()[i] = total;
  }
  return sum;
}

// Added as float32, rounded once.
Tensor sum_of_narrow(int ranks, int64_t count, DType dtype) {
  Tensor sum = uneven_values(0, count, dtype).to(kFloat32);
  for (int r = 1; r < ranks; ++r) sum = sum + uneven_values(r, count, dtype).to(kFloat32);
  return sum.to(dtype);
}

Tensor make_expected_sum(int ranks, int64_t count, DType dtype) {
  if (dtype == kFloat32) return sum_by_loop<float>(ranks, count, dtype);
  if (dtype == kFloat64) return sum_by_loop<double>(ranks, count, dtype);
  if (c10::elementSize(dtype) == 2) return sum_of_narrow(ranks, count, dtype);
  return sum_by_loop<int64_t>(ranks, count, dtype);
}

// Every rank of every test asks for the same numbers, and of a longer series the shorter one is the
// beginning. So each series is made once.
class Series {
 public:
  using Make = Tensor (*)(int number, int64_t count, DType dtype);
  explicit Series(Make make) : make_(make) {}
  // A copy, which is the caller's to change.
  Tensor get(int number, int64_t count, DType dtype) {
    const std::lock_guard lock(mutex_);
    Tensor& made = made_[{number, dtype}];
    if (!made.defined() || made.numel() < count) made = make_(number, count, dtype);
    return made.slice(0, 0, count).clone();
  }

 private:
  const Make make_;
  std::mutex mutex_;
  std::map<std::pair<int, DType>, Tensor> made_;
};

// Threads named like communication threads. Pools that were first used on one inherit the name and
// stay.
int64_t communication_threads() {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    count += std::getline(file, name) && name == "collectives";
  }
  return count;
}

}  // namespace

Tensor uneven_values(int rank, int64_t count, DType dtype) {
  static Series series(make_uneven_values);
  return series.get(rank, count, dtype);
}

Tensor expected_sum(int ranks, int64_t count, DType dtype) {
  static Series series(make_expected_sum);
  return series.get(ranks, count, dtype);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

namespace {

const std::vector<int64_t> kSizes = {0, 1, 3, 17, 1000, 4096, 5001, 150'007};
const std::vector<DType> kSummed = {kFloat32, kFloat64, kInt64, at::kBFloat16, at::kHalf};

TEST(UnevenValues, ShowTheOrderOfAdditions) {
  // The invariant below would be empty if any order gave the same bits.
  const Tensor a = uneven_values(0, 1000, kFloat32);
  const Tensor b = uneven_values(1, 1000, kFloat32);
  const Tensor c = uneven_values(2, 1000, kFloat32);
  EXPECT_FALSE(same_bits((a + b) + c, a + (b + c)));
  EXPECT_TRUE(same_bits((a + b) + c, expected_sum(3, 1000, kFloat32)));
}

TEST_P(CommunicatorSuite, AllReduceAddsInRankOrder) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      EXPECT_EQ(group->size(), ranks);
      for (const DType dtype : kSummed) {
        for (const int64_t count : kSizes) {
          Tensor buffer = uneven_values(group->rank(), count, dtype);
          group->all_reduce(buffer).wait();
          EXPECT_TRUE(same_bits(buffer, expected_sum(ranks, count, dtype)))
              << describe(buffer) << " on rank " << group->rank() << " of " << ranks;
        }
      }
    });
  }
}

TEST_P(CommunicatorSuite, AllReduceOfItsOwnMemoryAddsTheSame) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    run({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      for (const DType dtype : kSummed) {
        const Tensor memory = group->allocate(150'007 * 8);
        for (const int64_t count : kSizes) {
          const Tensor buffer = memory.view(dtype).slice(0, 0, count);
          buffer.copy_(uneven_values(group->rank(), count, dtype));
          group->all_reduce(buffer).wait();
          EXPECT_TRUE(same_bits(buffer, expected_sum(ranks, count, dtype)))
              << describe(buffer) << " on rank " << group->rank() << " of " << ranks;
        }
      }
    });
  }
}

TEST_P(CommunicatorSuite, ReduceScatterGivesEachRankItsPartOfTheSum) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      const int rank = group->rank();
      for (const DType dtype : kSummed) {
        const Tensor memory = group->allocate(ranks * 150'007 * 8);
        for (const int64_t count : kSizes) {
          const Tensor expected =
              expected_sum(ranks, ranks * count, dtype).slice(0, rank * count, (rank + 1) * count);
          const Tensor in = uneven_values(rank, ranks * count, dtype);
          const Tensor out = torch::zeros({count}, dtype);
          group->reduce_scatter(in, out).wait();
          EXPECT_TRUE(same_bits(out, expected)) << describe(in) << " on rank " << rank;
          EXPECT_TRUE(same_bits(in, uneven_values(rank, ranks * count, dtype)));
          // In place, in memory of the communicator.
          const Tensor own = memory.view(dtype).slice(0, 0, ranks * count);
          own.copy_(in);
          const Tensor part = own.slice(0, rank * count, (rank + 1) * count);
          group->reduce_scatter(own, part).wait();
          EXPECT_TRUE(same_bits(part, expected)) << describe(own) << " on rank " << rank;
        }
      }
    });
  }
}

TEST_P(CommunicatorSuite, NumbersOf16BitsKeepWhatIsNotFinite) {
  run({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    for (const DType dtype : {DType(at::kBFloat16), DType(at::kHalf)}) {
      const auto infinity = std::numeric_limits<float>::infinity();
      Tensor values = torch::tensor({infinity, -infinity, std::nanf("1"), 1.0F, 6e-8F}).to(dtype);
      if (group->rank() == 1) values = torch::tensor({1.0F, infinity, 1.0F, -1.0F, 0.0F}).to(dtype);
      group->all_reduce(values).wait();
      EXPECT_EQ(values[0].item<float>(), infinity);
      EXPECT_TRUE(std::isnan(values[1].item<float>()));
      EXPECT_TRUE(std::isnan(values[2].item<float>()));
      EXPECT_EQ(values[3].item<float>(), 0);
      EXPECT_GT(values[4].item<float>(), 0);  // not a normal number in float16
    }
  });
}

TEST_P(CommunicatorSuite, CuttingABufferDoesNotChangeBits) {
  run({.size = 3}, [&](std::unique_ptr<Communicator> group) {
    constexpr int64_t kCount = 100'003;
    const Tensor memory = group->allocate(kCount * 4);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data_ptr()) % 64, 0U);
    EXPECT_EQ(memory.count_nonzero().item<int64_t>(), 0);
    const Tensor flat = memory.view(kFloat32);
    flat.copy_(uneven_values(group->rank(), kCount, kFloat32));
    std::vector<Work> pieces;
    for (int64_t begin = 0, step = 1; begin < kCount; begin += step, step = step * 3 + 1) {
      pieces.push_back(group->all_reduce(flat.slice(0, begin, std::min(begin + step, kCount))));
    }
    for (const Work& piece : pieces) piece.wait();
    EXPECT_TRUE(same_bits(flat, expected_sum(3, kCount, kFloat32)));
  });
}

TEST_P(CommunicatorSuite, BroadcastCopiesTheRoot) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      for (int root = 0; root < ranks; ++root) {
        for (const int64_t count : kSizes) {
          Tensor values = uneven_values(group->rank(), count, kFloat64);
          group->broadcast(values, root).wait();
          EXPECT_TRUE(same_bits(values, uneven_values(root, count, kFloat64)));
        }
        Tensor bytes = torch::full({33}, group->rank() + 1, at::kByte);
        group->broadcast(bytes, root).wait();
        EXPECT_EQ(bytes.sum().item<int64_t>(), 33 * (root + 1));
      }
    });
  }
}

TEST_P(CommunicatorSuite, AllGatherPutsRanksInOrder) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run({.size = ranks}, [&](std::unique_ptr<Communicator> group) {
      for (const int64_t count : kSizes) {
        std::vector<Tensor> parts;
        for (int r = 0; r < ranks; ++r) parts.push_back(uneven_values(r, count, kFloat32));
        const Tensor expected = torch::cat(parts);
        Tensor out = torch::zeros({ranks * count}, kFloat32);
        group->all_gather(parts[group->rank()], out).wait();
        EXPECT_TRUE(same_bits(out, expected)) << count << " on rank " << group->rank();
        // In place: the input is this rank's part of the output.
        Tensor again = torch::zeros({ranks * count}, kFloat32);
        Tensor own = again.slice(0, group->rank() * count, (group->rank() + 1) * count);
        own.copy_(parts[group->rank()]);
        group->all_gather(own, again).wait();
        EXPECT_TRUE(same_bits(again, expected));
      }
      Tensor flags = torch::zeros({ranks}, at::kInt);
      group->all_gather(torch::full({1}, group->rank() * 3, at::kInt), flags).wait();
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(flags[r].item<int>(), r * 3);
    });
  }
}

TEST_P(CommunicatorSuite, BarrierWaitsForEveryRank) {
  std::atomic<int> come = 0;
  run({.size = 4}, [&](std::unique_ptr<Communicator> group) {
    for (int round = 1; round <= 20; ++round) {
      ++come;
      group->barrier().wait();
      EXPECT_GE(come.load(), 4 * round);
    }
  });
}

TEST_P(CommunicatorSuite, CallsReturnBeforeTheyAreExecuted) {
  std::atomic<bool> submitted = false;
  run({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    Tensor small = torch::ones({4});
    Tensor large = torch::ones({200'000});
    if (group->rank() == 1) {
      // Rank 0 must get past its calls without this rank, or no rank ever moves.
      while (!submitted.load()) std::this_thread::yield();
    }
    const Work first = group->all_reduce(small);
    const Work second = group->all_reduce(large);
    const Work third = group->barrier();
    if (group->rank() == 0) {
      EXPECT_FALSE(third.done());
      submitted = true;
    }
    third.wait();
    EXPECT_TRUE(first.done() && second.done());  // submission order
    first.wait();
    EXPECT_EQ(small.sum().item<float>(), 8);
    EXPECT_EQ(large.sum().item<float>(), 400'000);
  });
}

TEST_P(CommunicatorSuite, KeepsBuffersAliveUntilDone) {
  run({.size = 3}, [&](std::unique_ptr<Communicator> group) {
    Tensor kept = torch::ones({50'000}, kFloat64);
    std::vector<Work> works;
    for (int i = 0; i < 30; ++i) works.push_back(group->all_reduce(torch::ones({20'000})));
    works.push_back(group->all_reduce(kept));
    for (const Work& work : works) work.wait();
    EXPECT_EQ(kept.sum().item<double>(), 150'000);
  });
}

TEST_P(CommunicatorSuite, AbortEndsABlockedCallAndEveryLaterOne) {
  std::atomic<bool> aborted = false;
  run({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    Tensor buffer = torch::ones({100'000});
    if (group->rank() == 0) {
      const Work blocked = group->all_reduce(buffer);
      const Work queued = group->barrier();
      std::thread watcher([&] {
        std::this_thread::sleep_for(30ms);
        group->abort("worker:1 makes no progress");
        group->abort("a second reason, which comes too late");
      });
      const Error error = error_of([&] { blocked.wait(); });
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
      EXPECT_THAT(error.what(), HasSubstr("all_reduce #1 of 100000 float32"));
      EXPECT_THAT(error.what(), HasSubstr("worker:1 makes no progress"));
      EXPECT_THAT(error_of([&] { queued.wait(); }).what(), HasSubstr("worker:1 makes no progress"));
      watcher.join();
      const Error later = error_of([&] { group->all_reduce(buffer).wait(); });
      EXPECT_EQ(later.kind(), ErrorKind::kCancelled);
      EXPECT_THAT(later.what(), HasSubstr("worker:1 makes no progress"));
      aborted = true;
      return;
    }
    while (!aborted.load()) std::this_thread::yield();
    const Error error = error_of([&] { group->all_reduce(buffer).wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("rank 0"));
    EXPECT_THAT(error.what(), HasSubstr("worker:1 makes no progress"));
  });
}

TEST_P(CommunicatorSuite, AbortTakesTheKindOfTheCaller) {
  run({.size = 2}, [&](std::unique_ptr<Communicator> group) {
    if (group->rank() == 1) {
      EXPECT_EQ(error_of([&] { group->barrier().wait(); }).kind(), ErrorKind::kPeerLost);
      return;
    }
    group->abort(ErrorKind::kPeerLost, "worker:1 stopped answering");
    EXPECT_EQ(error_of([&] { group->barrier().wait(); }).kind(), ErrorKind::kPeerLost);
  });
}

TEST_P(CommunicatorSuite, DifferentCallsAreNamed) {
  const auto large = [](int64_t count, DType dtype = kFloat32) {
    return torch::ones({count}, dtype);
  };
  using Call = std::function<Work(Communicator&)>;
  const std::vector<std::pair<Call, Call>> cases = {
      {[&](Communicator& g) { return g.all_reduce(large(10)); },
       [&](Communicator& g) { return g.all_reduce(large(11)); }},
      {[&](Communicator& g) { return g.all_reduce(large(100'000)); },
       [&](Communicator& g) { return g.all_reduce(large(5)); }},
      {[&](Communicator& g) { return g.all_reduce(large(100'000)); },
       [&](Communicator& g) { return g.all_reduce(large(200'000)); }},
      {[&](Communicator& g) { return g.all_reduce(large(100'000)); },
       [&](Communicator& g) { return g.all_reduce(large(50'000, kInt64)); }},
      {[&](Communicator& g) { return g.broadcast(large(100'000), 0); },
       [&](Communicator& g) { return g.broadcast(large(100'000), 1); }},
      {[&](Communicator& g) { return g.all_reduce(large(100'000)); },
       [&](Communicator& g) { return g.barrier(); }},
      {[&](Communicator& g) { return g.barrier(); },
       [&](Communicator& g) { return g.all_gather(large(42), large(84)); }},
      {[&](Communicator& g) { return g.all_gather(large(9000), large(18'000)); },
       [&](Communicator& g) { return g.all_reduce(large(9000)); }},
      {[&](Communicator& g) { return g.reduce_scatter(large(18'000), large(9000)); },
       [&](Communicator& g) { return g.all_reduce(large(9000)); }},
      {[&](Communicator& g) { return g.reduce_scatter(large(200), large(100)); },
       [&](Communicator& g) { return g.reduce_scatter(large(400), large(200)); }},
  };
  for (const auto& [zero, one] : cases) {
    run({.size = 2}, [&](std::unique_ptr<Communicator> group) {
      const Work work = group->rank() == 0 ? zero(*group) : one(*group);
      const Error error = error_of([&] { work.wait(); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("rank 0 "));
      EXPECT_THAT(error.what(), HasSubstr("rank 1 "));
      EXPECT_THAT(error.what(), HasSubstr("#1"));
    });
  }
}

TEST_P(CommunicatorSuite, ALeavingRankIsNamed) {
  run({.size = 3}, [&](std::unique_ptr<Communicator> group) {
    group->barrier().wait();
    if (group->rank() == 2) return;
    const Error error = error_of([&] { group->all_reduce(torch::ones({100'000})).wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.what(), HasSubstr("rank 2"));
    EXPECT_THAT(error.what(), HasSubstr("closed"));
  });
}

TEST_P(CommunicatorSuite, ARankThatDoesNotComeIsATimeout) {
  std::atomic<bool> over = false;
  run({.size = 2, .timeout = 150ms}, [&](std::unique_ptr<Communicator> group) {
    if (group->rank() == 1) {
      while (!over.load()) std::this_thread::sleep_for(1ms);
      return;
    }
    const Error error = error_of([&] { group->all_reduce(torch::ones({100'000})).wait(); });
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    EXPECT_THAT(error.what(), HasSubstr("150 ms"));
    over = true;
  });
}

TEST_P(CommunicatorSuite, AGroupOfOneHasNoThread) {
  // A thread of the group would be gone after it. Threads of earlier tests may disappear meanwhile:
  // hence several tries.
  bool free = false;
  for (int attempt = 0; attempt < 20 && !free; ++attempt) {
    run({.size = 1}, [&](std::unique_ptr<Communicator> group) {
      group->barrier().wait();
      const int64_t with = communication_threads();
      group.reset();
      free = communication_threads() == with;
    });
  }
  EXPECT_TRUE(free);
}

TEST_P(CommunicatorSuite, AGroupOfOneIsFree) {
  run({.size = 1}, [&](std::unique_ptr<Communicator> group) {
    Tensor buffer = uneven_values(0, 1000, kFloat32);
    const Tensor before = buffer.clone();
    const Work work = group->all_reduce(buffer);
    EXPECT_TRUE(work.done());
    EXPECT_TRUE(group->broadcast(buffer, 0).done() && group->barrier().done());
    EXPECT_TRUE(same_bits(buffer, before));
    group->abort("enough");
    EXPECT_THAT(error_of([&] { group->all_reduce(buffer).wait(); }).what(), HasSubstr("enough"));
  });
}

TEST_P(CommunicatorSuite, RefusesTensorsItCannotReduce) {
  run({.size = 1}, [&](std::unique_ptr<Communicator> group) {
    const auto refused = [&](const std::function<void()>& call) {
      EXPECT_EQ(error_of(call).kind(), ErrorKind::kInvalidArgument);
    };
    refused([&] { group->all_reduce({}); });
    refused([&] { group->all_reduce(torch::ones({2, 2})); });
    refused([&] { group->all_reduce(torch::ones({8}).slice(0, 0, 8, 2)); });
    refused([&] { group->all_reduce(torch::ones({8}, at::kInt)); });
    refused([&] { group->broadcast(torch::ones({8}), 1); });
    refused([&] { group->broadcast(torch::ones({8}), -1); });
    refused([&] { group->all_gather(torch::ones({8}), torch::ones({9})); });
    refused([&] { group->all_gather(torch::ones({8}), torch::ones({8}, kFloat64)); });
    refused([&] { group->reduce_scatter(torch::ones({8}), torch::ones({9})); });
    refused([&] { group->reduce_scatter(torch::ones({8}), torch::ones({8}, kFloat64)); });
    refused([&] { group->reduce_scatter(torch::ones({8}, kInt32), torch::ones({8}, kInt32)); });
    refused([&] { group->allocate(-1); });
  });
}

}  // namespace
}  // namespace muster::inline v0_1
