#include "muster/data/batches_past_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Lists = std::vector<std::vector<int64_t>>;

Dataset pairs(int64_t rows) {
  return Dataset::from_tensor_slices(
             Element::tuple({torch::arange(2 * rows, at::kLong).view({rows, 2}),
                             torch::arange(rows, at::kLong)}))
      .batch(2);
}

TEST(BatchesPastEnd, GiveTheIteratorsBatchesAndThenZeroRowsOfTheirForm) {
  BatchesPastEnd batches(pairs(5).iterator());
  const std::string spec = batches.spec();
  Element element;
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(batches.read(&element));
    EXPECT_EQ(element.rows(), i < 2 ? 2 : 1);
  }
  for (int times = 0; times < 2; ++times) {
    element = {};
    EXPECT_FALSE(batches.read(&element));
    EXPECT_EQ(encode_batch_spec(element), spec);
    EXPECT_THAT(element.values()[0].tensor().sizes(), ElementsAre(0, 2));
    EXPECT_THAT(element.values()[1].tensor().sizes(), ElementsAre(0));
    EXPECT_EQ(batches.peek().rows(), 0);
  }
}

TEST(BatchesPastEnd, WithoutDataTakeTheFormOfAnotherReplica) {
  BatchesPastEnd full(pairs(4).iterator()), none(pairs(4).take(0).iterator());
  EXPECT_THAT(none.spec(), IsEmpty());
  Element element(torch::ones({1}));
  EXPECT_FALSE(none.read(&element));
  EXPECT_EQ(element.rows(), 1);  // nothing is known of the form
  none.set_spec(full.spec());
  EXPECT_EQ(none.peek().rows(), 0);
  EXPECT_FALSE(none.read(&element));
  EXPECT_EQ(encode_batch_spec(element), full.spec());
  EXPECT_EQ(error_of([&] { none.set_spec("no form"); }).kind(), ErrorKind::kInternal);
}

TEST(BatchesPastEnd, ElementsReadAheadAreNotHandedOut) {
  const Dataset dataset = Dataset::range(10).batch(3);
  const auto plain = dataset.iterator();
  BatchesPastEnd batches(dataset.iterator());
  Element element;
  do {
    batches.spec();
    EXPECT_EQ(batches.save(), plain->save());
    EXPECT_EQ(batches.position(), plain->position());
    EXPECT_EQ(batches.remaining(), plain->remaining());
    const Element ahead = batches.peek();
    const bool has = batches.read(&element);
    EXPECT_EQ(numbers_in(ahead), numbers_in(element));
    const std::optional<Element> same = plain->next();
    ASSERT_EQ(same.has_value(), has);
    if (!has) break;
    EXPECT_EQ(numbers_in(ahead), numbers_in(*same));
  } while (true);
}

TEST(BatchesPastEnd, ContinueAtASavedPosition) {
  const Dataset dataset = Dataset::range(10).batch(3);
  BatchesPastEnd first(dataset.iterator());
  Element element;
  first.read(&element);
  first.spec();
  BatchesPastEnd second(dataset.iterator());
  second.spec();  // of a batch that restoring passes over
  second.restore(first.save());
  EXPECT_EQ(rest_of(second), (Lists{{3, 4, 5}, {6, 7, 8}, {9}}));
  EXPECT_FALSE(second.read(&element));
  second.restore(first.save());
  EXPECT_EQ(rest_of(second), (Lists{{3, 4, 5}, {6, 7, 8}, {9}}));
}

TEST(BatchesPastEnd, RefuseWhatIsNoBatch) {
  BatchesPastEnd scalars(Dataset::range(3).iterator());
  EXPECT_EQ(error_of([&] { scalars.spec(); }).kind(), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1::data
