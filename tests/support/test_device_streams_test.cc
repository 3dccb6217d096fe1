#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/test_device.h"

namespace muster::inline v0_1::testing {
namespace {

using at::Tensor;

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(kTestDevice);
}

// A copy of ones under way, on a stream of its own.
struct Underway {
  explicit Underway(int64_t count = 4) : stream(guard().getStreamFromGlobalPool(test_device(1))) {
    const c10::StreamGuard side(stream);
    tensor = at::ones({count}).to(test_device(1), /*non_blocking=*/true);
    event.record(stream);
  }
  // Looks without waiting.
  bool arrived() const { return static_cast<const float*>(tensor.data_ptr())[0] == 1; }

  c10::Stream stream;
  c10::Event event{kTestDevice};
  Tensor tensor;
};

TEST(TestDeviceStreams, CopyIsDoneOnceItsEventBlocks) {
  const Underway copy;
  EXPECT_FALSE(copy.arrived());
  // A stream that does not wait computes with the old contents.
  EXPECT_TRUE((copy.tensor + 1).isnan().all().item<bool>());
  copy.event.block(guard().getStream(test_device(1)));
  EXPECT_TRUE(copy.arrived());
  EXPECT_TRUE((copy.tensor + 1).eq(2).all().item<bool>());
}

TEST(TestDeviceStreams, EveryWayOfWaiting) {
  const std::vector<std::function<void(const Underway&)>> ways = {
      [](const Underway& copy) { EXPECT_TRUE(copy.event.query()); },
      [](const Underway& copy) { copy.stream.synchronize(); },
      [](const Underway& copy) { EXPECT_TRUE(copy.stream.query()); },
      [](const Underway& copy) { guard().getDefaultStream(test_device(1)).wait(copy.event); },
      // Work of the same stream comes after the copy.
      [](const Underway& copy) {
        const c10::StreamGuard side(copy.stream);
        EXPECT_EQ(copy.tensor.sum().item<int>(), 4);
      },
      [](const Underway& copy) {
        const c10::StreamGuard side(copy.stream);
        EXPECT_EQ(copy.tensor.cpu().sum().item<int>(), 4);
      },
  };
  for (size_t i = 0; i < ways.size(); ++i) {
    const Underway copy;
    EXPECT_FALSE(copy.arrived()) << i;
    ways[i](copy);
    EXPECT_TRUE(copy.arrived()) << i;
  }
}

TEST(TestDeviceStreams, EventStandsForWhatCameBeforeIt) {
  const Underway first;
  const c10::StreamGuard side(first.stream);
  const Tensor second = at::ones({1}).to(test_device(1), /*non_blocking=*/true);
  c10::Event later(kTestDevice);
  later.record(first.stream);
  first.event.block(guard().getDefaultStream(test_device(1)));
  EXPECT_TRUE(first.arrived());
  EXPECT_TRUE(std::isnan(*static_cast<const float*>(second.data_ptr())));
  later.block(guard().getDefaultStream(test_device(1)));
  EXPECT_EQ(*static_cast<const float*>(second.data_ptr()), 1);
}

TEST(TestDeviceStreams, ViewsDoNotWait) {
  const Underway copy;
  copy.tensor.record_stream(copy.stream);
  const c10::StreamGuard side(copy.stream);
  const Tensor view = copy.tensor.view({2, 2}).permute({1, 0}).slice(0, 1).select(1, 0);
  EXPECT_FALSE(copy.arrived());
  copy.stream.synchronize();
  EXPECT_EQ(view.sum().item<int>(), 1);
}

TEST(TestDeviceStreams, CopyToTheHostIsNotAwaitedEither) {
  const auto stream = guard().getStreamFromGlobalPool(test_device());
  const Tensor source = at::ones({2}, at::device(test_device()));
  const Tensor host = at::zeros({2});
  const c10::StreamGuard side(stream);
  host.copy_(source, /*non_blocking=*/true);
  EXPECT_EQ(host.sum().item<int>(), 0);
  stream.synchronize();
  EXPECT_EQ(host.sum().item<int>(), 2);
}

TEST(TestDeviceStreams, ImmediateOnTheDefaultStreamAndWhenBlocking) {
  const Tensor host = at::ones({2});
  const auto first = [](const Tensor& tensor) { return *static_cast<float*>(tensor.data_ptr()); };
  EXPECT_EQ(first(host.to(test_device(1), /*non_blocking=*/true)), 1);
  const c10::StreamGuard side(guard().getStreamFromGlobalPool(test_device(1)));
  EXPECT_EQ(first(host.to(test_device(1))), 1);
  // The current stream of another device is still its default one.
  EXPECT_EQ(first(host.to(test_device(2), /*non_blocking=*/true)), 1);
  EXPECT_EQ(first(host.to(test_device(1)).to(test_device(2), /*non_blocking=*/true)), 1);
}

TEST(TestDeviceStreams, QueueKeepsTensorsAlive) {
  const int64_t before = test_device_bytes();
  c10::Stream stream = guard().getStreamFromGlobalPool(test_device(1));
  {
    const Underway copy(1024);
    stream = copy.stream;
  }
  EXPECT_EQ(test_device_bytes() - before, 4096);
  stream.synchronize();
  EXPECT_EQ(test_device_bytes(), before);
}

TEST(TestDeviceStreams, PoolGoesRoundAndCurrentStreamIsOfTheThread) {
  const auto one = guard().getStreamFromGlobalPool(test_device(2));
  EXPECT_NE(one.id(), 0);
  EXPECT_NE(one, guard().getStreamFromGlobalPool(test_device(2)));
  const c10::StreamGuard side(one);
  EXPECT_EQ(guard().getStream(test_device(2)), one);
  EXPECT_EQ(guard().getDevice(), test_device(2));
  EXPECT_EQ(guard().getStream(test_device(1)).id(), 0);
  std::thread([] { EXPECT_EQ(guard().getStream(test_device(2)).id(), 0); }).join();
}

TEST(TestDeviceThreads, EachThreadTrainsOnItsDevice) {
  const Tensor images = at::randn({4, 1, 6, 6}), labels = at::tensor({0, 1, 2, 1}, at::kLong);
  const Tensor kernel = at::randn({2, 1, 3, 3}), weight = at::randn({8, 3});
  const auto train = [&](c10::Device device) {
    const c10::DeviceGuard on(device);
    Tensor w = weight.to(device, false, true).requires_grad_();
    Tensor k = kernel.to(device, false, true).requires_grad_();
    const auto stream = guard().getStreamFromGlobalPool(test_device(1));
    for (int step = 0; step < 20; ++step) {
      Tensor x = images.to(device), y = labels.to(device);
      if (!device.is_cpu()) {
        // Both threads wait for the work that either put on the stream.
        const c10::StreamGuard side(stream);
        c10::Event event(kTestDevice);
        x = images.to(test_device(1), /*non_blocking=*/true);
        event.record(stream);
        event.block(guard().getDefaultStream(test_device(1)));
        x = x.to(device);
      }
      const Tensor features = at::max_pool2d(at::conv2d(x, k).relu(), 2).flatten(1);
      at::nll_loss(features.matmul(w).log_softmax(1), y).backward();
      const at::NoGradGuard no_gradient;
      for (Tensor* variable : {&w, &k}) {
        variable->sub_(variable->grad(), 0.1);
        variable->mutable_grad() = Tensor();
      }
    }
    return w.detach().cpu();
  };
  const Tensor expected = train(c10::kCPU);
  std::vector<Tensor> found(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] { found[i] = train(test_device(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& weights : found) EXPECT_TRUE(at::equal(weights, expected));
}

}  // namespace
}  // namespace muster::inline v0_1::testing
