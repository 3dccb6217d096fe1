#include "muster/trees/boosted_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/testing/memory_store.h"
#include "muster/trees/internal/test_rows.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::predicted;
using testing::test_rows;
using testing::TestRows;
using testing::trees_config;
using trees::PruningMode;

// A data set of one feature.
Dataset points(const std::vector<float>& x, const std::vector<float>& y) {
  return Dataset::from_tensor_slices(
             Element::tuple({Element::dict({{"x", torch::tensor(x)}}), torch::tensor(y)}))
      .batch(3);
}

TEST(BoostedTreesTest, ALeafIsTheMeanOfItsRows) {
  TempDirectory directory;
  BoostedTreesRegressor model({.n_trees = 1, .max_depth = 1, .learning_rate = 0.5},
                              trees_config(directory.path()));
  const Dataset data = points({1, 2, 3, 4, 5}, {10, 12, 14, 40, 44});
  const TrainResult result = model.train([&] { return data; });
  EXPECT_EQ(result.global_step, 1);
  const trees::Tree tree = model.ensemble().trees.at(0);
  ASSERT_EQ(tree.nodes.size(), 3u);
  EXPECT_EQ(tree.nodes[0].threshold, 3);
  EXPECT_THAT(predicted(model, data, "predictions"),
              ElementsAre(FloatNear(6, 1e-4), FloatNear(6, 1e-4), FloatNear(6, 1e-4),
                          FloatNear(21, 1e-4), FloatNear(21, 1e-4)));
  // 36^2 / 3 + 84^2 / 2 - 120^2 / 5
  EXPECT_NEAR(tree.nodes[0].gain, 432 + 3528 - 2880, 1e-2);
}

TEST(BoostedTreesTest, PenaltiesMakeLeavesSmall) {
  TempDirectory directory;
  BoostedTreesRegressor model({.n_trees = 1,
                               .max_depth = 1,
                               .learning_rate = 1,
                               .l1_regularization = 6,
                               .l2_regularization = 2},
                              trees_config(directory.path()));
  const Dataset data = points({1, 2, 3, 4}, {10, 10, -20, -20});
  model.train([&] { return data; });
  // (20 - 6) / (2 + 2) and (-40 + 6) / (2 + 2)
  EXPECT_THAT(predicted(model, data, "predictions"),
              ElementsAre(FloatNear(3.5, 1e-4), FloatNear(3.5, 1e-4), FloatNear(-8.5, 1e-4),
                          FloatNear(-8.5, 1e-4)));
}

