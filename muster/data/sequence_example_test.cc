#include "muster/data/sequence_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/data/dataset.h"
#include "muster/formats/example.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// A film of frames of two numbers, with the words of each.
std::string film(int64_t label, const std::vector<Floats>& frames,
                 const std::vector<Texts>& words) {
  formats::SequenceExample example{{{"label", Integers{label}}}, {{"frames", {}}, {"words", {}}}};
  for (const Floats& frame : frames) example.feature_lists[0].second.emplace_back(frame);
  for (const Texts& each : words) example.feature_lists[1].second.emplace_back(each);
  return formats::encode_sequence_example(example);
}

const FeatureSpec kContext{{"label", FixedLenFeature{{}, kInt64}}};
const FeatureSpec kSequences{{"frames", FixedLenSequenceFeature{{2}, kFloat32}},
                             {"words", VarLenFeature{kString}}};

Element two_films() {
  return Element(Strings(
      Texts{film(7, {{1, 2}, {3, 4}, {5, 6}}, {{"a"}, {}, {"b", "cc"}}), film(8, {{9, 8}}, {})}));
}

std::string error_in(const FeatureSpec& sequences, const Element& serialized) {
  const SequenceExampleParser parse(kContext, sequences);
  return error_of([&] { (void)parse(serialized); }).what();
}

TEST(SequenceExampleParser, FillsUpShorterSequencesAndTellsTheirLengths) {
  const SequenceExampleParser parse(kContext, kSequences);
  const Element both = parse(two_films());
  EXPECT_EQ(both.describe(),
            "({label: int64[2]}, {frames: float32[2, 3, 2], frames/row_lengths: int64[2], words: "
            "string[2, 3, 2], words/row_lengths: int64[2], words/step_lengths: int64[2, 3]})");
  EXPECT_TRUE(both.part(0).at("label").value().tensor().equal(torch::tensor({7, 8}, at::kLong)));
  const Element lists = both.part(1);
  EXPECT_TRUE(lists.at("frames").value().tensor().equal(
      torch::tensor({1., 2., 3., 4., 5., 6., 9., 8., 0., 0., 0., 0.}, at::kFloat).view({2, 3, 2})));
  EXPECT_TRUE(
      lists.at("frames/row_lengths").value().tensor().equal(torch::tensor({3, 1}, at::kLong)));
  EXPECT_TRUE(
      lists.at("words/row_lengths").value().tensor().equal(torch::tensor({3, 0}, at::kLong)));
  EXPECT_TRUE(lists.at("words/step_lengths")
                  .value()
                  .tensor()
                  .equal(torch::tensor({1, 0, 2, 0, 0, 0}, at::kLong).view({2, 3})));
  const Strings words = lists.at("words").value().strings();
  std::vector<std::string> all;
  for (int64_t i = 0; i < words.size(); ++i) all.emplace_back(words[i]);
  EXPECT_THAT(all, ElementsAre("a", "", "", "", "b", "cc", "", "", "", "", "", ""));
}

TEST(SequenceExampleParser, OfOneExampleGivesNoAxisOfExamples) {
  const SequenceExampleParser parse(kContext, kSequences);
  const std::string one = film(7, {{1, 2}}, {{"a"}});
  const Element element = parse(Element(Strings({}, {0, static_cast<int64_t>(one.size())}, one)));
  EXPECT_EQ(element.describe(),
            "({label: int64[]}, {frames: float32[1, 2], frames/row_lengths: int64[], words: "
            "string[1, 1], words/row_lengths: int64[], words/step_lengths: int64[1]})");
}

TEST(SequenceExampleParser, RunsInAMap) {
  const Strings records = two_films().value().strings();
  const Dataset dataset = Dataset::from_tensor_slices(records).batch(2).map(
      SequenceExampleParser(kContext, kSequences), {.name = "parse"});
  const auto iterator = dataset.iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->part(1).at("frames").value().tensor().size(1), 3);
}

TEST(SequenceExampleParser, TakesDefaultsAndMissingLists) {
  const FeatureSpec sequences{
      {"frames", FixedLenSequenceFeature{{2}, kFloat32, false, Value(torch::tensor(-1.0f))}},
      {"marks", FixedLenSequenceFeature{{}, kInt64, true}},
      {"notes", VarLenFeature{kInt64}}};
  const Element lists = SequenceExampleParser(kContext, sequences)(two_films()).part(1);
  EXPECT_EQ(lists.at("frames").value().tensor().min().item<float>(), -1);
  EXPECT_EQ(lists.at("marks").value().describe(), "int64[2, 0]");
  EXPECT_EQ(lists.at("notes").value().describe(), "int64[2, 0, 0]");
}

