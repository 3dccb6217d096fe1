// Heads in model functions of one's own, through the Estimator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_run.h"
#include "muster/data/dataset.h"
#include "muster/estimator/add_metrics.h"
#include "muster/export/servable.h"
#include "muster/formats/event.h"
#include "muster/heads/binary_class_head.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/multi_head.h"
#include "muster/layers/dense.h"
#include "muster/layers/regularizers.h"
#include "muster/layers/sequential.h"
#include "muster/metrics/accuracy.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {
namespace {

using testing::largest_distance;
using testing::run_config;

constexpr int64_t kNumbers = 6;

// `rows` examples: x float32[6], id int64, and as label 1 if the sum of x is positive.
Dataset examples(int64_t rows) {
  Random random(derive_key(1, {id_of("examples of heads")}));
  Tensor x = torch::empty({rows, kNumbers});
  for (int64_t i = 0; i < x.numel(); ++i) x.view({-1})[i] = random.normal();
  return Dataset::from_tensor_slices(Element::tuple(
      {Element::dict({{"id", torch::arange(rows)}, {"x", x}}), x.sum(1).gt(0).to(kInt64)}));
}

// Two layers, and the logits of a head. Its kernels have a penalty.
ModelFn with_head(const Head& head) {
  return [head](const Features& features, const Labels& labels, Mode, ModelContext& context) {
    const auto net = context.model("net", [&] {
      return Sequential({Dense(8, {.activation = activations::relu,
                                   .kernel_regularizer = regularizers::l2(0.01)}),
                         Dense(head.logits_dimension())});
    });
    return head.create_estimator_spec(context, features, labels, net(features["x"]),
                                      {.optimizer = optim::adam({.learning_rate = 0.02})});
  };
}

Head two_heads() {
  return MultiHead({.heads = {BinaryClassHead({.weight_column = "w", .name = "sign"}),
                              MultiClassHead({.n_classes = 3, .name = "third"})},
                    .head_weights = {1, 0.5}});
}

// Keeps `label` of the examples and, as "third", the number of the example modulo 3.
Dataset for_two_heads(int64_t rows) {
  return examples(rows).map([](const Element& example) {
    const Tensor id = example.part(0).at("id").value().tensor();
    return Element::tuple(
        {Element::dict({{"x", example.part(0).at("x")}, {"w", (id % 4).to(kFloat32)}}),
         Element::dict({{"sign", example.part(1)}, {"third", id % 3}})});
  });
}

TEST(HeadInEstimatorTest, TwoReplicasTrainAndMeasureWhatOneDoes) {
  const TempDirectory directory;
  const InputFn input = [] { return for_two_heads(53).repeat(2).global_batch(12); };
  std::vector<EvalResult> results;
  const auto trained = [&](int replicas) {
    Estimator estimator(with_head(two_heads()),
                        run_config(directory / std::to_string(replicas), replicas));
    estimator.train(input);
    results.push_back(estimator.evaluate([] { return for_two_heads(53).batch(10); }));
    return estimator;
  };
  const Estimator alone = trained(1), shared = trained(2);
  EXPECT_LT(largest_distance(alone, shared), 1e-4);
  ASSERT_EQ(results[0].size(), results[1].size());
  for (const auto& [name, value] : results[0])
    EXPECT_NEAR(results[1].at(name), value, 1e-4) << name;
  const EvalResult& one = results[0];
  EXPECT_GT(one.at("regularization_loss"), 0);
  // Every batch counts alike in a loss, and the last one is short.
  EXPECT_NEAR(one.at("loss"),
              one.at("loss/sign") + one.at("loss/third") / 2 + one.at("regularization_loss"), 1e-5);
  EXPECT_TRUE(one.contains("auc/sign"));
  EXPECT_TRUE(one.contains("accuracy/third"));
}

TEST(HeadInEstimatorTest, LearnsPredictsAndIsExported) {
  const TempDirectory directory;
  const Head head = BinaryClassHead({.label_vocabulary = {"minus", "plus"}});
  Estimator estimator(with_head(head), run_config(directory / "m"));
  estimator.train([] { return examples(64).shuffle(64).repeat().batch(16); }, {.max_steps = 150});
  const InputFn input = [] { return examples(64).batch(64); };
  // The predictions of a head are available to your own metrics.
  Estimator more = add_metrics(
      estimator, [](const Features&, const Labels& labels, const Prediction& predictions) {
        return std::map<std::string, Metric>{
            {"right", metrics::accuracy(labels, predictions["class_ids"].squeeze(-1))}};
      });
  const EvalResult result = more.evaluate(input);
  EXPECT_GT(result.at("accuracy"), 0.95);
  EXPECT_EQ(result.at("right"), result.at("accuracy"));
  EXPECT_GT(result.at("auc"), 0.95);

  Predictions predictions = estimator.predict(input, {.yield_single_examples = false});
  std::optional<Prediction> all;
  ASSERT_TRUE(all = predictions.next());
  const Servable served(
      estimator
          .export_model(directory / "export",
                        raw_serving_input_receiver({{"x", {kFloat32, {kNumbers}}}}))
          .value());
  std::optional<Element> batch;
  ASSERT_TRUE(batch = input({}).iterator()->next());
  const auto answer = served.run("predict", {{"x", batch->part(0).at("x").value().tensor()}});
  ASSERT_EQ(answer.size(), all->size());
  for (const auto& [key, tensor] : *all)
    EXPECT_TRUE(torch::allclose(answer.at(key), tensor)) << key;
  EXPECT_EQ(served.signature("regression").method, SignatureMethod::kRegress);
  EXPECT_EQ(served.signature(kServingDefault).classes, head.classes());
}

// TensorBoard shows the loss of each named head, and the penalties.
TEST(HeadInEstimatorTest, NamedHeadsShowTheirLosses) {
  const TempDirectory directory;
  const auto shown = [&](const char* name, const Head& head, const Dataset& data) {
    {
      Estimator estimator(with_head(head), run_config(directory / name));
      estimator.train([&] { return data; });
    }
    return testing::summaries_in(directory / name);
  };
  const auto number = [](const testing::Shown& all, const char* tag) {
    return testing::number_of(all, tag);
  };
  const auto one = shown("one", BinaryClassHead({.name = "sign"}), examples(8).batch(8));
  EXPECT_GT(number(one, "regularization_loss/sign"), 0);
  EXPECT_NEAR(number(one, "loss"),
              number(one, "loss/sign") + number(one, "regularization_loss/sign"), 1e-5);
  const auto two = shown("two", two_heads(), for_two_heads(8).batch(8));
  EXPECT_NEAR(
      number(two, "loss"),
      number(two, "loss/sign") + number(two, "loss/third") / 2 + number(two, "regularization_loss"),
      1e-5);
}

TEST(HeadInEstimatorTest, SeveralHeadsAreExportedByName) {
  const TempDirectory directory;
  Estimator estimator(with_head(two_heads()), run_config(directory / "m"));
  estimator.train([] { return for_two_heads(24).batch(12); });
  const Servable served(
      estimator
          .export_model(directory / "export",
                        raw_serving_input_receiver({{"x", {kFloat32, {kNumbers}}}}))
          .value());
  const auto answer = served.run("predict", {{"x", torch::zeros({5, kNumbers})}});
  EXPECT_EQ(answer.at("third/probabilities").sizes().vec(), (Shape{5, 3}));
  EXPECT_EQ(served.run("sign/regression", {{"x", torch::zeros({1, kNumbers})}})
                .at("outputs")
                .sizes()
                .vec(),
            (Shape{1, 1}));
  EXPECT_EQ(served.signature("third").classes.size(), 3u);
}

}  // namespace
}  // namespace muster::inline v0_1
