// What data_parallel() adds to the memory of a loop: nothing on one worker, and at most one copy of
// the gradients on each of several.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>

#include "muster/parallel/cluster.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

// Counts the bytes of tensors while it lives.
class CountedMemory final : at::Allocator {
 public:
  CountedMemory() : other_(c10::GetCPUAllocator()), counts_(std::make_shared<Counts>()) {
    c10::SetCPUAllocator(this, /*priority=*/1);
  }
  ~CountedMemory() override { c10::SetCPUAllocator(other_, /*priority=*/1); }
  // Pure virtual in newer LibTorch.
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }
  // The most at one time.
  int64_t peak() const { return counts_->peak; }

 private:
  struct Counts {
    std::atomic<int64_t> now{0}, peak{0};
    void add(int64_t bytes) {
      const int64_t sum = now += bytes;
      for (int64_t most = peak; most < sum && !peak.compare_exchange_weak(most, sum);) {
      }
    }
  };
  struct Block {
    at::DataPtr memory;
    int64_t bytes;
    std::shared_ptr<Counts> counts;
  };

  // One of both overrides that of LibTorch: it is const in older versions.
  at::DataPtr allocate(size_t bytes) { return counted(bytes); }
  at::DataPtr allocate(size_t bytes) const { return counted(bytes); }

  at::DataPtr counted(size_t bytes) const {
    auto block = std::make_unique<Block>(
        Block{other_->allocate(bytes), static_cast<int64_t>(bytes), counts_});
    counts_->add(block->bytes);
    void* const data = block->memory.get();
    return {data, block.release(),
            [](void* context) {
              const std::unique_ptr<Block> block(static_cast<Block*>(context));
              block->counts->add(-block->bytes);
            },
            at::kCPU};
  }

  at::Allocator* const other_;
  const std::shared_ptr<Counts> counts_;
};

// Gradients larger than the messages by which data_parallel() measures the connection, before the
// first step.
constexpr int64_t kWidth = 512, kLayers = 6;
// Of the gradients: weights and biases of float32.
constexpr int64_t kGradients = 4 * kLayers * (kWidth * kWidth + kWidth);
// Numbers of a step, and messages.
constexpr int64_t kSlack = kGradients / 100;

struct Loop {
  int workers = 1;
  bool data_parallel = false;
  bool accumulate = false;  // two batches a step; gradients are made anew in each step
};

// The most memory of the workers of this loop together.
int64_t peak_of(const Loop& loop) {
  const auto train = [&](Cluster& cluster) {
    torch::nn::Sequential net;
    for (int64_t layer = 0; layer < kLayers; ++layer)
      net->push_back(torch::nn::Linear(kWidth, kWidth));
    const Tensor x = torch::ones({4, kWidth});
    torch::optim::SGD sgd(net->parameters(), 1e-3);
    std::optional<DataParallel<torch::nn::SequentialImpl>> wrapped;
    if (loop.data_parallel) wrapped.emplace(cluster.data_parallel(net));
    const auto backward = [&] { (wrapped ? (*wrapped)(x) : net->forward(x)).sum().backward(); };
    for (int step = 0; step < 4; ++step) {
      if (loop.accumulate) {
        for (Tensor& weight : net->parameters()) weight.mutable_grad().reset();
        if (wrapped) {
          const auto no_sync = wrapped->no_sync();
          backward();
        } else {
          backward();
        }
      } else {
        sgd.zero_grad();
      }
      backward();
      sgd.step();
    }
  };
  const CountedMemory memory;
  if (loop.workers == 1) {
    Cluster cluster(testing::alone());
    train(cluster);
  } else {
    testing::run_workers(loop.workers, train);
  }
  return memory.peak();
}

TEST(MemoryLawTest, OneWorkerNeedsNothingMore) {
  EXPECT_EQ(peak_of({.data_parallel = true}), peak_of({}));
}

// The gradients lie in the memory that is reduced. A loop alone keeps the tensor that backward()
// made where zero_grad() takes gradients away (newer LibTorch): then one weight's gradient is there
// twice while it is copied.
TEST(MemoryLawTest, SeveralWorkersNeedOneGradientMoreAtMost) {
  const int64_t alone = peak_of({});
  const int64_t together = peak_of({.workers = 2, .data_parallel = true});
  EXPECT_LE(together, 2 * (alone + kGradients / kLayers + kSlack));
  EXPECT_GE(together, 2 * 2 * kGradients) << "weights and gradients were not counted";
}

TEST(MemoryLawTest, GradientsThatAreAddedUpAreOneCopyMore) {
  const int64_t alone = peak_of({.accumulate = true});
  const int64_t together = peak_of({.workers = 2, .data_parallel = true, .accumulate = true});
  EXPECT_LE(together, 2 * (alone + kGradients + kSlack));
}

}  // namespace
}  // namespace muster::inline v0_1
