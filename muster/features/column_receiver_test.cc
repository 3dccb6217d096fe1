#include "muster/features/column_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/export/write_servable.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/resolve.h"
#include "muster/features/sequence_column.h"
#include "muster/formats/example.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column {
namespace {

using ::testing::HasSubstr;

const FeatureColumn kYears = numeric_column(
    "age", {.normalizer_fn = [](const Tensor& numbers) { return (numbers - 40) / 10; }});
const FeatureColumn kAgeBuckets = bucketized_column(numeric_column("age"), {18, 65});
const FeatureColumn kTown = categorical_column_with_identity("city", 4);
const FeatureColumn kTownShares = weighted_categorical_column(kTown, "share");

std::map<std::string, std::string> described(const std::vector<FeatureColumn>& columns) {
  std::map<std::string, std::string> all;
  for (const auto& [name, feature] : serving_input_receiver(columns).features)
    all[name] = dtype_name(feature.dtype) + describe(feature.shape);
  return all;
}

TEST(ServingInputTest, NumbersByTheirKeysAndCategoriesByTheirIds) {
  EXPECT_EQ(
      described({kYears, kAgeBuckets, numeric_column("place", {.shape = {2, 3}, .dtype = kInt64}),
                 indicator_column(kTown), embedding_column(kTown, 3), indicator_column(kTownShares),
                 crossed_column({kAgeBuckets, "job"}, 10)}),
      (std::map<std::string, std::string>{{"age", "float32[1]"},
                                          {"place", "int64[2, 3]"},
                                          {"city/ids", "int64[1]"},
                                          {"city_weighted_by_share/ids", "int64[1]"},
                                          {"city_weighted_by_share/weights", "float32[1]"},
                                          {"age_bucketized_X_job/ids", "int64[1]"}}));
}

// A model of the columns' results: each input except "age" is summed over an example.
class ColumnsInFront : public ::testing::Test {
 protected:
  ColumnsInFront() {
    source_.receiver = serving_input_receiver(columns_);
    source_.receiver.features["words/ids"].shape = {3};
    source_.function = [](const Servable::Tensors& features) {
      std::map<std::string, Tensor> outputs;
      for (const auto& [name, tensor] : features)
        outputs[name] = (tensor + (name == "age" ? 0.5 : 0)).sum(-1);
      return std::map<std::string, ExportOutput>{{kServingDefault, PredictOutput(outputs)}};
    };
    write_servable(local_file_system(), directory_.path(), source_);
    model_.emplace(directory_.path());
  }

  // The result of run() for the features as the pipeline resolves them.
  Servable::Tensors expected(const Element& batch) const {
    const Element resolved = resolve(columns_)(batch);
    Servable::Tensors sums;
    for (const auto& [name, feature] : source_.receiver.features) {
      const Tensor rows = name == "age" ? batch.at(name).value().tensor() + 0.5F
                                        : resolved.at(name).value().tensor();
      // A missing value counts as -1 in the sum.
      const int64_t missing =
          name == "age" ? 0 : feature.shape[0] - static_cast<int64_t>(rows.size(-1));
      sums[name] = rows.reshape({batch.rows(), -1}).sum(-1) - missing;
    }
    return sums;
  }

  std::string refusal(std::vector<std::pair<std::string, Element>> changed) const {
    std::map<std::string, Element> entries;
    const Element all = persons();
    for (const std::string& key : all.structure().keys) entries[key] = all.at(key);
    for (auto& [key, value] : changed) entries[key] = std::move(value);
    return message_of([&] {
      (void)model_->run_features(kServingDefault, Element::dict({entries.begin(), entries.end()}));
    });
  }

  static Element persons() {
    return Element::dict(
        {{"age", torch::tensor({10.0F, 30.0F, 70.0F}).unsqueeze(1)},
         {"city", Strings(std::vector<std::string>{"Bern", "Rome", ""})},
         {"words", Strings({3, 3}, {0, 1, 2, 2, 3, 3, 3, 4, 5, 6}, "abbcaa")},
         {"job", Strings(std::vector<std::string>{"cook", "smith", "K\xc3\xb6nig"})}});
  }

