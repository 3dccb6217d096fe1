// What holds for heads whatever the numbers are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/random.h"
#include "muster/distribute/variable_table.h"
#include "muster/features/dense_column.h"
#include "muster/features/resolve.h"
#include "muster/heads/binary_class_head.h"
#include "muster/heads/internal/test_batch.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/multi_head.h"
#include "muster/heads/multi_label_head.h"
#include "muster/heads/regression_head.h"
#include "muster/layers/regularizers.h"
#include "muster/metrics/mean.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::features_with;
using testing::labels_of;
using testing::numbers;
using testing::results_of;

constexpr auto kSum = losses::Reduction::kSum;
constexpr auto kMean = losses::Reduction::kSumOverBatchSize;

// Gives `count` multiples of 1 / `grid` in [least, least + width).
Tensor drawn(uint64_t seed, const Shape& shape, double least, double width, int64_t grid = 64) {
  Random random(derive_key(seed, {id_of("heads")}));
  Tensor all = torch::empty(shape, at::kDouble);
  auto flat = all.view({-1});
  for (int64_t i = 0; i < all.numel(); ++i) {
    const double steps = std::floor(random.uniform() * width * static_cast<double>(grid));
    flat[i] = least + steps / static_cast<double>(grid);
  }
  return all.to(at::kFloat);
}

// A head with weights, and labels it takes.
struct HeadCase {
  const char* name{};
  std::function<Head(losses::Reduction reduction, std::string name)> make{};
  std::function<Tensor(int64_t rows)> labels{};
};

Tensor whole(uint64_t seed, const Shape& shape, double kinds) {
  return drawn(seed, shape, 0, kinds, 1);
}

const std::vector<HeadCase>& every_head() {
  static const std::vector<HeadCase> cases = {
      {"binary",
       [](losses::Reduction reduction, std::string name) {
         return BinaryClassHead({.weight_column = "w",
                                 .thresholds = {0.25, 0.5},
                                 .loss_reduction = reduction,
                                 .name = std::move(name)});
       },
       [](int64_t rows) { return whole(2, {rows}, 2); }},
      {"multi_class",
       [](losses::Reduction reduction, std::string name) {
         return MultiClassHead({.n_classes = 3,
                                .weight_column = "w",
                                .loss_reduction = reduction,
                                .name = std::move(name)});
       },
       [](int64_t rows) { return whole(3, {rows}, 3).to(kInt64); }},
      {"multi_label",
       [](losses::Reduction reduction, std::string name) {
         return MultiLabelHead({.n_classes = 3,
                                .weight_column = "w",
                                .thresholds = {0.3},
                                .loss_reduction = reduction,
                                .classes_for_class_based_metrics = {2},
                                .name = std::move(name)});
       },
       [](int64_t rows) {
         return whole(4, {rows, 3}, 2);
       }},
      {"regression",
       [](losses::Reduction reduction, std::string name) {
         return RegressionHead({.label_dimension = 2,
                                .weight_column = "w",
                                .loss_reduction = reduction,
                                .name = std::move(name)});
       },
       [](int64_t rows) {
         return drawn(5, {rows, 2}, -2, 4);
       }},
      {"poisson",
       [](losses::Reduction reduction, std::string name) {
         return PoissonRegressionHead(
             {.weight_column = "w", .loss_reduction = reduction, .name = std::move(name)});
       },
       [](int64_t rows) { return whole(6, {rows}, 5); }},
      {"logistic",
       [](losses::Reduction reduction, std::string name) {
         return LogisticRegressionHead(
             {.weight_column = "w", .loss_reduction = reduction, .name = std::move(name)});
       },
       [](int64_t rows) {
         return drawn(7, {rows, 1}, 0, 1);
       }},
  };
  return cases;
}