// In a store that fails: the run continues, tries again until the limit, and the last good
// checkpoint stays; what it ends with is what it would have been.
TEST(BoostedTreesTest, SavesThatFailAreTriedAgain) {
  MemoryStore& store = memory_store();
  const std::string dir = "mem://trees/mine";
  const auto train = [&](const std::string& model_dir, const std::vector<int64_t>& failing) {
    store.clear();
    store.set_plan({.fail_from = 0, .only = [failing](const std::string& path) {
                      return std::ranges::find(failing, checkpoint_step(path)) != failing.end();
                    }});
    RunConfig config = trees_config(model_dir);
    config.save_checkpoints_steps = 1;
    BoostedTreesRegressor model({.n_trees = 6, .max_depth = 1}, config);
    model.train([] { return points({1, 2, 3, 4}, {1, 2, 3, 5}); });
    store.set_plan({});
    return predicted(model, points({1, 2, 3, 4}, {0, 0, 0, 0}), "predictions");
  };
  const TempDirectory disk;
  const auto expected = train(disk / "m", {});
  EXPECT_EQ(train(dir, {2, 3, 5}), expected);
  EXPECT_EQ(CheckpointManager(dir).latest(), dir + "/model.ckpt-6");
  const Error error = error_of([&] { train(dir, {2, 3, 4}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("3 saves in a row failed, and no more may"));
  EXPECT_THAT(error.hint(), HasSubstr("RunConfig.max_failed_saves"));
  EXPECT_EQ(CheckpointManager(dir).latest(), dir + "/model.ckpt-1");
  // Neither the first nor the last may fail.
  for (const int64_t step : {1, 6}) {
    EXPECT_THAT(error_of([&] { train(dir, {step}); }).message(),
                HasSubstr("cannot save the checkpoint"));
  }
  store.clear();
}

TEST(BoostedTreesTest, ANodeNeedsItsWeight) {
  TempDirectory directory;
  BoostedTreesRegressor model({.n_trees = 1, .max_depth = 3, .min_node_weight = 3},
                              trees_config(directory.path()));
  model.train([] { return points({1, 2, 3, 4, 5}, {0, 0, 0, 0, 9}); });
  EXPECT_EQ(model.ensemble().trees.at(0).nodes.size(), 1u);
}

TEST(BoostedTreesTest, TheBiasIsThatOfTheMeanLabel) {
  TempDirectory directory;
  const Dataset data = points({1, 1, 1, 1}, {1, 1, 1, 0});
  BoostedTreesClassifier classifier({.n_trees = 1, .center_bias = true},
                                    trees_config(directory / "c"));
  classifier.train([&] { return data; });
  EXPECT_NEAR(classifier.ensemble().bias.at(0), std::log(3.0), 1e-6);
  BoostedTreesRegressor regressor({.n_trees = 1, .center_bias = true},
                                  trees_config(directory / "r"));
  regressor.train([&] { return data; });
  EXPECT_NEAR(regressor.ensemble().bias.at(0), 0.75, 1e-6);
}

// Newton's step from a logit of 0: the gradient of a row is 1/2 - label, its hessian 1/4.
TEST(BoostedTreesTest, TwoClassesTakeNewtonsStep) {
  TempDirectory directory;
  BoostedTreesClassifier model({.n_trees = 1, .max_depth = 1, .learning_rate = 1},
                               trees_config(directory.path()));
  const Dataset data = points({0, 0, 0, 1, 1}, {0, 0, 1, 1, 1});
  model.train([&] { return data; });
  const float low = -2.0F / 3;
  EXPECT_THAT(predicted(model, data, "logits"),
              ElementsAre(FloatNear(low, 1e-4), FloatNear(low, 1e-4), FloatNear(low, 1e-4),
                          FloatNear(2, 1e-4), FloatNear(2, 1e-4)));
  EXPECT_THAT(predicted(model, data, "class_ids"), ElementsAre(0, 0, 0, 1, 1));
  const EvalResult result = model.evaluate([&] { return data; });
  EXPECT_THAT(result.at("accuracy"), DoubleNear(0.8, 1e-6));
  EXPECT_THAT(result.at("precision"), DoubleNear(1, 1e-6));
  EXPECT_THAT(result.at("recall"), DoubleNear(2.0 / 3, 1e-6));
  EXPECT_THAT(result.at("label/mean"), DoubleNear(0.6, 1e-6));
  EXPECT_THAT(result.at("accuracy_baseline"), DoubleNear(0.6, 1e-6));
  EXPECT_THAT(result.at("auc"), DoubleNear(5.0 / 6, 1e-6));
  EXPECT_EQ(result.at("global_step"), 1);
}

// A missing value is of the kind that its labels say.
TEST(BoostedTreesTest, MissingValuesHaveTheirDirection) {
  const float missing = std::nanf("");
  const std::vector<float> x{1, 2, 3, 4, missing, missing};
  for (const bool like_small : {false, true}) {
    TempDirectory directory;
    BoostedTreesRegressor model({.n_trees = 1, .max_depth = 1, .learning_rate = 1},
                                trees_config(directory.path()));
    const float label = like_small ? 1.0F : 9.0F;
    const std::vector<float> y{1, 1, 9, 9, label, label};
    model.train([&] { return points(x, y); });
    const auto said = predicted(model, points(x, y), "predictions");
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(said[i], y[i], 1e-4);
  }
}

TEST(BoostedTreesTest, ACategoryIsAskedByItself) {
  TempDirectory directory;
  const std::vector<float> x{0, 1, 2, 3, 4, 2, 0}, y{0, 0, 8, 0, 0, 8, 0};
  BoostedTreesRegressor model(
      {.n_trees = 1, .max_depth = 1, .learning_rate = 1, .categorical_features = {"x"}},
      trees_config(directory.path()));
  model.train([&] { return points(x, y); });
  const auto said = predicted(model, points({2, 3, 77}, {0, 0, 0}), "predictions");
  EXPECT_THAT(said, ElementsAre(FloatNear(8, 1e-4), FloatNear(0, 1e-4), FloatNear(0, 1e-4)));
}

TEST(BoostedTreesTest, MoreClassesHaveATreeEach) {
  TempDirectory directory;
  const TestRows rows = test_rows(600, 3);
  BoostedTreesClassifier model({.n_classes = 3, .n_trees = 30, .max_depth = 3},
                               trees_config(directory.path()));
  model.train([&] { return rows.dataset(); });
  EXPECT_EQ(model.ensemble().trees.size(), 90u);
  const EvalResult result = model.evaluate([&] { return rows.dataset(); });
  EXPECT_GT(result.at("accuracy"), 0.8);
  EXPECT_LT(result.at("average_loss"), 0.5);
  const auto probabilities = predicted(model, rows.dataset(), "probabilities");
  for (size_t i = 0; i < probabilities.size(); i += 3)
    EXPECT_NEAR(probabilities[i] + probabilities[i + 1] + probabilities[i + 2], 1, 1e-5);
}

TEST(BoostedTreesTest, LabelsMayBeWords) {
  TempDirectory directory;
  const Dataset data = Dataset::from_tensor_slices(
                           Element::tuple({Element::dict({{"x", torch::tensor({1.0, 2.0, 3.0})}}),
                                           Strings({"no", "no", "yes"})}))
                           .batch(2);
  BoostedTreesClassifier model({.label_vocabulary = {"no", "yes"}, .n_trees = 2},
                               trees_config(directory.path()));
  model.train([&] { return data; });
  EXPECT_THAT(predicted(model, data, "class_ids"), ElementsAre(0, 0, 1));
  BoostedTreesClassifier other({.label_vocabulary = {"no", "si"}}, trees_config(directory / "o"));
  EXPECT_THAT(message_of([&] { other.train([&] { return data; }); }),
              AllOf(HasSubstr("row 2 is 'yes'"), HasSubstr("'no', 'si'")));
}

// Pruning takes back what is too weak: at once, or when nothing below it is strong. The first
// question of an exclusive or gains little by itself.
TEST(BoostedTreesTest, PruningBeforeAndAfter) {
  const auto tree_with = [](PruningMode mode) {
    TempDirectory directory;
    std::vector<float> a, b, y;
    for (int i = 0; i < 101; ++i) {
      a.push_back(static_cast<float>(i % 2));
      b.push_back(static_cast<float>(i / 2 % 2));
      y.push_back(a.back() != b.back() ? 1.0F : -1.0F);
    }
    BoostedTreesRegressor model({.n_trees = 1,
                                 .max_depth = 2,
                                 .tree_complexity = mode == PruningMode::kNone ? 0.0 : 10.0,
                                 .pruning_mode = mode},
                                trees_config(directory.path()));
    model.train([&] {
      return Dataset::from_tensor_slices(
                 Element::tuple({Element::dict({{"a", torch::tensor(a)}, {"b", torch::tensor(b)}}),
                                 torch::tensor(y)}))
          .batch(10);
    });
    return model.ensemble().trees.at(0);
  };
  EXPECT_EQ(tree_with(PruningMode::kNone).nodes.size(), 7u);
  EXPECT_EQ(tree_with(PruningMode::kPost).nodes.size(), 7u);
  EXPECT_EQ(tree_with(PruningMode::kPre).nodes.size(), 1u);
}

TEST(BoostedTreesTest, ImportancesAndExplanationsAddUp) {
  TempDirectory directory;
  const TestRows rows = test_rows(500, 2);
  BoostedTreesClassifier model({.weight_column = "weight", .n_trees = 20, .center_bias = true},
                               trees_config(directory.path()));
  model.train([&] { return rows.dataset(); });
  const auto importances = model.feature_importances(/*normalize=*/true);
  ASSERT_EQ(importances.size(), 2u);  // x with its four columns, and kind
  EXPECT_EQ(importances[0].first, "x");
  EXPECT_NEAR(importances[0].second + importances[1].second, 1, 1e-9);
  EXPECT_THAT(model.column_names(), ElementsAre("kind", "x[0]", "x[1]", "x[2]", "x[3]"));
  BoostedTreesPredictions predictions =
      model.predict([&] { return rows.dataset(); }, {.with_explanations = true});
  int64_t seen = 0;
  for (; const auto one = predictions.next(); ++seen) {
    const double sum = one->at("bias").sum().item<double>() + one->at("dfc").sum().item<double>();
    ASSERT_NEAR(sum, one->at("logits").item<double>(), 1e-5);
  }
  EXPECT_EQ(seen, 500);
}

// --- what is refused ---

template <typename Options>
std::string refused(const Options& options, const Dataset& data) {
  TempDirectory directory;
  return message_of([&] {
    BoostedTreesClassifier(options, trees_config(directory.path())).train([&] { return data; });
  });
}
using Classifier = BoostedTreesClassifierOptions;

TEST(BoostedTreesInputTest, OptionsAreChecked) {
  const Dataset data = points({1, 2}, {0, 1});
  EXPECT_THAT(refused(Classifier{.n_classes = 1}, data), HasSubstr("n_classes"));
  EXPECT_THAT(refused(Classifier{.n_trees = 0}, data), HasSubstr("n_trees"));
  EXPECT_THAT(refused(Classifier{.max_depth = 17}, data), HasSubstr("from 1 to 16"));
  EXPECT_THAT(refused(Classifier{.learning_rate = 0}, data), HasSubstr("learning_rate"));
  EXPECT_THAT(refused(Classifier{.l2_regularization = -1}, data),
              HasSubstr("l2_regularization of a boosted trees model is -1"));
  EXPECT_THAT(refused(Classifier{.tree_complexity = 1}, data), HasSubstr("tree_complexity 1"));
  EXPECT_THAT(refused(Classifier{.pruning_mode = PruningMode::kPost}, data),
              HasSubstr("tree_complexity 0"));
  EXPECT_THAT(refused(Classifier{.n_classes = 3, .center_bias = true}, data),
              HasSubstr("center_bias with n_classes = 3"));
  EXPECT_THAT(refused(Classifier{.label_vocabulary = {"a"}}, data), HasSubstr("1 entries for 2"));
}

TEST(BoostedTreesInputTest, LabelsAreChecked) {
  const Classifier options;
  EXPECT_THAT(refused(options, points({1, 2, 3, 4}, {0, 1, 1, 2})),
              HasSubstr("the label of row 3 is 2; it must be a whole number from 0 to 1"));
  EXPECT_THAT(refused(options, points({1, 2}, {0, 0.5})), HasSubstr("row 1 is 0.5"));
  EXPECT_THAT(refused(options, points({1, 2}, {-1, 0})), HasSubstr("row 0 is -1"));
  EXPECT_THAT(refused(options, points({1, 2}, {0, std::nanf("")})), HasSubstr("row 1 is nan"));
  const Dataset alone =
      Dataset::from_tensor_slices(Element::dict({{"x", torch::zeros({3})}})).batch(3);
  EXPECT_THAT(refused(options, alone), HasSubstr("no labels"));
}

TEST(BoostedTreesInputTest, FeaturesAreChecked) {
  const Tensor y = torch::zeros({4});
  const auto with = [&](const Element& features) {
    return Dataset::from_tensor_slices(Element::tuple({features, y})).batch(2);
  };
  EXPECT_THAT(refused(Classifier(), with(torch::zeros({4}))), HasSubstr("features by name"));
  EXPECT_THAT(refused(Classifier(), with(Element::dict({{"s", Strings({"a", "b", "c", "d"})}}))),
              HasSubstr("'s' is string[2]"));
  EXPECT_THAT(refused(Classifier(), with(Element::dict({{"x", torch::zeros({4, 2, 2})}}))),
              HasSubstr("'x' is float32[2, 2, 2]"));
  const Dataset data = with(Element::dict({{"x", y}, {"w", torch::tensor({1.0, 1.0, -1.0, 1.0})}}));
  EXPECT_THAT(refused(Classifier{.weight_column = "w"}, data),
              HasSubstr("the weight of row 2 in 'w' is -1"));
  EXPECT_THAT(refused(Classifier{.weight_column = "v"}, data),
              HasSubstr("the input has no weight_column 'v'; it has 'w', 'x'"));
  EXPECT_THAT(refused(Classifier{.weight_column = "x"}, data), HasSubstr("no rows whose weight"));
  EXPECT_THAT(refused(Classifier{.feature_names = {"z"}}, data), HasSubstr("no feature 'z'"));
  EXPECT_THAT(refused(Classifier{.categorical_features = {"z"}}, data),
              HasSubstr("no categorical feature 'z'"));
  EXPECT_THAT(refused(Classifier{.weight_column = "w"}, with(Element::dict({{"w", y}}))),
              HasSubstr("no features"));
  EXPECT_THAT(refused(Classifier(), data.repeat()), HasSubstr("never ends"));
  EXPECT_THAT(refused(Classifier(), data.take(0)), HasSubstr("no data"));
}

TEST(BoostedTreesInputTest, APredictionNeedsTheFeaturesOfTheTrees) {
  TempDirectory directory;
  const TestRows rows = test_rows(100, 0);
  BoostedTreesRegressor model({.n_trees = 2}, trees_config(directory.path()));
  EXPECT_EQ(error_of([&] { model.ensemble(); }).kind(), ErrorKind::kNotFound);
  model.train([&] { return rows.dataset(); });
  const Dataset lacking =
      Dataset::from_tensor_slices(Element::dict({{"kind", rows.kind}, {"y", rows.label}})).batch(9);
  EXPECT_THAT(message_of([&] { predicted(model, lacking, "predictions"); }),
              AllOf(HasSubstr("no feature 'weight'"), HasSubstr("'kind', 'y'")));
  // Trees of other features, or of other logits, are not a beginning.
  BoostedTreesRegressor more({.n_trees = 3}, trees_config(directory.path()));
  EXPECT_THAT(message_of([&] { more.train([&] {
                                 return points({1, 2}, {0, 1});
                               }); }),
              AllOf(HasSubstr("'kind'"), HasSubstr("'x'")));
  BoostedTreesClassifier classes({.n_classes = 3}, trees_config(directory.path()));
  EXPECT_THAT(message_of([&] { classes.train([&] { return rows.dataset(); }); }),
              HasSubstr("for 1 logits; those of this model are \"softmax\" and 3"));
}

TEST(BoostedTreesInputTest, TreesOfAnotherModelAreRefused) {
  TempDirectory directory;
  const Dataset data = points({1, 2, 3, 4}, {0, 0, 1, 1});
  BoostedTreesClassifier two({.n_trees = 1}, trees_config(directory.path()));
  two.train([&] { return data; });
  BoostedTreesRegressor number({.n_trees = 2}, trees_config(directory.path()));
  BoostedTreesClassifier three({.n_classes = 3}, trees_config(directory.path()));
  const auto refused = HasSubstr("holds trees of the objective \"logistic\" for 1 logits");
  EXPECT_THAT(error_of([&] { number.train([&] { return data; }); }).message(), refused);
  EXPECT_THAT(error_of([&] { number.evaluate([&] { return data; }); }).message(), refused);
  EXPECT_THAT(error_of([&] { three.evaluate([&] { return data; }); }).message(), refused);
}

TEST(BoostedTreesInputTest, ColumnsHaveNamesOfTheirOwn) {
  TempDirectory directory;
  const auto with = [](const char* other) {
    return Dataset::from_tensor_slices(
               Element::tuple({Element::dict({{"x", torch::zeros({4, 2})},
                                              {other, torch::tensor({0.f, 0.f, 1.f, 1.f})}}),
                               torch::tensor({1.f, 1.f, 5.f, 5.f})}))
        .batch(4);
  };
  BoostedTreesRegressor model({.n_trees = 1, .categorical_features = {"job[C]"}},
                              trees_config(directory.path()));
  EXPECT_THAT(error_of([&] { model.train([&] { return with("x[0]"); }); }).message(),
              HasSubstr("two columns of the input are called 'x[0]'"));
  model.train([&] { return with("job[C]"); });
  EXPECT_THAT(model.column_names(), ElementsAre("job[C]", "x[0]", "x[1]"));
}

TEST(BoostedTreesInputTest, ALossThatGrowsWithoutEndIsToldOf) {
  TempDirectory directory;
  BoostedTreesRegressor model({.n_trees = 500, .max_depth = 1, .learning_rate = 100},
                              trees_config(directory.path()));
  const Error error = error_of([&] {
    model.train([] { return points({1, 2, 3, 4}, {1, 1, 5, 5}); });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.hint(), HasSubstr("a smaller learning_rate"));
}

TEST(BoostedTreesInputTest, WhatTreesHaveNotIsRefused) {
  RunConfig config = trees_config("unused");
  config.accumulate_steps = 2;
  EXPECT_THAT(message_of([&] { BoostedTreesRegressor({}, config); }),
              HasSubstr("accumulate_steps"));
}

}  // namespace
}  // namespace muster::inline v0_1
