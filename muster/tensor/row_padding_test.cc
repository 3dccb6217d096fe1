#include "muster/tensor/row_padding.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

Element batch_of(int64_t rows) {
  return Element::dict(
      {{"x", torch::arange(rows).to(kFloat32)},
       {"name", Strings(std::vector<std::string>(static_cast<size_t>(rows), "a"))}});
}

Tensor x_of(const Element& batch) { return batch.at("x").value().tensor(); }

TEST(RowPadding, RepeatsTheLastRowOfAShortBatch) {
  RowPadding padding(Device(at::kXLA, 0));
  (void)padding.cut(x_of(padding(batch_of(5), 5)));
  const Element padded = padding(batch_of(3), 3);
  EXPECT_TRUE(torch::equal(x_of(padded), torch::tensor({0.0f, 1.0f, 2.0f, 2.0f, 2.0f})));
  EXPECT_EQ(padded.at("name").value().rows(), 5);
  EXPECT_TRUE(torch::equal(padding.cut(x_of(padded)), torch::tensor({0.0f, 1.0f, 2.0f})));
  EXPECT_EQ(padding(batch_of(7), 7).rows(), 7);
}

TEST(RowPadding, LeavesBatchesOfOtherDevicesAndModelsAlone) {
  RowPadding of_cpu(at::kCPU);
  (void)of_cpu(batch_of(5), 5);
  EXPECT_EQ(of_cpu(batch_of(3), 3).rows(), 3);
  // The mean of a batch has no row for each of its rows.
  RowPadding of_mean(Device(at::kXLA, 0));
  (void)of_mean.cut(x_of(of_mean(batch_of(5), 5)).mean());
  EXPECT_EQ(of_mean(batch_of(3), 3).rows(), 3);
  RowPadding of_parts(Device(at::kXLA, 0));
  (void)of_parts(batch_of(5), 5);
  const Element edges = Element::dict({{"x", torch::zeros({3})}, {"edges", torch::zeros({4})}});
  EXPECT_EQ(x_of(of_parts(edges, 3)).size(0), 3);
}

}  // namespace
}  // namespace muster::inline v0_1
