#include "muster/optim/train_op.h"

#include <gtest/gtest.h>

#include "muster/optim/internal/test_errors.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

TEST(TrainOp, MinimizeDescribesAndGroupJoins) {
  const Tensor first = torch::ones({});
  const Tensor second = torch::ones({1});
  TrainOp one = sgd().minimize(first);
  EXPECT_TRUE(one.defined());
  ASSERT_EQ(one.entries.size(), 1u);
  EXPECT_TRUE(one.entries[0].loss.is_same(first));
  EXPECT_EQ(one.entries[0].optimizer.name(), "SGD");
  EXPECT_FALSE(one.entries[0].filter);

  TrainOp two = adam().minimize(second, [](const VariableSpec& spec) { return spec.name == "a"; });
  VariableSpec spec;
  spec.name = "a";
  EXPECT_TRUE(two.entries[0].filter(spec));
  spec.name = "b";
  EXPECT_FALSE(two.entries[0].filter(spec));

  int ran = 0;
  TrainOp extra;
  EXPECT_FALSE(extra.defined());
  extra.updates.push_back([&] { ++ran; });
  EXPECT_TRUE(extra.defined());

  const TrainOp all = group({one, TrainOp{}, two, extra});
  ASSERT_EQ(all.entries.size(), 2u);
  EXPECT_EQ(all.entries[1].optimizer.name(), "Adam");
  ASSERT_EQ(all.updates.size(), 1u);
  all.updates[0]();
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(group({}).defined());
}

TEST(TrainOp, RefusesALossThatIsNotOneNumber) {
  EXPECT_NE(message_of([] { sgd().minimize(torch::ones({3})); }).find("float32[3]"),
            std::string::npos);
  EXPECT_NE(message_of([] { adam().minimize(Tensor()); }).find("undefined"), std::string::npos);
}

}  // namespace
}  // namespace muster::inline v0_1::optim
