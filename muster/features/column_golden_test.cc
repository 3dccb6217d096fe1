// Columns give TensorFlow's numbers. Values come with the data, not with the sources.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/internal/test_features.h"
#include "muster/features/linear_model.h"

namespace muster::inline v0_1::feature_column {
namespace {

using nlohmann::json;
using testing::Calls;
using testing::dict;
using testing::expect_close;
using testing::floats;
using testing::ids_of;
using testing::ints;
using testing::ragged;
using testing::texts;

class GoldenColumnsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("MUSTER_TEST_DATA");
    if (data == nullptr) GTEST_SKIP() << "set MUSTER_TEST_DATA to a folder beside golden values";
    std::ifstream file(std::filesystem::path(data) / ".." / "golden" / "estimator_golden.json");
    if (!file) GTEST_SKIP() << "there is no golden/estimator_golden.json beside MUSTER_TEST_DATA";
    const json all = json::parse(file);
    for (const json& each : all.at("cases")) cases_[each.at("id")] = each;
  }

  const json& get(const std::string& id) {
    EXPECT_TRUE(cases_.contains(id)) << id;
    return cases_[id];
  }

 private:
  std::map<std::string, json> cases_;
};

Tensor matrix(const json& rows) {
  std::vector<double> all;
  for (const json& row : rows)
    for (const double value : row) all.push_back(value);
  return floats(all, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())});
}

Tensor column_of(const std::vector<double>& values) {
  return floats(values, {static_cast<int64_t>(values.size()), 1});
}

std::vector<int64_t> flat_ids(const Tensor& ids) {
  const Tensor present = ids.masked_select(ids.ge(0));
  return {present.data_ptr<int64_t>(), present.data_ptr<int64_t>() + present.numel()};
}

// Puts (indices, values) of a sparse tensor into rows.
template <typename T>
testing::Entries from_sparse(const std::string& key, const json& indices, const json& values,
                             size_t count) {
  std::vector<std::vector<T>> rows(count);
  for (size_t i = 0; i < values.size(); ++i) {
    rows[indices[i][0].get<size_t>()].push_back(values[i].get<T>());
  }
  return ragged(key, rows);
}

TEST_F(GoldenColumnsTest, Buckets) {
  const json& golden = get("fc_bucketize_linear");
  const auto price = bucketized_column(numeric_column("price", {.shape = {2}}),
                                       golden["inputs"]["boundaries"].get<std::vector<double>>());
  const Features features(Element::dict({{"price", matrix(golden["inputs"]["price"])}}));
  for (const char* bias : {"0", "1"}) {
    Calls calls;
    calls.store.set["linear_model/price_bucketized/weights"] =
        column_of(golden["initial_state"]["weights"].get<std::vector<double>>());
    calls.store.set["linear_model/bias_weights"] = floats({std::stod(bias)}, {1});
    expect_close(LinearModel({price})(features, calls.context),
                 matrix(golden["expected"][std::string("predictions_bias") + bias]));
  }
}

TEST_F(GoldenColumnsTest, Hashes) {
  const json& golden = get("fc_hash_4");
  const auto column = categorical_column_with_hash_bucket(
      "name", golden["inputs"]["hash_bucket_size"].get<int64_t>());
  const Strings names(golden["inputs"]["values"].get<std::vector<std::string>>());
  EXPECT_EQ(flat_ids(ids_of(column, Element::dict({{"name", names}}))),
            golden["expected"]["ids"].get<std::vector<int64_t>>());
}

TEST_F(GoldenColumnsTest, Crosses) {
  const json& inputs = get("fc_cross_nested")["inputs"];
  // "cA | cB cC" is a row of one text, and one of two.
  const auto rows_of = [&](const char* key) {
    std::vector<std::vector<std::string>> rows(1);
    std::istringstream words(inputs[key][0].get<std::string>());
    for (std::string word; words >> word;) {
      if (word == "|") {
        rows.emplace_back();
      } else {
        rows.back().push_back(word);
      }
    }
    return ragged(key, rows);
  };
  const auto a = bucketized_column(numeric_column("a", {.shape = {2}}),
                                   inputs["a_boundaries"].get<std::vector<double>>());
  const auto crossed = crossed_column({a, "c", crossed_column({"d1", "d2"}, 10)},
                                      inputs["hash_bucket_size"].get<int64_t>(),
                                      {.hash_key = inputs["hash_key"].get<uint64_t>()});
  EXPECT_EQ(crossed.name(), "a_bucketized_X_c_X_d1_X_d2");
  const Tensor ids = ids_of(
      crossed, dict({{{"a", matrix(inputs["a"])}}, rows_of("c"), rows_of("d1"), rows_of("d2")}));
  const json& expected = get("fc_cross_nested")["expected"];
  EXPECT_EQ(ids.sizes().vec(), expected["dense_shape"].get<std::vector<int64_t>>());
  EXPECT_EQ(flat_ids(ids), expected["ids"].get<std::vector<int64_t>>());
}

