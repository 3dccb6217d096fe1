// concatenate() of data sets that do not fit together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Dataset floats() { return Dataset::from_tensor_slices(torch::zeros({3, 2})); }
Dataset pairs() {
  return Dataset::from_tensor_slices(
      Element::dict({{"x", torch::zeros({3})}, {"name", Strings({"a", "b", "c"})}}));
}

TEST(Concatenate, OfOtherKindsIsRefusedWhereBothAreKnown) {
  const Error error = error_of([] { (void)Dataset::range(3).concatenate(floats()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("slices(3)"), HasSubstr("float32"), HasSubstr("int64"),
                                  HasSubstr("map()")));
  EXPECT_THAT(error_of([] { (void)pairs().batch(2).concatenate(floats()); }).what(),
              HasSubstr("{name: string, x: float32}"));
  // Through stages that keep the kinds, or make known ones.
  EXPECT_THROW((void)Dataset::range(3).shuffle(3).repeat().enumerate().concatenate(floats()),
               Error);
  EXPECT_THROW((void)Dataset::zip({floats(), floats()}).concatenate(floats()), Error);
  EXPECT_NO_THROW((void)Dataset::range(3).enumerate().concatenate(
      Dataset::zip({Dataset::range(2), Dataset::range(2)})));
}

TEST(Concatenate, OfOtherShapesIsNone) {
  EXPECT_EQ(read(Dataset::range(2).concatenate(Dataset::range(4).batch(2))),
            (Lists{{0}, {1}, {0, 1}, {2, 3}}));
}

TEST(Concatenate, OfOtherKindsIsAnErrorInPlaceOfEachElement) {
  const auto to_float = [](const Element& x) { return Element(x.value().tensor().to(at::kFloat)); };
  const auto same = [](const Element& x) { return x; };
  for (const Dataset& dataset :
       {Dataset::range(3).concatenate(Dataset::range(2).map(to_float)),
        Dataset::range(3).map(same).concatenate(Dataset::range(2).map(to_float)),
        number_files({"0-3"}).concatenate(floats().take(2))}) {
    SCOPED_TRACE(dataset.describe());
    const Lists whole{{0}, {1}, {2}, {-1}, {-1}};
    const auto iterator = dataset.iterator();
    for (size_t stop = 0; stop < whole.size(); ++stop) {
      const auto again = dataset.iterator();
      again->restore(iterator->save());
      EXPECT_EQ(rest_of(*again), Lists(whole.begin() + static_cast<int64_t>(stop), whole.end()));
      if (stop < 3) {
        iterator->next();
        continue;
      }
      const Error error = error_of([&] { iterator->next(); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("input 1 of concatenate gives float32"),
                                      HasSubstr("what is before it int64")));
    }
  }
}

TEST(Concatenate, ComparesWithTheFirstInputThatHasAnElement) {
  const auto none = [](const Element&) { return false; };
  const auto same = [](const Element& x) { return x; };
  const Dataset dataset = floats()
                              .map(same)
                              .filter(none)
                              .concatenate(Dataset::range(2).map(same))
                              .concatenate(number_files({"5-7"}));
  EXPECT_EQ(read(dataset), (Lists{{0}, {1}, {5}, {6}}));
}

}  // namespace
}  // namespace muster::inline v0_1
