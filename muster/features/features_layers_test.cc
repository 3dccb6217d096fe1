// DenseFeatures and LinearModel: invariants between them, names, and which rows of a table they
// use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/internal/test_features.h"
#include "muster/features/linear_model.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1::feature_column {
namespace {

using testing::Calls;
using testing::dict;
using ::testing::ElementsAre;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::ragged;

const FeatureColumn kWords = categorical_column_with_identity("w", 6);
const FeatureColumn kWeighted = weighted_categorical_column(kWords, "f");

// Two words, none, an unknown one with 3, and 3 three times.
Features sentences() {
  return Features(dict({ragged<int64_t>("w", {{1, 4}, {}, {-5, 3}, {3, 3, 3}}),
                        ragged<float>("f", {{2, -1}, {}, {1, 0.5f}, {1, 2, 0}})}));
}

TEST(LayersOfColumnsTest, ColumnsAreJoinedInTheOrderOfTheirNames) {
  const DenseFeatures layer({numeric_column("b", {.shape = {2}}), indicator_column(kWords),
                             bucketized_column(numeric_column("a"), {0})});
  EXPECT_EQ(layer.width(), 2 + 2 + 6);
  Calls calls;
  const Features features(Element::dict({{"a", floats({-1, 1}, {2})},
                                         {"b", floats({1, 2, 3, 4}, {2, 2})},
                                         {"w", ints({0, 5}, {2})}}));
  expect_equal(layer(features, calls.context), floats({1, 0, 1, 2, 1, 0, 0, 0, 0, 0,  //
                                                       0, 1, 3, 4, 0, 0, 0, 0, 0, 1},
                                                      {2, 10}));
}

TEST(LayersOfColumnsTest, ResolvedFeaturesAreTakenAsTheyAre) {
  const std::vector<FeatureColumn> columns{embedding_column(kWeighted, 3), numeric_column("x")};
  const DenseFeatures layer(columns);
  Features raw = sentences();
  raw = Features(dict({{{"x", floats({1, 2, 3, 4}, {4})},
                        {"w", raw.element().at("w")},
                        {"w/row_lengths", raw.element().at("w/row_lengths")},
                        {"f", raw.element().at("f")},
                        {"f/row_lengths", raw.element().at("f/row_lengths")}}}));
  const Features resolved(resolve(columns)(raw.element()));
  Calls calls;
  expect_equal(layer(resolved, calls.context), layer(raw, calls.context));
  EXPECT_EQ(layer(resolved, calls.context).sizes(), at::IntArrayRef({4, 4}));
}

TEST(LayersOfColumnsTest, ALinearModelIsAnIndicatorTimesItsWeights) {
  for (const FeatureColumn& column : {kWords, kWeighted}) {
    Calls calls;
    const Tensor weights = torch::arange(18, kFloat32).reshape({6, 3}).sin();
    calls.store.set["linear_model/" + column.name() + "/weights"] = weights;
    const Tensor counts = DenseFeatures({indicator_column(column)})(sentences(), calls.context);
    expect_close(LinearModel({column}, {.units = 3})(sentences(), calls.context).detach(),
                 counts.matmul(weights));
  }
}

TEST(LayersOfColumnsTest, CombinersFollowTheirFormulas) {
  Calls calls;
  const Tensor table = torch::arange(12, kFloat32).reshape({6, 2}).cos();
  calls.store.set["dense_features/w_embedding/embedding_weights"] = table;
  calls.store.set["dense_features_1/w_embedding/embedding_weights"] = table;
  calls.store.set["dense_features_2/w_embedding/embedding_weights"] = table;
  const auto zero = torch::zeros({2});
  const auto of = [&](const FeatureColumn& column, Combiner combiner) {
    return DenseFeatures({embedding_column(column, 2, {.combiner = combiner})})(sentences(),
                                                                                calls.context)
        .detach();
  };
  const Tensor pair = table[1] + table[4];
  expect_close(of(kWords, Combiner::kSum), torch::stack({pair, zero, table[3], table[3] * 3}));
  expect_close(of(kWords, Combiner::kMean), torch::stack({pair / 2, zero, table[3], table[3]}));
  expect_close(of(kWords, Combiner::kSqrtn),
               torch::stack({pair / std::sqrt(2), zero, table[3], table[3] * std::sqrt(3)}));
}

TEST(LayersOfColumnsTest, WeightsThatAreNotAboveZeroCountInSumsAlone) {
  Calls calls;
  const Tensor table = torch::arange(12, kFloat32).reshape({6, 2}).cos();
  const auto of = [&](Combiner combiner, const char* layer) {
    calls.store.set[std::string(layer) + "/w_weighted_by_f_embedding/embedding_weights"] = table;
    return DenseFeatures({embedding_column(kWeighted, 2, {.combiner = combiner})})(sentences(),
                                                                                   calls.context)
        .detach();
  };
  const auto zero = torch::zeros({2});
  expect_close(of(Combiner::kSum, "dense_features"),
               torch::stack({table[1] * 2 - table[4], zero, table[3] * 0.5, table[3] * 3}));
  expect_close(of(Combiner::kMean, "dense_features_1"),
               torch::stack({table[1], zero, table[3], table[3]}));
  expect_close(of(Combiner::kSqrtn, "dense_features_2"),
               torch::stack({table[1], zero, table[3], table[3] * (3 / std::sqrt(5))}));
}

TEST(LayersOfColumnsTest, LongRowsAreShortenedBeforeTheyAreCombined) {
  Calls calls;
  calls.store.set["dense_features/w_embedding/embedding_weights"] =
      floats({0, 0, 3, 4, 0, 0, 0.3, 0.4, 0, 10, 0, 0}, {6, 2});
  const Tensor given =
      DenseFeatures({embedding_column(kWords, 2, {.combiner = Combiner::kSum, .max_norm = 1})})(
          sentences(), calls.context);
  expect_close(given.detach(), floats({0.6, 1.8, 0, 0, 0.3, 0.4, 0.9, 1.2}, {4, 2}));
  // A single word for each example takes another path of the code.
  const Features single(Element::dict({{"w", ints({1, 3}, {2})}}));
  Calls again;
  again.store.set = calls.store.set;
  expect_close(
      DenseFeatures({embedding_column(kWords, 2, {.max_norm = 1})})(single, again.context).detach(),
      floats({0.6, 0.8, 0.3, 0.4}, {2, 2}));
}

// The ids of rows that a step used, without -1 and missing ones.
std::vector<int64_t> used_rows(const Variable& table) {
  EXPECT_TRUE(table.spec().row_sparse) << table.name();
  std::vector<int64_t> used;
  for (const auto& use : table.row_uses()) {
    const Tensor ids = use.ids.contiguous();
    used.insert(used.end(), ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel());
  }
  return used;
}

TEST(LayersOfColumnsTest, AStepUsesTheRowsOfItsIdsAlone) {
  Calls calls;
  (LinearModel({kWords})(sentences(), calls.context) +
   DenseFeatures({embedding_column(kWords, 1)})(sentences(), calls.context))
      .sum()
      .backward();
  EXPECT_THAT(used_rows(*calls.store.find("linear_model/w/weights")), ElementsAre(1, 3, 4));
  EXPECT_THAT(used_rows(*calls.store.find("dense_features/w_embedding/embedding_weights")),
              ElementsAre(1, 3, 4));
  expect_close(calls.store.find("linear_model/w/weights")->row_uses()[0].rows.grad(),
               floats({1, 4, 1}, {3, 1}));
}

// The gradients of one operation for all columns, compared with those of products with whole
// tables; for one unit and for several, and if gradients have gradients themselves.
TEST(LayersOfColumnsTest, ALinearModelHasTheGradientsOfProducts) {
  const auto narrow = numeric_column("n", {.shape = {2}});
  const auto wide = numeric_column("x", {.shape = {20}});
  for (const int64_t units : {1, 3}) {
    for (const bool again : {false, true}) {
      Calls calls;
      for (const auto& [name, rows] :
           std::vector<std::pair<std::string, int64_t>>{{"w/weights", 6},
                                                        {"w_weighted_by_f/weights", 6},
                                                        {"n/weights", 2},
                                                        {"x/weights", 20}}) {
        calls.store.set["linear_model/" + name] =
            torch::arange(rows * units, kFloat32).reshape({rows, units}).sin();
      }
      const Tensor two = torch::arange(8, kFloat32).reshape({4, 2}).sin();
      const Tensor twenty = torch::arange(80, kFloat32).reshape({4, 20}).cos();
      const Element words = sentences().element();
      std::vector<std::pair<std::string, Element>> all{{"n", two}, {"x", twenty}};
      for (const std::string key : {"w", "w/row_lengths", "f", "f/row_lengths"})
        all.emplace_back(key, words.at(key));
      const Features features(Element::dict(all));
      const Tensor logits =
          LinearModel({kWords, kWeighted, narrow, wide}, {.units = units})(features, calls.context);
      const auto rows_of = [&](const std::string& column) {
        return calls.store.find("linear_model/" + column + "/weights")->row_uses().at(0).rows;
      };
      const auto of = [&](const std::string& name) {
        return calls.store.find("linear_model/" + name)->value();
      };
      const std::vector<Tensor> leaves{rows_of("w"), rows_of("w_weighted_by_f"), of("n/weights"),
                                       of("x/weights"), of("bias_weights")};
      const Tensor scale = torch::ones({4, 1}).requires_grad_();
      const Tensor loss = (logits.sigmoid() * scale).square().sum();
      const auto gradients = torch::autograd::grad({loss}, leaves, {}, again, again);

      // Every column is a matrix; of a table the rows that were used are its columns.
      const Tensor used = torch::tensor({1, 3, 4}, kInt64);
      const auto counts = [&](const FeatureColumn& column) {
        return DenseFeatures({indicator_column(column)})(features, calls.context)
            .index_select(1, used);
      };
      const std::vector<Tensor> matrices{counts(kWords), counts(kWeighted), two, twenty,
                                         torch::ones({4, 1})};
      std::vector<Tensor> copies;
      Tensor expected = torch::zeros({4, units});
      for (size_t i = 0; i < leaves.size(); ++i) {
        copies.push_back(leaves[i].detach().clone().requires_grad_());
        expected = expected + matrices[i].matmul(copies[i].reshape({-1, units}));
      }
      expect_close(logits.detach(), expected.detach());
      const Tensor same = torch::ones({4, 1}).requires_grad_();
      const auto expected_gradients = torch::autograd::grad(
          {(expected.sigmoid() * same).square().sum()}, copies, {}, again, again);
      for (size_t i = 0; i < leaves.size(); ++i)
        expect_close(gradients[i].detach(), expected_gradients[i].detach());
      if (!again) continue;
      const auto squares = [](const std::vector<Tensor>& all_of_them) {
        Tensor sum;
        for (const Tensor& one : all_of_them)
          sum = sum.defined() ? sum + one.square().sum() : one.square().sum();
        return sum;
      };
      expect_close(torch::autograd::grad({squares(gradients)}, {scale})[0],
                   torch::autograd::grad({squares(expected_gradients)}, {same})[0]);
    }
  }
}

TEST(LayersOfColumnsTest, SharedColumnsLearnOneTable) {
  const auto x = categorical_column_with_identity("x", 4);
  const auto y = categorical_column_with_identity("y", 4);
  const auto shared = shared_embeddings({y, x}, 2);
  EXPECT_EQ(shared[0].name(), "y_shared_embedding");
  Calls calls;
  const DenseFeatures layer(shared, {.name = "input_layer"});
  const Features features(Element::dict({{"x", ints({2, 3}, {2})}, {"y", ints({3, 0}, {2})}}));
  const Tensor given = layer(features, calls.context);
  EXPECT_THAT(calls.store.names(),
              ElementsAre("input_layer/x_y_shared_embedding/embedding_weights"));
  const Tensor table = calls.store.value("input_layer/x_y_shared_embedding/embedding_weights");
  expect_equal(given.detach(),
               torch::stack({torch::cat({table[2], table[3]}), torch::cat({table[3], table[0]})}));
  const auto other =
      shared_embeddings({categorical_column_with_identity("z", 4)}, 3,
                        {.shared_embedding_collection_name = "x_y_shared_embedding"});
  EXPECT_THAT(message_of([&] {
                DenseFeatures({shared[0], other[0]});
              }),
              HasSubstr("'y_shared_embedding' and 'z_shared_embedding' share the table "
                        "'x_y_shared_embedding/embedding_weights', which is 4 by 2 for one and 4 "
                        "by 3 for the other"));
}

TEST(LayersOfColumnsTest, VariablesAreNamedAsInTensorFlow) {
  Calls calls;
  const std::string linear = "linear", dnn = "dnn/input_from_feature_columns";
  const auto age = numeric_column("age", {.shape = {2}});
  const Features features(Element::dict({{"age", floats({1, 2}, {1, 2})}, {"w", ints({2}, {1})}}));
  {
    const CallContext::Scope scope(calls.context, linear);
    LinearModel({kWords, age, indicator_column(kWords), embedding_column(kWords, 3)}, {.units = 2})(
        features, calls.context);
  }
  {
    const CallContext::Scope scope(calls.context, dnn);
    DenseFeatures({embedding_column(kWords, 3)}, {.name = "input_layer"})(features, calls.context);
  }
  EXPECT_THAT(
      calls.store.names(),
      ElementsAre("linear/linear_model/age/weights", "linear/linear_model/w/weights",
                  "linear/linear_model/w_embedding/embedding_weights",
                  "linear/linear_model/w_embedding/weights",
                  "linear/linear_model/w_indicator/weights", "linear/linear_model/bias_weights",
                  "dnn/input_from_feature_columns/input_layer/w_embedding/embedding_weights"));
  EXPECT_EQ(calls.store.value("linear/linear_model/age/weights").sizes(), at::IntArrayRef({2, 2}));
}

TEST(LayersOfColumnsTest, ColumnsAndLayersThatDoNotTrain) {
  const auto fixed = embedding_column(kWords, 2, {.trainable = false});
  for (const bool by_column : {true, false}) {
    Calls calls;
    const DenseFeatures layer({by_column ? fixed : embedding_column(kWords, 2)},
                              {.trainable = by_column});
    EXPECT_FALSE(layer(sentences(), calls.context).requires_grad());
  }
  Calls calls;
  LinearModel({kWords}, {.trainable = false})(sentences(), calls.context);
  for (const auto& variable : calls.store.variables()) {
    EXPECT_FALSE(variable->spec().trainable) << variable->name();
  }
}

TEST(LayersOfColumnsTest, ATableCanBeginWithThatOfACheckpoint) {
  const TempDirectory directory;
  const std::string path = directory / "words.safetensors";
  const Tensor table = torch::arange(12, kFloat32).reshape({6, 2});
  Checkpoint saved;
  saved.tensors["words"] = table;
  write_checkpoint(local_file_system(), path, saved);
  const auto from = [&](int64_t dimension, const std::string& name) {
    Calls calls;
    DenseFeatures({embedding_column(kWords, dimension,
                                    {.ckpt_to_load_from = path, .tensor_name_in_ckpt = name})})(
        sentences(), calls.context);
    return calls.store.value("dense_features/w_embedding/embedding_weights");
  };
  expect_equal(from(2, "words"), table);
  const Error near = error_of([&] { from(2, "word"); });
  EXPECT_THAT(near.message(), HasSubstr("it has 'words'"));
  EXPECT_EQ(near.hint(), "did you mean 'words'?");
  EXPECT_EQ(error_of([&] { from(2, "bias"); }).hint(), "tensor_name_in_ckpt is one of them");
  EXPECT_THAT(message_of([&] { from(3, "words"); }), HasSubstr("is float32[6, 2]"));
}

TEST(LayersOfColumnsTest, TheyAreTheFirstLayerOfASequential) {
  const DenseFeatures columns({embedding_column(kWords, 4)});
  const Layer net = Sequential({columns, Dense(2)});
  Calls calls;
  EXPECT_EQ(net(columns.inputs(sentences()), calls.context).tensors[0].sizes(),
            at::IntArrayRef({4, 2}));
  EXPECT_THAT(message_of([&] { net(LayerInputs{.tensors = {}}, calls.context); }),
              HasSubstr("layer dense_features: expected 1 tensors, was given 0"));
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
