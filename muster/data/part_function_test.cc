#include "muster/data/part_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::HasSubstr;

Dataset pairs() {
  return Dataset::from_tensor_slices(
      Element::tuple({torch::arange(6, kInt64), torch::arange(6, kInt64) % 2}));
}

Dataset named() {
  return Dataset::from_tensor_slices(Element::tuple(
      {Element::dict({{"x", torch::arange(4, kInt64)}, {"name", Strings({"a", "b", "c", "d"})}}),
       torch::arange(4, kInt64) * 10}));
}

std::vector<Element> all_of(const Dataset& dataset) {
  std::vector<Element> elements;
  const auto iterator = dataset.iterator();
  while (const auto element = iterator->next()) elements.push_back(*element);
  return elements;
}

TEST(PartFunction, AMapTakesThePartsOfATupleAndGivesOne) {
  const auto by_parts = pairs().batch(3).map(
      [](Tensor x, const Tensor& y) { return std::tuple(x.to(kFloat32) / 2, y); });
  const auto by_element = pairs().batch(3).map([](const Element& batch) {
    return Element::tuple({batch.part(0).value().tensor().to(kFloat32) / 2, batch.part(1)});
  });
  const auto some = all_of(by_parts), others = all_of(by_element);
  ASSERT_EQ(some.size(), 2u);
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].describe(), "(float32[3], int64[3])");
    EXPECT_EQ(some[i].structure(), others[i].structure());
    for (size_t part = 0; part < 2; ++part) {
      EXPECT_TRUE(torch::equal(some[i].values()[part].tensor(), others[i].values()[part].tensor()));
    }
  }
}

TEST(PartFunction, ItsResultMayBeATensorAnElementOrAPairOfThem) {
  const auto sums = all_of(pairs().map([](Tensor x, Tensor y) { return x + y; }));
  EXPECT_EQ(number(sums.at(5)), 6);
  const auto nested = all_of(pairs().map([](Tensor x, Tensor y) {
    return std::pair(Element::dict({{"x", x}}), std::tuple(y, std::string("word")));
  }));
  EXPECT_EQ(nested.at(0).describe(), "({x: int64[]}, (int64[], string[]))");
  // A single tensor is a part as well.
  EXPECT_EQ(number(all_of(Dataset::range(3).map([](Tensor x) { return x * 7; })).at(2)), 14);
}

TEST(PartFunction, APartMayBeADictATextOrAnyElement) {
  const auto kept = all_of(named().map([](const Features& row, Tensor y) { return row["x"] + y; }));
  EXPECT_EQ(number(kept.at(3)), 33);
  const auto words = all_of(named()
                                .map([](const Element& row, Element) { return row.at("name"); })
                                .map([](std::string word) { return Element(word + "!"); }));
  EXPECT_EQ(words.at(1).value().strings()[0], "b!");
  const auto texts =
      all_of(named()
                 .batch(4)
                 .map([](const Element& row, Labels) { return row.at("name"); })
                 .map([](const Strings& words) { return torch::tensor(words.size()); }));
  EXPECT_EQ(number(texts.at(0)), 4);
}

TEST(PartFunction, FilterAndItsLikeTakePartsToo) {
  const auto odd = pairs().filter([](Tensor, Tensor y) { return y.item<int64_t>() == 1; });
  EXPECT_EQ(all_of(odd).size(), 3u);
  const auto first = pairs().take_while([](Tensor x, Tensor) { return x.item<int64_t>() < 2; });
  EXPECT_EQ(all_of(first).size(), 2u);
  const auto many =
      pairs().flat_map([](Tensor x, Tensor) { return Dataset::range(x.item<int64_t>()); });
  EXPECT_EQ(all_of(many).size(), 15u);
  const auto turns = pairs().interleave(
      [](Tensor x, Tensor) { return Dataset::range(x.item<int64_t>()); }, {.cycle_length = 2});
  EXPECT_EQ(all_of(turns).size(), 15u);
  const auto buckets =
      pairs().bucket_by_sequence_length([](Tensor x, Tensor) { return x.item<int64_t>(); },
                                        {.boundaries = {2}, .batch_sizes = {2, 4}});
  EXPECT_EQ(all_of(buckets).size(), 2u);
}

TEST(PartFunction, AKeyMayFollowTheParts) {
  const auto by_parts = all_of(pairs().map(
      [](Tensor x, Tensor, RandomKey key) { return x + static_cast<int64_t>(key.key % 1000); }));
  const auto by_element = all_of(pairs().map([](const Element& row, RandomKey key) {
    return Element(row.part(0).value().tensor() + static_cast<int64_t>(key.key % 1000));
  }));
  for (size_t i = 0; i < by_parts.size(); ++i) {
    EXPECT_EQ(number(by_parts[i]), number(by_element[i]));
  }
}

TEST(PartFunction, FunctionsOfElementsStayWhatTheyWere) {
  static_assert(!PartFunction<Dataset::MapFunction>);
  static_assert(!PartFunction<Element (*)(const Element&)>);
  static_assert(!PartFunction<Element (*)(Element)>);
  static_assert(!KeyedPartFunction<Dataset::KeyedMapFunction>);
  static_assert(PartFunction<Element (*)(Tensor)>);
  static_assert(PartFunction<Element (*)(Element, Element)>);
  static_assert(!PartFunction<Element (*)(int)>);
  const auto generic = pairs().map([](const auto& row) { return row.part(1); });
  EXPECT_EQ(number(all_of(generic).at(1)), 1);
}

TEST(PartFunction, AnElementOfAnotherFormIsAnErrorThatShowsIt) {
  const auto error = [](const Dataset& dataset) {
    return error_of([&] { (void)all_of(dataset); });
  };
  const Error many = error(pairs().map([](Tensor x, Tensor, Tensor) { return x; }));
  EXPECT_EQ(many.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(many.what(), HasSubstr("takes 3 parts, and the element has 2: (int64[], int64[])"));
  EXPECT_THAT(error(pairs().map([](Tensor x) { return x; })).what(),
              HasSubstr("asks for a Tensor, and the part is (int64[], int64[])"));
  const Error dict =
      error(named().map([](const Element& row, Element) { return row; }).map([](Tensor x, Tensor) {
        return x;
      }));
  EXPECT_THAT(dict.what(), HasSubstr("is a dict"));
  EXPECT_THAT(dict.what(), HasSubstr("features[\"name\"]"));
  EXPECT_THAT(error(named().map([](Tensor x, Tensor) { return x; })).what(),
              HasSubstr("asks for a Tensor, and the part is {name: string[], x: int64[]}"));
  EXPECT_THAT(error(pairs().map([](Strings s, Tensor) { return Element(s); })).what(),
              HasSubstr("asks for Strings, and the part is int64[]"));
}

}  // namespace
}  // namespace muster::inline v0_1::data