class EveryHead : public ::testing::TestWithParam<HeadCase> {
 protected:
  static constexpr int64_t kRows = 12;
  Head head(losses::Reduction reduction = kMean, std::string name = {}) const {
    return GetParam().make(reduction, std::move(name));
  }
  Tensor logits_ = drawn(1, {kRows, head().logits_dimension()}, -3, 6);
  Tensor labels_ = GetParam().labels(kRows);
  Tensor weights_ = whole(8, {kRows}, 4);
};

TEST_P(EveryHead, WeighsAnExampleAsItsRepetition) {
  const Tensor times = weights_.to(kInt64);
  const auto repeated = [&](const Tensor& all) { return all.repeat_interleave(times, 0); };
  const Features ones = features_with(torch::ones({times.sum().item<int64_t>(), 1}));
  const Features weighted = features_with(weights_);
  const Labels each = labels_of(labels_), again = labels_of(repeated(labels_));
  EXPECT_NEAR(head(kSum).loss(weighted, each, logits_).item<double>(),
              head(kSum).loss(ones, again, repeated(logits_)).item<double>(), 1e-4);
  const auto expected = results_of(head().metrics(ones, again, repeated(logits_)));
  const auto results = results_of(head().metrics(weighted, each, logits_));
  ASSERT_EQ(results.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_NEAR(results.at(name), value, 1e-6) << name;
}

TEST_P(EveryHead, AddsOrAveragesOverExamplesAndNotOverWeights) {
  const Features features = features_with(weights_.unsqueeze(-1));
  const Labels labels = labels_of(labels_);
  const double sum = head(kSum).loss(features, labels, logits_).item<double>();
  const double mean = head(kMean).loss(features, labels, logits_).item<double>();
  const auto losses_of_example = GetParam().name == std::string("regression") ? 2.0 : 1.0;
  EXPECT_NEAR(mean * kRows * losses_of_example, sum, 1e-4);
  // Where metrics are asked for, the losses of examples are kept, and the loss is the same.
  for (const auto reduction : {kSum, kMean}) {
    const HeadScore measured = head(reduction).rule().score(features, labels, logits_, true);
    EXPECT_NEAR(measured.loss.item<double>(), reduction == kSum ? sum : mean, 1e-4);
    EXPECT_FALSE(measured.metrics.empty());
  }
}

TEST_P(EveryHead, MeasuresBatchesAsOne) {
  std::map<std::string, Metric> merged;
  const auto add = [&](int64_t begin, int64_t end) {
    const auto part = [&](const Tensor& all) { return all.slice(0, begin, end); };
    for (const auto& [name, metric] :
         head().metrics(features_with(part(weights_)), labels_of(part(labels_)), part(logits_))) {
      const auto [known, fresh] = merged.emplace(name, metric);
      if (!fresh) known->second.merge(metric);
    }
  };
  add(0, 5);
  add(5, 5);  // of a replica without data
  add(5, kRows);
  const auto expected =
      results_of(head().metrics(features_with(weights_), labels_of(labels_), logits_));
  for (const auto& [name, value] : expected)
    EXPECT_NEAR(merged.at(name).result(), value, 1e-6) << name;
}

TEST_P(EveryHead, NoExamplesLoseNothing) {
  const Tensor none = logits_.slice(0, 0, 0).requires_grad_();
  for (const auto reduction : {kSum, kMean}) {
    const Tensor loss = head(reduction).loss(features_with(weights_.slice(0, 0, 0)),
                                             labels_of(labels_.slice(0, 0, 0)), none);
    EXPECT_EQ(loss.item<double>(), 0);
    loss.backward();
  }
}

TEST_P(EveryHead, EndsKeysWithItsName) {
  const Features features = features_with(weights_);
  const Labels labels = labels_of(labels_);
  const std::vector<Tensor> penalties{numbers({0.5}, {})};
  const auto plain = results_of(head().metrics(features, labels, logits_, penalties));
  const auto named = results_of(head(kMean, "one").metrics(features, labels, logits_, penalties));
  ASSERT_EQ(named.size(), plain.size());
  for (const auto& [name, value] : plain) EXPECT_EQ(named.at(name + "/one"), value) << name;
  EXPECT_EQ(plain.at("regularization_loss"), 0.5);
}

TEST_P(EveryHead, DescendsItsLoss) {
  Tensor logits = logits_.to(kFloat64).detach().requires_grad_();
  const Features features = features_with(weights_);
  const auto loss = [&](const Tensor& at) {
    return head().loss(features, labels_of(labels_), at).item<double>();
  };
  head().loss(features, labels_of(labels_), logits).backward();
  const Tensor gradient = logits.grad();
  constexpr double kStep = 1e-4;
  for (int64_t i = 0; i < logits.size(-1); ++i) {
    Tensor shift = torch::zeros_like(logits);
    shift[3][i] = kStep;
    const double slope =
        (loss(logits.detach() + shift) - loss(logits.detach() - shift)) / (2 * kStep);
    EXPECT_NEAR(gradient[3][i].item<double>(), slope, 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryHead, ::testing::ValuesIn(every_head()),
                         [](const auto& info) { return std::string(info.param.name); });

// A class that never happens takes nothing: softmax over two classes is the sigmoid of what one has
// more.
TEST(HeadLawTest, TwoOfThreeClassesAreABinaryHead) {
  const Tensor logits = drawn(9, {10, 1}, -3, 6);
  const Tensor labels = whole(10, {10}, 2).to(kInt64);
  const Tensor three = torch::cat({torch::zeros({10, 1}), logits, torch::full({10, 1}, -1e4)}, -1);
  const Head binary = BinaryClassHead(), multi = MultiClassHead({.n_classes = 3});
  const Features features = features_with({});
  EXPECT_NEAR(binary.loss(features, labels_of(labels), logits).item<double>(),
              multi.loss(features, labels_of(labels), three).item<double>(), 1e-6);
  const auto a = results_of(binary.metrics(features, labels_of(labels), logits));
  const auto b = results_of(multi.metrics(features, labels_of(labels), three));
  for (const char* key : {"accuracy", "average_loss"}) EXPECT_NEAR(a.at(key), b.at(key), 1e-6);
  const auto p = binary.predictions(logits), q = multi.predictions(three);
  EXPECT_TRUE(torch::allclose(p.at("probabilities"), q.at("probabilities").narrow(-1, 0, 2)));
  EXPECT_TRUE(p.at("class_ids").equal(q.at("class_ids")));
}

TEST(HeadLawTest, EqualLogitsAreTheLowerClass) {
  EXPECT_EQ(BinaryClassHead().predictions(torch::zeros({1, 1})).at("class_ids").item<int64_t>(), 0);
  const auto all = MultiClassHead({.n_classes = 3}).predictions(numbers({1, 2, 2}, {1, 3}));
  EXPECT_EQ(all.at("class_ids").item<int64_t>(), 1);
}

TEST(HeadLawTest, NamesAreTheNumbersTheyHave) {
  const std::vector<std::string> names{"ash", "elm", "oak"};
  const Tensor logits = drawn(11, {4, 3}, -2, 4);
  const Features features = features_with({});
  const Labels texts(Element(Strings({"oak", "ash", "elm", "oak"})));
  const Labels ids = labels_of(torch::tensor({2, 0, 1, 2}));
  const Head head = MultiClassHead({.n_classes = 3, .label_vocabulary = names});
  EXPECT_EQ(head.loss(features, texts, logits).item<double>(),
            head.loss(features, ids, logits).item<double>());
  EXPECT_EQ(head.classes(), names);
  EXPECT_EQ(head.export_outputs(logits).at("classification").classes, names);

  const Head two = BinaryClassHead({.label_vocabulary = {"no", "yes"}});
  const Tensor one = logits.narrow(-1, 0, 1);
  EXPECT_EQ(
      two.loss(features, Labels(Element(Strings({"yes", "no", "no", "yes"}))), one).item<double>(),
      two.loss(features, labels_of(torch::tensor({1, 0, 0, 1})), one).item<double>());
  EXPECT_EQ(two.class_names(torch::tensor({{1}, {0}}))[0], "yes");
}

TEST(HeadLawTest, ListsOfNamesAreMultiHot) {
  const Head head = MultiLabelHead({.n_classes = 3,
                                    .label_vocabulary = {"ash", "elm", "oak"},
                                    .classes_for_class_based_metrics = {"oak"}});
  const Tensor logits = drawn(12, {3, 3}, -2, 4);
  const Features features = features_with({});
  // Rows of two places: oak and ash, elm, and none.
  const Labels lists(
      Element(Value::stack({Strings({"oak", "ash"}), Strings({"elm", ""}), Strings({"", ""})})));
  const Labels hot = labels_of(numbers({1, 0, 1, 0, 1, 0, 0, 0, 0}, {3, 3}));
  const auto expected = results_of(head.metrics(features, hot, logits));
  EXPECT_EQ(results_of(head.metrics(features, lists, logits)), expected);
  const Tensor ids = torch::tensor({{2, 0}, {1, -1}, {-1, -1}});
  // What a VarLenFeature gives is taken as it is: what lies after a length is not a label.
  const Element lengths = torch::tensor({2, 1, 0});
  const auto measured = [&](const Element& labels) {
    return results_of(head.metrics(
        features, Labels(Element::dict({{"l", labels}, {"l/row_lengths", lengths}})), logits));
  };
  EXPECT_EQ(measured(ids.clamp_min(0)), expected);
  EXPECT_EQ(measured(lists.element()), expected);
  const Labels by_head(Element::dict({{"trees", ids.clamp_min(0)},
                                      {"trees/row_lengths", lengths},
                                      {"age", torch::zeros({3, 1})}}));
  const Head both = MultiHead({.heads = {MultiLabelHead({.n_classes = 3, .name = "trees"}),
                                         RegressionHead({.name = "age"})}});
  EXPECT_EQ(both.metrics(features, by_head, torch::cat({logits, torch::zeros({3, 1})}, -1))
                .at("auc/trees")
                .result(),
            expected.at("auc"));
  EXPECT_TRUE(expected.contains("auc/oak"));
  EXPECT_TRUE(expected.contains("probability_mean/oak"));
}

// Stirling's approximation joins from labels above 1, in plain arithmetic.
TEST(HeadLawTest, PoissonsFullLossIsTheFormula) {
  const std::vector<double> x{0.5, -1, 2}, y{0, 1, 5};
  double plain = 0, full = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    plain += std::exp(x[i]) - y[i] * x[i];
    if (y[i] > 1) full += y[i] * std::log(y[i]) - y[i] + 0.5 * std::log(2 * M_PI * y[i]);
  }
  const auto loss = [&](bool compute_full_loss) {
    return PoissonRegressionHead({.compute_full_loss = compute_full_loss})
        .loss(features_with({}), labels_of(numbers(y, {3})), numbers(x, {3, 1}))
        .item<double>();
  };
  EXPECT_NEAR(loss(false), plain / 3, 1e-6);
  EXPECT_NEAR(loss(true), (plain + full) / 3, 1e-6);
}

TEST(HeadLawTest, AHeadTakesALossAndALinkOfOnesOwn) {
  const HeadLossFn absolute = [](const Tensor& labels, const Tensor& logits, const Features& all) {
    return (labels - logits.exp()).abs() + all["x"].sum();
  };
  const Head head = RegressionHead(
      {.weight_column = "w", .loss_fn = absolute, .inverse_link_fn = [](const Tensor& logits) {
         return logits.exp();
       }});
  const Tensor logits = numbers({0, 1}, {2, 1});
  const Features features = features_with(numbers({1, 3}, {2}));
  const Labels labels = labels_of(numbers({3, 1}, {2}));
  EXPECT_NEAR(head.loss(features, labels, logits).item<double>(), (2 + 3 * (std::exp(1) - 1)) / 2,
              1e-6);
  EXPECT_NEAR(head.predictions(logits).at("predictions")[1].item<double>(), std::exp(1), 1e-6);
  EXPECT_NEAR(head.metrics(features, labels, logits).at("prediction/mean").result(),
              (1 + 3 * std::exp(1)) / 4, 1e-6);
}

TEST(HeadLawTest, ARegressionWeighsLabelsToo) {
  const Head head = RegressionHead({.label_dimension = 2, .weight_column = "w"});
  const Features features = features_with(numbers({1, 0, 2, 4}, {2, 2}));
  const Labels labels = labels_of(torch::zeros({2, 2}));
  const Tensor logits = numbers({1, 5, 2, 1}, {2, 2});
  EXPECT_NEAR(head.loss(features, labels, logits).item<double>(), (1 + 8 + 4) / 4.0, 1e-6);
  EXPECT_NEAR(head.metrics(features, labels, logits).at("average_loss").result(), 13 / 7.0, 1e-6);
}

TEST(HeadLawTest, WeightsMayBeThoseOfANumericColumn) {
  const auto doubled = feature_column::numeric_column(
      "w", {.normalizer_fn = [](const Tensor& weights) { return 2 * weights; }});
  const Tensor weights = whole(13, {6}, 4), logits = drawn(14, {6, 1}, -2, 4);
  const Labels labels = labels_of(whole(15, {6}, 2));
  const double expected = BinaryClassHead({.weight_column = "w"})
                              .loss(features_with(2 * weights), labels, logits)
                              .item<double>();
  const Head head = BinaryClassHead({.weight_column = doubled});
  const Features raw = features_with(weights);
  EXPECT_EQ(head.loss(raw, labels, logits).item<double>(), expected);
  const Features resolved(feature_column::resolve({doubled})(raw.element()));
  EXPECT_TRUE(resolved.contains("w/values"));
  EXPECT_EQ(head.loss(resolved, labels, logits).item<double>(), expected);
  const Head three = RegressionHead(
      {.label_dimension = 3, .weight_column = feature_column::numeric_column("w", {.shape = {3}})});
  const Tensor loss = three.loss(features_with(numbers({1, 0, 2}, {1, 3})),
                                 labels_of(torch::zeros({1, 3})), numbers({3, 5, 1}, {1, 3}));
  EXPECT_NEAR(loss.item<double>(), (9 + 2) / 3.0, 1e-6);
}

// The margin between classes -1 and 1, in place of their probability.
class MarginRule : public HeadRule {
 public:
  std::string kind() const override { return "MarginHead"; }
  std::string name() const override { return "margin"; }
  int64_t logits_dimension() const override { return 1; }
  losses::Reduction loss_reduction() const override { return kMean; }
  HeadScore score(const Features&, const Labels& labels, const Logits& logits,
                  bool with_metrics) const override {
    const Tensor margin = labels.tensor() * logits.tensor().squeeze(-1);
    HeadScore score{.loss = (1 - margin).clamp_min(0).mean()};
    if (with_metrics) score.metrics["margin"] = metrics::mean(margin);
    return score;
  }
  std::map<std::string, Tensor> predictions(const Logits& logits) const override {
    return {{"sign", logits.tensor().sign()}};
  }
  std::map<std::string, ExportOutput> export_outputs(const Logits&) const override { return {}; }
};

TEST(HeadLawTest, AHeadOfOnesOwnStandsAmongOthers) {
  const Head margin(std::make_shared<const MarginRule>());
  const Head both = MultiHead({.heads = {margin, RegressionHead({.name = "number"})}});
  const Labels labels(
      Element::dict({{"margin", numbers({1, -1}, {2})}, {"number", numbers({0, 0}, {2})}}));
  const Tensor logits = numbers({2, 1, 0.5, 3}, {2, 2});
  EXPECT_NEAR(both.loss(features_with({}), labels, logits).item<double>(), 1.5 / 2 + 10 / 2.0,
              1e-6);
  EXPECT_EQ(both.metrics(features_with({}), labels, logits).at("margin").result(), 0.75);
  EXPECT_TRUE(both.predictions(logits).contains("margin/sign"));
  const auto outputs = both.export_outputs(logits);
  EXPECT_TRUE(outputs.at("margin").outputs.contains("sign"));
  EXPECT_TRUE(outputs.at(kServingDefault).outputs.contains("sign"));
}

class MultiHeadTest : public ::testing::Test {
 protected:
  Head click_ = BinaryClassHead({.weight_column = "w", .name = "click"});
  Head kind_ = MultiClassHead({.n_classes = 3, .name = "kind"});
  Tensor a_ = drawn(20, {6, 1}, -2, 4), b_ = drawn(21, {6, 3}, -2, 4);
  Tensor clicks_ = whole(22, {6}, 2), kinds_ = whole(23, {6}, 3).to(kInt64);
  Features features_ = features_with(whole(24, {6}, 3));
  Labels labels_{Element::dict({{"click", clicks_}, {"kind", kinds_}})};
};

TEST_F(MultiHeadTest, IsTheSumOfItsParts) {
  const Head both = MultiHead({.heads = {click_, kind_}, .head_weights = {2, 0.5}});
  const double click = click_.loss(features_, labels_of(clicks_), a_).item<double>();
  const double kind = kind_.loss(features_, labels_of(kinds_), b_).item<double>();
  const Tensor joined = torch::cat({a_, b_}, -1);
  const Logits by_head(std::map<std::string, Tensor>{{"kind", b_}, {"click", a_}});
  for (const Logits& logits : {Logits(joined), by_head}) {
    EXPECT_NEAR(both.loss(features_, labels_, logits).item<double>(), 2 * click + kind / 2, 1e-6);
    auto expected = results_of(click_.metrics(features_, labels_of(clicks_), a_));
    expected.merge(results_of(kind_.metrics(features_, labels_of(kinds_), b_)));
    expected["loss/click"] = click;
    expected["loss/kind"] = kind;
    EXPECT_EQ(results_of(both.metrics(features_, labels_, logits)), expected);
    const auto predictions = both.predictions(logits);
    for (const auto& [key, tensor] : click_.predictions(a_))
      EXPECT_TRUE(tensor.equal(predictions.at("click/" + key))) << key;
    for (const auto& [key, tensor] : kind_.predictions(b_))
      EXPECT_TRUE(tensor.equal(predictions.at("kind/" + key))) << key;
  }
}

TEST_F(MultiHeadTest, OffersWhatEachOffers) {
  const auto outputs =
      MultiHead({.heads = {click_, kind_}}).export_outputs(torch::cat({a_, b_}, 1));
  std::vector<std::string> keys;
  for (const auto& [key, output] : outputs) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("click", "click/classification", "click/predict",
                                "click/regression", "kind", "kind/classification", "kind/predict",
                                "predict", "serving_default"));
  EXPECT_TRUE(outputs.at("serving_default")
                  .outputs.at("scores")
                  .equal(click_.predictions(a_).at("probabilities")));
  EXPECT_TRUE(outputs.at("predict").outputs.contains("kind/class_ids"));
  EXPECT_EQ(outputs.at("kind").classes.size(), 3u);
}

class HeadSpecTest : public ::testing::Test {
 protected:
  // What the head gives in that mode.
  EstimatorSpec spec(const Head& head, Mode mode, const HeadTraining& training = {}) {
    ModelContext context(mode, variables_, 1, params_);
    return head.create_estimator_spec(context, features_with({}),
                                      mode == Mode::kPredict ? Labels() : labels_of(labels_),
                                      logits_, training);
  }
  nlohmann::json params_ = nlohmann::json::object();
  distribute::VariableTable variables_{1};
  Tensor logits_ = drawn(30, {4, 1}, -2, 4).requires_grad_();
  Tensor labels_ = whole(31, {4}, 2);
};

TEST_F(HeadSpecTest, HasWhatItsModeNeeds) {
  const Head head = BinaryClassHead({.loss_reduction = kSum});
  const HeadTraining training{.optimizer = optim::sgd(),
                              .regularization_losses = {numbers({0.5}, {}), numbers({1}, {1})}};
  EstimatorSpec train = spec(head, Mode::kTrain, training);
  train.validate(Mode::kTrain);
  EXPECT_EQ(train.train_op.entries.size(), 1u);
  EXPECT_EQ(train.loss_reduction, ReduceOp::kSum);
  EXPECT_TRUE(train.train_op.entries[0].loss.is_same(train.loss));

  EstimatorSpec eval = spec(head, Mode::kEval, training);
  eval.validate(Mode::kEval);
  EXPECT_EQ(eval.loss.item<double>(), train.loss.item<double>());
  const double sum = head.loss(features_with({}), labels_of(labels_), logits_).item<double>();
  EXPECT_NEAR(eval.loss.item<double>(), sum + 1.5, 1e-6);
  EXPECT_EQ(eval.eval_metrics.at("regularization_loss").result(), 1.5);
  EXPECT_TRUE(eval.predictions.contains("probabilities"));

  EstimatorSpec predict = spec(head, Mode::kPredict);
  predict.validate(Mode::kPredict);
  EXPECT_TRUE(predict.export_outputs.contains(kServingDefault));
  EXPECT_EQ(spec(BinaryClassHead(), Mode::kEval).loss_reduction, ReduceOp::kMean);
}

TEST_F(HeadSpecTest, TrainsByAFunctionOfOnesOwn) {
  Tensor seen;
  const HeadTraining training{.train_op_fn = [&](const Tensor& loss) {
    seen = loss;
    return optim::sgd().minimize(loss);
  }};
  const EstimatorSpec train = spec(BinaryClassHead(), Mode::kTrain, training);
  EXPECT_TRUE(seen.is_same(train.loss));
  EXPECT_EQ(train.train_op.entries.size(), 1u);
}

// The penalties of variables join the loss elsewhere; here they are only told.
TEST_F(HeadSpecTest, TellsThePenaltiesOfVariables) {
  variables_.get_or_create(
      {.name = "w",
       .shape = {2},
       .initializer = [](const Shape& shape, DType, RandomKey) { return torch::full(shape, 3.0); },
       .regularizer = regularizers::l2(0.5)});
  const EstimatorSpec plain = spec(BinaryClassHead({.name = "n"}), Mode::kEval);
  EXPECT_EQ(plain.eval_metrics.at("regularization_loss/n").result(), 9);
  const EstimatorSpec both =
      spec(BinaryClassHead(), Mode::kEval, {.regularization_losses = {numbers({0.25}, {})}});
  EXPECT_EQ(both.eval_metrics.at("regularization_loss").result(), 9.25);
  EXPECT_NEAR(both.loss.item<double>() - plain.loss.item<double>(), 0.25, 1e-6);
}

// Means of numbers of 16 bits would be coarse.
TEST(HeadsTest, LogitsOf16BitsAreMeasuredIn32) {
  const Head head = BinaryClassHead();
  const Features features = features_with({}, 3);
  const Labels labels = labels_of(numbers({1, 0, 1}, {3}));
  const Tensor logits = numbers({0.3, -1.7, 2.1}, {3, 1}, at::kHalf);
  EXPECT_EQ(results_of(head.metrics(features, labels, logits)),
            results_of(head.metrics(features, labels, logits.to(at::kFloat))));
  EXPECT_EQ(head.predictions(logits.to(at::kBFloat16)).at("logistic").scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace muster::inline v0_1
