// The memory that a batch takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error_of.h"
#include "muster/data/dataset.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Lists = std::vector<std::vector<int64_t>>;

Lists lists(const Dataset& dataset) {
  Lists all;
  const auto iterator = dataset.iterator();
  while (const auto batch = iterator->next()) {
    const Tensor rows = batch->values()[0].tensor();
    all.emplace_back(rows.data_ptr<int64_t>(), rows.data_ptr<int64_t>() + rows.numel());
  }
  return all;
}

// Rows of a tebibyte each, of which a map takes one number: only that number is in memory.
class Huge final : public Source {
 public:
  explicit Huge(int64_t size) : size_(size) {}
  std::string kind() const override { return "huge"; }
  int64_t size() const override { return size_; }
  Element element(int64_t index) const override {
    return Element(torch::full({1}, index, at::kLong).expand({int64_t{1} << 37}));
  }

 private:
  const int64_t size_;
};

TEST(Batch, MustFitIntoMemory) {
  // A million floats a row: 2^31 - 1 of them are 8 PiB.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const Dataset wide = Dataset::from_tensor_slices(Element(torch::zeros({2, 1 << 20})));
  for (const Dataset& batches : {wide.repeat().batch(kMost), wide.repeat().global_batch(kMost)}) {
    const Error error = error_of([&] { batches.iterator(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("a batch of 2147483647 rows needs 8.0 PiB"),
                                       HasSubstr("slices(2) > repeat > ")));
    EXPECT_THAT(error.hint(), HasSubstr("smaller batch"));
  }
  // A batch of all there is, however large it is called.
  std::optional<Element> batch;
  const auto all = wide.batch(kMost).iterator();
  ASSERT_TRUE(batch = all->next());
  EXPECT_EQ(batch->values()[0].tensor().size(0), 2);
  EXPECT_FALSE(batch = all->next());
  EXPECT_EQ(lists(Dataset::range(5).repeat(2).batch(kMost)),
            (Lists{{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}}));
  EXPECT_EQ(lists(Dataset::range(4).batch(2).batch(kMost)), (Lists{{0, 1, 2, 3}}));
  for (int64_t replica = 0; replica < 2; ++replica) {
    const auto share = Dataset::range(5).global_batch(kMost).iterator(
        {.sharding = {.num_replicas = 2, .replica = replica}});
    ASSERT_TRUE(batch = share->next());
    EXPECT_EQ(batch->values()[0].tensor().size(0), replica == 0 ? 5 : 0);
  }
}

constexpr int64_t kMany = (1 << 16) + 1;  // more than the amount accepted without a check

TEST(Batch, IsMeasuredByWhatMapsLeave) {
  const Dataset small =
      Dataset::from_source(std::make_shared<Huge>(kMany)).map([](const Element& row) -> Element {
        return row.values()[0].tensor()[0].clone();
      });
  const Lists batches = lists(small.batch(kMany));
  ASSERT_EQ(batches.size(), 1u);
  ASSERT_EQ(batches[0].size(), static_cast<size_t>(kMany));
  EXPECT_EQ(batches[0].back(), kMany - 1);
}

TEST(Batch, OfMapsThatGrowRowsIsRefusedAtItsFirstRow) {
  int64_t calls = 0;
  const Dataset large = Dataset::range(kMany).map([&calls](const Element& row) -> Element {
    ++calls;
    return row.values()[0].tensor().expand({int64_t{1} << 37});
  });
  const auto iterator = large.batch(kMany).iterator();
  const Error error = error_of([&] { iterator->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("a batch of 65537 rows needs 64.0 PiB"),
                                     HasSubstr("range(65537) > ")));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster::inline v0_1
