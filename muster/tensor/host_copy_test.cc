#include "muster/tensor/host_copy.h"

#include <gtest/gtest.h>

#include "muster/tensor/async_scalar.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// "meta" represents a device: its tensors have no numbers, so none can come from there.
Tensor there(const Tensor& here) { return here.to(at::kMeta); }

TEST(HostCopy, IsThatOfTheWholeTensorUntilItChanges) {
  const Tensor here = torch::arange(6), far = there(here);
  note_host_copy(far, here);
  EXPECT_TRUE(on_host(far).equal(here));
  EXPECT_TRUE(on_host(far.view({2, 3})).equal(here.view({2, 3})));
  EXPECT_TRUE(on_host(far.detach()).equal(here));
  EXPECT_TRUE(on_host(here).is_same(here));
  EXPECT_ANY_THROW(on_host(far.slice(0, 1)));
  EXPECT_ANY_THROW(on_host(far.to(kInt32)));
  EXPECT_ANY_THROW(on_host(there(here)));
  far.add_(1);
  EXPECT_ANY_THROW(on_host(far));
}

TEST(HostCopy, IsForgottenWithItsBatch) {
  const Tensor here = torch::arange(6), far = there(here);
  note_host_copy(far, here);
  forget_host_copies();
  EXPECT_ANY_THROW(on_host(far));
}

TEST(AsyncScalar, IsTheNumber) {
  EXPECT_EQ(AsyncScalar(torch::full({1, 1}, 2.5)).value(), 2.5);
  EXPECT_EQ(AsyncScalar(torch::full({}, 7, kInt64)).value(), 7);
}

}  // namespace
}  // namespace muster::inline v0_1
