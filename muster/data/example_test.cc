#include "muster/data/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/data/tfrecord.h"
#include "muster/formats/example.h"
#include "muster/tensor/features.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using formats::encode_example;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;
using Texts = std::vector<std::string>;

Element batch_of(const std::vector<formats::FeatureMap>& examples) {
  std::vector<std::string> records;
  for (const formats::FeatureMap& features : examples)
    records.push_back(encode_example({features}));
  return Value(Strings(records));
}

Texts texts_of(const Value& value) {
  Texts texts;
  for (int64_t i = 0; i < value.strings().size(); ++i) texts.emplace_back(value.strings()[i]);
  return texts;
}

bool same(const Tensor& tensor, const Tensor& expected) {
  return tensor.scalar_type() == expected.scalar_type() && tensor.equal(expected);
}

const FeatureSpec kSpec = {
    {"x", FixedLenFeature{.shape = {2, 1}, .dtype = kFloat32}},
    {"n", FixedLenFeature{.dtype = kInt64, .default_value = torch::tensor(int64_t{7})}},
    {"s", FixedLenFeature{.shape = {2}, .dtype = kString}},
    {"ids", VarLenFeature{kInt64}},
    {"words", VarLenFeature{kString}},
    {"steps", FixedLenSequenceFeature{.shape = {2},
                                      .dtype = kFloat32,
                                      .allow_missing = true,
                                      .padding_value = torch::tensor(-1.0f)}},
};

const std::vector<formats::FeatureMap> kRows = {
    {{"x", Floats{1, 2}},
     {"n", Integers{5}},
     {"s", Texts{"a", "b"}},
     {"ids", Integers{3, 4, 5}},
     {"steps", Floats{1, 2}}},
    {{"x", Floats{3, 4}},
     {"s", Texts{"", "c"}},
     {"words", Texts{"one", "two"}},
     {"ids", Integers{-1}},
     {"steps", Floats{3, 4, 5, 6}}},
};

TEST(ExampleParser, GivesADictOfValuesWithARowPerExample) {
  const Element batch = ExampleParser(kSpec)(batch_of(kRows));
  EXPECT_EQ(batch.describe(),
            "{ids: int64[2, 3], ids/row_lengths: int64[2], n: int64[2], s: string[2, 2], "
            "steps: float32[2, 2, 2], words: string[2, 2], words/row_lengths: int64[2], "
            "x: float32[2, 2, 1]}");
  EXPECT_EQ(batch.rows(), 2);
  const Features features(batch);
  EXPECT_TRUE(same(features["x"], torch::tensor({1.0f, 2.0f, 3.0f, 4.0f}).reshape({2, 2, 1})));
  EXPECT_TRUE(same(features["n"], torch::tensor({int64_t{5}, int64_t{7}})));
  EXPECT_EQ(texts_of(features.value("s")), (Texts{"a", "b", "", "c"}));
  EXPECT_TRUE(
      same(features["ids"], torch::tensor(Integers{3, 4, 5, -1, 0, 0}, kInt64).reshape({2, 3})));
  EXPECT_TRUE(same(features["ids/row_lengths"], torch::tensor(Integers{3, 1}, kInt64)));
  EXPECT_EQ(texts_of(features.value("words")), (Texts{"", "", "one", "two"}));
  EXPECT_TRUE(same(features["words/row_lengths"], torch::tensor(Integers{0, 2}, kInt64)));
  EXPECT_TRUE(
      same(features["steps"],
           torch::tensor({1.0f, 2.0f, -1.0f, -1.0f, 3.0f, 4.0f, 5.0f, 6.0f}).reshape({2, 2, 2})));
}

// Invariant: a batch of one, without its axis, equals the result for a scalar; features of one
// length stack to the result for the batch.
TEST(ExampleParser, AScalarGivesTheSameWithoutTheAxis) {
  const ExampleParser parse(kSpec);
  const Element batch = batch_of(kRows);
  for (int64_t i = 0; i < 2; ++i) {
    const Element alone = parse(Value(batch.value().row(i)));
    const Element one = parse(batch.slice(i, i + 1));
    for (size_t leaf = 0; leaf < one.values().size(); ++leaf) {
      const Value expected = one.values()[leaf].row(0);
      EXPECT_EQ(alone.values()[leaf].describe(), expected.describe());
      if (expected.is_tensor()) {
        EXPECT_TRUE(same(alone.values()[leaf].tensor(), expected.tensor()));
      } else {
        EXPECT_EQ(texts_of(alone.values()[leaf]), texts_of(expected));
      }
    }
  }
}