  const FeatureColumn city_ =
      categorical_column_with_vocabulary_list("city", {"Bern", "Oslo"}, {.num_oov_buckets = 5});
  const std::vector<FeatureColumn> columns_{
      kYears, indicator_column(city_),
      embedding_column(categorical_column_with_hash_bucket("words", 100), 2),
      crossed_column({kAgeBuckets, "job"}, 1000)};
  TempDirectory directory_;
  ServableSource source_;
  std::optional<Servable> model_;
};

TEST_F(ColumnsInFront, ReadWhatAClientGivesAsThePipelineDoes) {
  std::map<std::string, std::string> features;
  for (const auto& [name, feature] : model_->signature(kServingDefault).features)
    features[name] = feature.describe();
  EXPECT_EQ(features, (std::map<std::string, std::string>{{"age", "float32[-1, 1]"},
                                                          {"city", "string[-1, 1]"},
                                                          {"job", "string[-1, 1]"},
                                                          {"words", "string[-1, 3]"}}));
  const Servable::Tensors given = model_->run_features(kServingDefault, persons());
  for (const auto& [name, sum] : expected(persons()))
    EXPECT_TRUE(given.at(name).equal(sum)) << name << given.at(name) << sum;
}

TEST_F(ColumnsInFront, AlsoOfSerializedExamples) {
  ASSERT_TRUE(model_->signature(kServingDefault).takes_examples);
  formats::Example first, second;
  first.features = {{"age", std::vector<float>{10}},
                    {"city", std::vector<std::string>{"Bern"}},
                    {"job", std::vector<std::string>{"cook"}},
                    {"words", std::vector<std::string>{"a", "b"}}};
  second.features = {{"age", std::vector<float>{30}}, {"job", std::vector<std::string>{"smith"}}};
  const Servable::Tensors given = model_->run_examples(
      kServingDefault, {formats::encode_example(first), formats::encode_example(second)});
  const Servable::Tensors same =
      expected(Element::dict({{"age", torch::tensor({10.0F, 30.0F}).unsqueeze(1)},
                              {"city", Strings(std::vector<std::string>{"Bern", ""})},
                              {"words", Strings({2, 2}, {0, 1, 2, 2, 2}, "ab")},
                              {"job", Strings(std::vector<std::string>{"cook", "smith"})}}));
  for (const auto& [name, sum] : same)
    EXPECT_TRUE(given.at(name).equal(sum)) << name << given.at(name) << sum;
}

TEST_F(ColumnsInFront, FeaturesThatDoNotFitAreNamed) {
  EXPECT_THAT(refusal({{"town", Strings(std::vector<std::string>{"a", "b", "c"})}}),
              HasSubstr("the model has no feature 'town'"));
  EXPECT_THAT(refusal({{"city", torch::ones({3}, kInt64)}}),
              HasSubstr("the feature 'city' is int64[3], expected string[-1, 1]"));
  EXPECT_THAT(refusal({{"age", Strings(std::vector<std::string>{"1", "2", "3"})}}),
              HasSubstr("the feature 'age' is string[3], expected float32[-1, 1]"));
  EXPECT_THAT(refusal({{"city", Strings({3, 2}, {0, 1, 2, 3, 4, 5, 6}, "abcdef")}}),
              HasSubstr("takes 1 value of one example for \"city/ids\", and 2 are given"));
  EXPECT_THAT(
      message_of([&] {
        (void)model_->run_features(kServingDefault, Element::dict({{"age", torch::ones({1, 1})}}));
      }),
      HasSubstr("the feature 'city' is missing, string[-1, 1]"));
}

TEST(ServingInputTest, ImpossibleReceiversAreRefused) {
  EXPECT_THAT(
      error_of([] {
        serving_input_receiver(
            {indicator_column(sequence_categorical_column_with_identity("clicks", 5))});
      }).what(),
      HasSubstr("serving_input_receiver: the column 'clicks_indicator' is one of sequences"));
  EXPECT_THAT(error_of([] {
                serving_input_receiver({kAgeBuckets, numeric_column("age", {.shape = {2}})});
              }).what(),
              HasSubstr("'age'"));
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
