#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/trees/boosted_trees.h"
#include "muster/trees/internal/test_rows.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::predicted;
using testing::test_rows;
using testing::TestRows;
using testing::trees_config;

ServingInputReceiver receiver() {
  return raw_serving_input_receiver(
      {{"x", {.dtype = kFloat32, .shape = {4}, .may_be_missing = true}}, {"kind", {kInt64, {}}}});
}

// What the exported model says of these rows.
Servable::Tensors served(const Servable& model, const TestRows& rows,
                         const std::string& signature = "predict") {
  return model.run(signature, {{"x", rows.x}, {"kind", rows.kind}});
}

void expect_same(const Tensor& given, const std::vector<float>& expected) {
  const Tensor flat = given.to(kFloat32).reshape({-1}).contiguous();
  ASSERT_EQ(flat.numel(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(flat.data_ptr<float>()[i], expected[i], 1e-5) << i;
}

// The rows have missing values and categories.
TEST(ExportTreesTest, SaysWhatTheTreesSay) {
  for (const int64_t classes : {0, 2, 3}) {
    const TempDirectory directory;
    const TestRows rows = test_rows(200, classes);
    std::unique_ptr<BoostedTrees> model;
    if (classes == 0) {
      model = std::make_unique<BoostedTreesRegressor>(
          BoostedTreesRegressorOptions{.weight_column = "weight",
                                       .n_trees = 5,
                                       .max_depth = 4,
                                       .center_bias = true,
                                       .categorical_features = {"kind"}},
          trees_config(directory / "m"));
    } else {
      model = std::make_unique<BoostedTreesClassifier>(
          BoostedTreesClassifierOptions{.n_classes = classes,
                                        .weight_column = "weight",
                                        .n_trees = 5,
                                        .max_depth = 4,
                                        .categorical_features = {"kind"}},
          trees_config(directory / "m"));
    }
    EXPECT_THAT(error_of([&] { (void)model->export_model(directory / "e", receiver()); }).what(),
                HasSubstr("NotFound"));
    model->train([&] { return rows.dataset(); });
    const auto path = model->export_model(directory / "e", receiver());
    ASSERT_TRUE(path.has_value());
    const Servable served_model(*path);
    EXPECT_EQ(served_model.global_step(), 5 * 4);
    EXPECT_TRUE(served_model.signature("predict").may_be_missing.contains("x"));
    const Servable::Tensors all = served(served_model, test_rows(77, classes, 9));
    const Dataset others = test_rows(77, classes, 9).dataset();
    for (const auto& [key, values] : all) expect_same(values, predicted(*model, others, key));
    EXPECT_EQ(all.size(), classes == 0 ? 1u : classes == 2 ? 5u : 4u);
    EXPECT_EQ(served_model.signatures().count("regression"), classes == 3 ? 0u : 1u);
    EXPECT_EQ(served_model.signature(kServingDefault).method,
              classes == 0 ? SignatureMethod::kRegress : SignatureMethod::kClassify);
  }
}

TEST(ExportTreesTest, ClassesHaveTheirNames) {
  const TempDirectory directory;
  BoostedTreesClassifier model(
      {.label_vocabulary = {"no", "yes"}, .n_trees = 1, .max_depth = 1, .feature_names = {"x"}},
      trees_config(directory / "m"));
  model.train([] { return test_rows(50, 2).dataset(); });
  const auto path =
      model.export_model(directory / "e", raw_serving_input_receiver({{"x", {kFloat32, {4}}}}));
  EXPECT_EQ(Servable(*path).signature("classification").classes,
            (std::vector<std::string>{"no", "yes"}));
}

TEST(ExportTreesTest, TheReceiverHasTheFeaturesOfTheTrees) {
  const TempDirectory directory;
  BoostedTreesClassifier model({.n_trees = 1, .max_depth = 1, .feature_names = {"kind"}},
                               trees_config(directory / "m"));
  model.train([] { return test_rows(50, 2).dataset(); });
  const auto fails = [&](std::map<std::string, ServingFeature> features) {
    return message_of([&] {
      (void)model.export_model(directory / "e", raw_serving_input_receiver(std::move(features)));
    });
  };
  EXPECT_THAT(fails({{"kid", {kInt64, {}}}}),
              HasSubstr("the receiver has no feature 'kind'; it has 'kid'"));
  EXPECT_THAT(fails({{"kind", {kInt64, {}}}, {"x", {kFloat32, {}}}}),
              HasSubstr("the model has no feature 'x'"));
  EXPECT_THAT(fails({{"kind", {kInt64, {1, 1}}}}), HasSubstr("has the shape [1, 1]"));
}

// A day such as 20180131 is not float32: the trees tell it from the next one, and so does an
// export.
TEST(ExportTreesTest, DaysAreToldApart) {
  const TempDirectory directory;
  std::vector<int64_t> days, labels;
  for (int64_t i = 0; i < 300; ++i) {
    days.push_back(20180101 + i % 31);
    labels.push_back(i % 31 % 2);
  }
  const Tensor day = torch::tensor(days, kInt64), label = torch::tensor(labels, kInt64);
  const auto data = [&](const Tensor& x) {
    return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"day", x}}), label}))
        .global_batch(50);
  };
  BoostedTreesClassifier model({.n_trees = 60, .max_depth = 6, .learning_rate = 0.5},
                               trees_config(directory / "m"));
  model.train([&] { return data(day); });
  EXPECT_EQ(model.evaluate([&] { return data(day); }).at("accuracy"), 1);
  EXPECT_EQ(model.ensemble().in_double, std::vector<bool>{true});
  // The same trees of another dtype and of several replicas, and a run that continues.
  const trees::Ensemble made = model.ensemble();
  for (const bool several : {false, true}) {
    BoostedTreesClassifier other(
        {.n_trees = 60, .max_depth = 6, .learning_rate = 0.5},
        trees_config(directory / (several ? "s" : "d"),
                     several ? distribute::mirrored({.replicas = 2}) : nullptr));
    other.train([&] { return data(day.to(kFloat64)); }, {.max_steps = 30});
    other.train([&] { return data(day.to(kFloat64)); });
    EXPECT_EQ(other.ensemble(), made);
  }
  EXPECT_THAT(message_of([&] {
                (void)model.export_model(directory / "e",
                                         raw_serving_input_receiver({{"day", {kFloat32, {}}}}));
              }),
              HasSubstr("tell numbers of 'day' apart"));
  for (const DType dtype : {kInt64, kFloat64}) {
    const auto path = model.export_model(directory / std::string(dtype_name(dtype)),
                                         raw_serving_input_receiver({{"day", {dtype, {}}}}));
    const Servable served_model(*path);
    const auto all = served_model.run("predict", {{"day", day.to(dtype)}});
    expect_same(all.at("logits"), predicted(model, data(day), "logits"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