TEST(SequenceExampleParser, ErrorsNameRowListAndStep) {
  EXPECT_THAT(error_in({{"sounds", FixedLenSequenceFeature{{2}}}}, two_films()),
              AllOf(HasSubstr("row 0 of 2: the list \"sounds\" is missing"),
                    HasSubstr("\"frames\", \"words\"")));
  EXPECT_THAT(error_in({{"frames", FixedLenSequenceFeature{{3}}}}, two_films()),
              HasSubstr("step 0 of \"frames\" holds 2 values, but its shape [3] takes 3"));
  EXPECT_THAT(error_in({{"frames", VarLenFeature{kInt64}}}, two_films()),
              HasSubstr("step 0 of \"frames\" holds float values, not int64"));
  EXPECT_THAT(error_in({{"words", FixedLenSequenceFeature{{}, kString}}}, two_films()),
              HasSubstr("step 1 of \"words\" holds 0 values"));
  EXPECT_THAT(error_in(kSequences, Element(Strings(Texts{film(1, {}, {}), "\x0a\xff"}))),
              HasSubstr("row 1 of 2: "));
  EXPECT_THAT(error_in(kSequences, Element(torch::zeros({2}))), HasSubstr("float32[2]"));
}

// A megabyte of records that asks for terabytes: one long step, many empty ones, many examples.
// Less than the memory of the machine is refused too, if it is more than any packed file becomes.
TEST(SequenceExampleParser, FewBytesDoNotBecomeManyByBeingFilledUp) {
  constexpr int64_t kMany = 300'000;
  formats::SequenceExample wide{{{"label", Integers{1}}}, {{"marks", {}}}};
  wide.feature_lists[0].second.emplace_back(Integers(kMany, 1));
  formats::SequenceExample deep{{{"label", Integers{1}}}, {{"marks", {}}}};
  deep.feature_lists[0].second.assign(kMany, formats::Feature(Integers{}));
  Texts records(1000,
                formats::encode_sequence_example({{{"label", Integers{1}}}, {{"marks", {}}}}));
  records[3] = formats::encode_sequence_example(wide);
  records[7] = formats::encode_sequence_example(deep);
  const SequenceExampleParser parse(kContext, {{"marks", VarLenFeature{kInt64}}});
  const Error error = error_of([&] { (void)parse(Element(Strings(records))); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("\"marks\" of 1000 examples, of up to 300000 steps with up to 300000 "
                              "values each, takes "),
                    HasSubstr("more than 1032 times the ")));
  // One example of 60 KB, which would be 800 MB.
  formats::SequenceExample one{{{"label", Integers{1}}}, {{"marks", {}}}};
  one.feature_lists[0].second.assign(10'000, formats::Feature(Integers{}));
  one.feature_lists[0].second[5] = Integers(10'000, 1);
  const std::string record = formats::encode_sequence_example(one);
  EXPECT_LT(record.size(), 60'000u);
  EXPECT_THAT(error_of([&] { (void)parse(Element(Strings(Texts{record}))); }).message(),
              HasSubstr("more than 1032 times the "));
}

TEST(SequenceExampleParser, RefusesWhatCannotBe) {
  const auto refused = [](const FeatureSpec& sequences) {
    return std::string(error_of([&] { SequenceExampleParser(kContext, sequences); }).what());
  };
  EXPECT_THAT(refused({{"frames", FixedLenFeature{{2}}}}),
              AllOf(HasSubstr("\"frames\""), HasSubstr("FixedLenSequenceFeature")));
  EXPECT_THAT(refused({{"a", VarLenFeature{}}, {"a/row_lengths", VarLenFeature{}}}),
              HasSubstr("would be there twice"));
  EXPECT_THAT(refused({{"a", FixedLenSequenceFeature{{0}}}}), HasSubstr("at least size 1"));
  EXPECT_THAT(refused({{"a", FixedLenSequenceFeature{{}, kFloat64}}}), HasSubstr("float64"));
}

}  // namespace
}  // namespace muster::inline v0_1::data