TEST_F(GoldenColumnsTest, UnknownWordsOfAVocabulary) {
  const json& golden = get("fc_vocab_oov");
  const auto column = categorical_column_with_vocabulary_list(
      "name", golden["inputs"]["vocab"].get<std::vector<std::string>>(),
      {.num_oov_buckets = golden["inputs"]["num_oov_buckets"].get<int64_t>()});
  const Strings names(golden["inputs"]["values"].get<std::vector<std::string>>());
  EXPECT_EQ(flat_ids(ids_of(column, Element::dict({{"name", names}}))),
            golden["expected"]["ids"].get<std::vector<int64_t>>());
}

TEST_F(GoldenColumnsTest, IdentityOfOthers) {
  const json& golden = get("fc_identity_default");
  const auto column = categorical_column_with_identity(
      "id", golden["inputs"]["num_buckets"].get<int64_t>(),
      {.default_value = golden["inputs"]["default_value"].get<int64_t>()});
  std::vector<std::vector<int64_t>> rows;
  for (const int64_t value : golden["inputs"]["values"]) rows.push_back({value});
  EXPECT_EQ(flat_ids(ids_of(column, dict({ragged("id", rows)}))),
            golden["expected"]["ids"].get<std::vector<int64_t>>());
}

TEST_F(GoldenColumnsTest, IndicatorsOfWeights) {
  const json& golden = get("fc_indicator_weighted");
  const auto ids = categorical_column_with_vocabulary_list(
      "ids", golden["inputs"]["vocab"].get<std::vector<std::string>>());
  const DenseFeatures layer({indicator_column(weighted_categorical_column(ids, "weights"))});
  for (const char* number : {"1", "2"}) {
    const auto words = golden["inputs"][std::string("ids") + number][0];
    const Features features(
        Element::dict({{"ids", texts(words.get<std::vector<std::string>>(),
                                     {1, static_cast<int64_t>(words.size())})},
                       {"weights", matrix(golden["inputs"][std::string("w") + number])}}));
    Calls calls;
    expect_close(layer(features, calls.context),
                 matrix(golden["expected"][std::string("dense") + number]));
  }
}

TEST_F(GoldenColumnsTest, LinearModelOfWeights) {
  const json& golden = get("fc_weighted_linear");
  const json& inputs = golden["inputs"];
  const auto column =
      weighted_categorical_column(categorical_column_with_identity("ids", 3), "values");
  const Features features(
      dict({from_sparse<int64_t>("ids", inputs["indices"], inputs["ids"], 2),
            from_sparse<float>("values", inputs["indices"], inputs["weights"], 2)}));
  Calls calls;
  calls.store.set["linear_model/ids_weighted_by_values/weights"] =
      column_of(golden["initial_state"]["w"].get<std::vector<double>>());
  expect_close(LinearModel({column})(features, calls.context),
               matrix(golden["expected"]["predictions"]));
}

TEST_F(GoldenColumnsTest, LinearModelsOfAnEstimator) {
  const json& sqrtn = get("lin_reg_sparse_combiner_sqrtn");
  const json& language = sqrtn["inputs"]["features"]["language"];
  const auto column = categorical_column_with_vocabulary_list("language", {"a", "b", "c"});
  const Features features(dict(
      {from_sparse<std::string>("language", language["indices"], language["sparse_values"], 2)}));
  const json& state = sqrtn["initial_state"]["checkpoint"];
  Calls calls;
  calls.store.set["linear/linear_model/language/weights"] =
      matrix(state["linear/linear_model/language/weights"]);
  calls.store.set["linear/linear_model/bias_weights"] =
      floats(state["linear/linear_model/bias_weights"].get<std::vector<double>>(), {1});
  const std::string scope_name = "linear";
  const CallContext::Scope scope(calls.context, scope_name);
  expect_close(
      LinearModel({column}, {.sparse_combiner = Combiner::kSqrtn})(features, calls.context),
      matrix(sqrtn["expected"]["predictions"]));
}

TEST_F(GoldenColumnsTest, LinearModelsOfSeveralUnits) {
  const json& golden = get("lin_logit_fn");
  const Features features(Element::dict({{"age", matrix(golden["inputs"]["features"]["age"])}}));
  const LinearModel model({numeric_column("age")}, {.units = 2});
  Calls calls;
  expect_close(model(features, calls.context), matrix(golden["expected"]["at_init"]));
  torch::NoGradGuard no_grad;
  calls.store.find("linear_model/bias_weights")->value() =
      floats(golden["initial_state"]["bias"].get<std::vector<double>>(), {2});
  expect_close(model(features, calls.context), matrix(golden["expected"]["bias_only"]));
  calls.store.find("linear_model/age/weights")->value() =
      matrix(golden["initial_state"]["age_weights"]);
  expect_close(model(features, calls.context), matrix(golden["expected"]["bias_and_weights"]));
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
