// Values that come to the CPU from a device, and values that need not: on a stand-in for one.
#include "muster/tensor/device_copier.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <future>

#include "muster/tensor/async_scalar.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/host_copy.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/test_device.h"

namespace muster::inline v0_1 {
namespace {

using testing::kTestDevice;
using testing::test_device;
using testing::TestDevicesAtWork;

c10::Stream side_stream() {
  return c10::impl::getDeviceGuardImpl(kTestDevice)->getStreamFromGlobalPool(test_device(1));
}

TEST(DeviceCopier, TellsOfWhatItsTensorsWereCopied) {
  const Tensor x = torch::arange(6).view({2, 3}), y = torch::rand({4, 2}).t();
  const DeviceCopier copier(test_device(1));
  const Element there = copier(Element::tuple({x, y, Value("text")}));
  const Tensor far_x = there.values()[0].tensor(), far_y = there.values()[1].tensor();
  EXPECT_EQ(far_x.device(), test_device(1));
  EXPECT_EQ(nearest(far_x).data_ptr(), x.data_ptr());
  EXPECT_TRUE(nearest(far_y).is_cpu());
  EXPECT_TRUE(on_host(far_y).equal(y));
  EXPECT_TRUE(on_host(far_y + 1).equal(y + 1));
  EXPECT_FALSE(nearest(far_x + 1).is_cpu());
  EXPECT_TRUE(all_between(far_x, 0, 5));
  EXPECT_FALSE(all_between(far_x + 1, 0, 5));
  // The next batch is another one.
  const Element next = copier(Element::tuple({x + 1, y}));
  EXPECT_FALSE(nearest(far_x).is_cpu());
  EXPECT_TRUE(on_host(next.values()[0].tensor()).equal(x + 1));
}

TEST(DeviceCopier, NothingIsKeptAfterIt) {
  const Tensor x = torch::arange(6);
  {
    const DeviceCopier copier(test_device(1));
    const Element there = copier(Element::tuple({x}));
    EXPECT_GT(x.use_count(), 1u);
  }
  EXPECT_EQ(x.use_count(), 1u);
}

// There, changes in place are not counted.
TEST(DeviceCopier, CopiesInInferenceModeToo) {
  const c10::InferenceMode inference;
  const Tensor x = torch::arange(6);
  const Element there = DeviceCopier(test_device(1))(Element::tuple({x}));
  const Tensor far = there.values()[0].tensor();
  far.add_(1);
  EXPECT_TRUE(on_host(far).equal(x + 1));
}

TEST(AsyncScalar, IsTheNumberAsItWas) {
  const Tensor here = torch::full({1, 1}, 2.5);
  const AsyncScalar of_cpu(here);
  here.add_(1);
  EXPECT_EQ(of_cpu.value(), 2.5);
  // On a stream whose work waits until it is polled.
  const c10::StreamGuard side(side_stream());
  Tensor there = torch::full({1}, 2.5).to(test_device(1), kBFloat16);
  there.requires_grad_();
  AsyncScalar of_device(there * 2);
  EXPECT_EQ(of_device.value(), 5);
  EXPECT_EQ(of_device.value(), 5);
  of_device = AsyncScalar(torch::full({}, 7, kInt64).to(test_device(2)));
  EXPECT_EQ(of_device.value(), 7);
}

TEST(AsyncScalar, DoesNotWaitBeforeItIsAskedFor) {
  std::optional<TestDevicesAtWork> at_work(std::in_place);
  const AsyncScalar late(torch::full({}, 3.0).to(test_device(1)));
  std::future<double> value = std::async(std::launch::async, [&] { return late.value(); });
  // If it came too early, that would show in this time.
  EXPECT_EQ(value.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  at_work.reset();
  ASSERT_EQ(value.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(value.get(), 3);
}

}  // namespace
}  // namespace muster::inline v0_1