TEST(ExampleParser, ABatchWithoutRowsHasAllEntries) {
  const Element none = ExampleParser(kSpec)(batch_of({}));
  EXPECT_EQ(none.describe(),
            "{ids: int64[0, 0], ids/row_lengths: int64[0], n: int64[0], s: string[0, 2], "
            "steps: float32[0, 0, 2], words: string[0, 0], words/row_lengths: int64[0], "
            "x: float32[0, 2, 1]}");
}

TEST(ExampleParser, DefaultsAreOneValueOrOfTheShape) {
  const FeatureSpec spec = {
      {"one", FixedLenFeature{{2}, kFloat32, torch::tensor(0.5f)}},
      {"all", FixedLenFeature{{2}, kInt64, torch::tensor({int64_t{1}, int64_t{2}})}},
      {"text", FixedLenFeature{{2}, kString, Strings(Texts{"?"})}},
  };
  const Features features(ExampleParser(spec)(batch_of({{}, {}})));
  EXPECT_TRUE(same(features["one"], torch::full({2, 2}, 0.5f)));
  EXPECT_TRUE(same(features["all"], torch::tensor(Integers{1, 2, 1, 2}, kInt64).reshape({2, 2})));
  EXPECT_EQ(texts_of(features.value("text")), (Texts{"?", "?", "?", "?"}));
}

TEST(ExampleParser, RefusesSpecificationsThatCannotBe) {
  const auto refused = [](const FeatureSpec& spec) {
    const Error error = error_of([&] { ExampleParser{spec}; });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("\"key"));
    return error.message();
  };
  EXPECT_THAT(refused({{"key", FixedLenFeature{{}, kUInt8}}}), HasSubstr("cannot be uint8"));
  EXPECT_THAT(refused({{"key", FixedLenFeature{{-1}, kFloat32}}}), HasSubstr("[-1]"));
  EXPECT_THAT(refused({{"key", FixedLenFeature{{2}, kFloat32, torch::zeros({3})}}}),
              AllOf(HasSubstr("float32[3]"), HasSubstr("float32[2]")));
  EXPECT_THAT(refused({{"key", FixedLenFeature{{2}, kFloat32, torch::zeros({2}, kInt64)}}}),
              HasSubstr("int64[2], not float32"));
  EXPECT_THAT(refused({{"key", FixedLenFeature{{}, kString, torch::zeros({})}}}),
              HasSubstr("not strings"));
  EXPECT_THAT(refused({{"key", FixedLenFeature{{}, kFloat32, Value()}}}), HasSubstr("not float32"));
  EXPECT_THAT(refused({{"key", FixedLenSequenceFeature{.shape = {0}}}}),
              HasSubstr("without values"));
  EXPECT_THAT(
      refused({{"key", VarLenFeature{kInt64}}, {"key/row_lengths", FixedLenFeature{{}, kInt64}}}),
      HasSubstr("twice"));
}

TEST(ExampleParser, ErrorsNameTheRow) {
  const ExampleParser parse({{"x", FixedLenFeature{{}, kFloat32}}});
  const auto error_for = [&](const formats::FeatureMap& second) {
    return error_of([&] { parse(batch_of({{{"x", Floats{1}}}, second})); });
  };
  const Error missing = error_for({{"y", Floats{1}}});
  EXPECT_EQ(missing.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(missing.message(),
              AllOf(HasSubstr("row 1 of 2: the feature \"x\" is missing"), HasSubstr("'y'")));
  EXPECT_THAT(error_for({{"x", Integers{1}}}).message(), HasSubstr("row 1 of 2"));
  const Error damaged = error_of([&] { parse(Value(Strings(Texts{"<html>"}))); });
  EXPECT_EQ(damaged.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(damaged.message(), HasSubstr("not a tf.Example"));
  const Error tensor = error_of([&] { parse(Element(torch::zeros({2}))); });
  EXPECT_EQ(tensor.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(tensor.message(), HasSubstr("float32[2]"));
}

TEST(ExampleParser, OneParserServesManyThreads) {
  const ExampleParser parse(kSpec);
  const Element batch = batch_of(kRows);
  std::vector<std::thread> threads;
  std::vector<Element> results(4);
  for (Element& result : results) {
    threads.emplace_back([&parse, &batch, &result] {
      for (int i = 0; i < 200; ++i) result = parse(batch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Tensor expected = Features(parse(batch))["ids"];
  for (const Element& result : results) EXPECT_TRUE(same(Features(result)["ids"], expected));
}

TEST(ExampleParser, RecordsOfOthers) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const std::string records = join_path(folder, "tensorflow/records");
  // The whole of toy.csv: Num_1, Num_2 with NA, Cat_2 with nothing, Cat_set_1 a set.
  const auto toy = tfrecord_format();
  std::vector<Value> parts;
  for (const char* part : {"0", "1"}) {
    Element rows;
    const std::string path =
        join_path(records, std::string("toy.tfe-tfrecord-0000") + part + "-of-00002");
    toy->open(local_file_system(), path)->read(10, &rows);
    parts.push_back(rows.value());
  }
  const Features features(
      ExampleParser({{"Num_1", FixedLenFeature{{}, kFloat32}},
                     {"Num_2", FixedLenFeature{{}, kFloat32, torch::tensor(-1.0f)}},
                     {"Cat_2", FixedLenFeature{{}, kString, Strings(Texts{"NA"})}},
                     {"Bool_1", FixedLenFeature{{}, kInt64}},
                     {"Cat_set_1", VarLenFeature{kString}}})(Value::concatenate(parts)));
  EXPECT_TRUE(same(features["Num_1"], torch::tensor({1.0f, 2.0f, 3.0f, 4.0f})));
  EXPECT_TRUE(same(features["Num_2"], torch::tensor({-1.0f, 2.0f, -1.0f, 4.0f})));
  EXPECT_TRUE(same(features["Bool_1"], torch::tensor(Integers{0, 1, 0, 1}, kInt64)));
  EXPECT_EQ(texts_of(features.value("Cat_2")), (Texts{"A", "NA", "B", "NA"}));
  EXPECT_TRUE(same(features["Cat_set_1/row_lengths"], torch::tensor(Integers{1, 2, 3, 3}, kInt64)));

  Element rows;
  tfrecord_format()
      ->open(local_file_system(), join_path(records, "taxi_examples.tfrecord"))
      ->read(100, &rows);
  const Features images(ExampleParser({{"image", FixedLenFeature{{28, 28, 1}, kFloat32}},
                                       {"target", FixedLenFeature{{}, kInt64}}})(rows));
  EXPECT_EQ(images.rows(), 10);
  EXPECT_EQ(images["target"][0].item<int64_t>(), 7);
  EXPECT_NEAR(images["image"][0].max().item<float>(), 1, 1e-6);
  EXPECT_NEAR(images["image"][0][7][6][0].item<float>(), 0.32941177, 1e-6);
}

// One long row among many short ones is few bytes of a file.
TEST(ExampleParser, FewBytesDoNotBecomeManyByBeingFilledUp) {
  std::vector<std::string> records(20'000,
                                   formats::encode_example({{{"x", std::vector<int64_t>{1}}}}));
  records[7] = formats::encode_example({{{"x", std::vector<int64_t>(30'000, 1)}}});
  const ExampleParser parse({{"x", VarLenFeature{kInt64}}});
  const Error error = error_of([&] { (void)parse(Element(Strings(records))); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("\"x\" of 20000 examples, of up to 30000 values"),
                                     HasSubstr("more than 1032 times the ")));
  EXPECT_THAT(error.hint(), HasSubstr("bucket_by_sequence_length"));
  records.resize(100);
  EXPECT_EQ(parse(Element(Strings(records))).at("x").value().tensor().size(1), 30'000);
}

}  // namespace
}  // namespace muster::inline v0_1::data
