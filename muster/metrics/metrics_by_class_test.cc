// Metrics that count by class: confusion, F-scores; and the score of outputs. Compared with plain
// loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/error_of.h"
#include "muster/metrics/internal/test_numbers.h"
#include "muster/metrics/metrics.h"

namespace muster::inline v0_1::metrics {
namespace {

using testing::caution_of;
using ::testing::HasSubstr;
using testing::numbers;
using testing::Row;
using testing::tensor_of;
using testing::whole_numbers;

TEST(ConfusionMatrix, CountsPairsOfClasses) {
  constexpr int64_t kCount = 500, kClasses = 5;
  const Row labels = whole_numbers(31, kCount, kClasses - 1);  // class 4 is never a label
  const Row predictions = whole_numbers(32, kCount, kClasses);
  const Row weights = whole_numbers(33, kCount, 4);
  std::vector<Row> matrix(kClasses, Row(kClasses));
  for (size_t i = 0; i < labels.size(); ++i)
    matrix[static_cast<size_t>(labels[i])][static_cast<size_t>(predictions[i])] += weights[i];
  const Tensor y = tensor_of(labels, {kCount}, kInt64);
  const Tensor p = tensor_of(predictions, {kCount, 1}, kInt64), w = tensor_of(weights, {kCount});
  const Metric counted = confusion_matrix(y, p, kClasses, w);
  const Row parts = counted.parts();
  double right = 0, all = 0, union_sum = 0;
  for (size_t a = 0; a < kClasses; ++a) {
    double row = 0, column = 0;
    for (size_t b = 0; b < kClasses; ++b) {
      EXPECT_EQ(parts[a * kClasses + b], matrix[a][b]);
      row += matrix[a][b];
      column += matrix[b][a];
    }
    right += matrix[a][a];
    all += row;
    union_sum += matrix[a][a] / (row + column - matrix[a][a]);
    EXPECT_EQ(per_class_precision(y, p, kClasses, w).parts()[a], matrix[a][a] / column);
    EXPECT_EQ(per_class_recall(y, p, kClasses, w).parts()[a], row == 0 ? 0 : matrix[a][a] / row);
  }
  EXPECT_EQ(counted.result(), right / all);
  EXPECT_EQ(counted.definition()->part_names[7], "label_1/prediction_2");
  EXPECT_EQ(counted.kind(), "confusion_matrix(5)");
  EXPECT_NEAR(mean_iou(y, p, kClasses, w).result(), union_sum / kClasses, 1e-15);
  double mean = 0;
  for (const double rate : per_class_recall(y, p, kClasses, w).parts()) mean += rate / kClasses;
  EXPECT_NEAR(per_class_recall(y, p, kClasses, w).result(), mean, 1e-15);
}

TEST(MeanIou, IsKerasesNumber) {
  const Tensor y = tensor_of({0, 0, 1, 1}, {4}, kInt64), p = tensor_of({0, 1, 0, 1}, {4});
  EXPECT_NEAR(mean_iou(y, p, 2).result(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(mean_iou(y, p, 2, tensor_of({0.3, 0.3, 0.3, 0.1}, {4})).result(), 0.23809525, 1e-6);
  EXPECT_NEAR(mean_iou(y, p, 9).result(), 1.0 / 3, 1e-12) << "classes that were not seen";
  const Tensor masked = tensor_of({0, 255, 1, 255}, {2, 2}, kUInt8);
  EXPECT_NEAR(mean_iou(masked, p.reshape({2, 2}), 2, {}, {.ignore_class = 255}).result(), 0.25,
              1e-12);
}

TEST(FScore, IsMadeOfPrecisionAndRecallOfClasses) {
  constexpr int64_t kCount = 120, kClasses = 4;
  const Row labels = whole_numbers(34, kCount * kClasses, 2);
  const Row predictions = numbers(35, kCount * kClasses, 64);
  const Row weights = whole_numbers(36, kCount, 3);
  const Tensor y = tensor_of(labels, {kCount, kClasses});
  const Tensor p = tensor_of(predictions, {kCount, kClasses}), w = tensor_of(weights, {kCount});
  const double beta = 2;
  const auto score_of = [beta](double tp, double fp, double fn) {
    return (1 + beta * beta) * tp / ((1 + beta * beta) * tp + beta * beta * fn + fp);
  };
  for (const bool with_threshold : {false, true}) {
    const auto options = [&](Average average) {
      FBetaScoreOptions given{.average = average, .beta = beta};
      if (with_threshold) given.threshold = 0.25;
      return given;
    };
    Row scores;
    double all_tp = 0, all_fp = 0, all_fn = 0, weighted = 0;
    for (int64_t c = 0; c < kClasses; ++c) {
      double tp = 0, fp = 0, fn = 0;
      for (int64_t i = 0; i < kCount; ++i) {
        const double* row = predictions.data() + i * kClasses;
        const double x = row[c], weight = weights[static_cast<size_t>(i)];
        const bool said = with_threshold ? x > 0.25 : x == *std::max_element(row, row + kClasses);
        const bool is = labels[static_cast<size_t>(i * kClasses + c)] == 1;
        if (said && is) tp += weight;
        if (said && !is) fp += weight;
        if (!said && is) fn += weight;
      }
      scores.push_back(score_of(tp, fp, fn));
      weighted += scores.back() * (tp + fn);
      all_tp += tp, all_fp += fp, all_fn += fn;
    }
    const Metric none = f_beta_score(y, p, w, options(Average::kNone));
    double mean = 0;
    for (size_t c = 0; c < scores.size(); ++c) {
      EXPECT_NEAR(none.parts()[c], scores[c], 1e-12);
      mean += scores[c] / kClasses;
    }
    EXPECT_NEAR(none.result(), mean, 1e-12);
    EXPECT_NEAR(f_beta_score(y, p, w, options(Average::kMacro)).result(), mean, 1e-12);
    EXPECT_NEAR(f_beta_score(y, p, w, options(Average::kMicro)).result(),
                score_of(all_tp, all_fp, all_fn), 1e-12);
    EXPECT_NEAR(f_beta_score(y, p, w, options(Average::kWeighted)).result(),
                weighted / (all_tp + all_fn), 1e-12);
  }
}

// Keras's examples.
TEST(FScore, IsKerasesNumber) {
  const Tensor y = tensor_of({1, 1, 1, 1, 0, 0, 1, 1, 0}, {3, 3});
  const Tensor p = tensor_of({0.2, 0.6, 0.7, 0.2, 0.6, 0.6, 0.6, 0.8, 0}, {3, 3});
  const Row f1 = f1_score(y, p, {}, {.threshold = 0.5}).parts();
  EXPECT_NEAR(f1[0], 0.5, 1e-7);
  EXPECT_NEAR(f1[1], 0.8, 1e-7);
  EXPECT_NEAR(f1[2], 2.0 / 3, 1e-7);
  const Row f2 = f_beta_score(y, p, {}, {.beta = 2, .threshold = 0.5}).parts();
  EXPECT_NEAR(f2[0], 0.3846154, 1e-6);
  EXPECT_NEAR(f2[1], 0.90909094, 1e-6);
  EXPECT_NEAR(f2[2], 0.8333334, 1e-6);
  EXPECT_EQ(f1_score(torch::zeros({2, 3}), torch::zeros({2, 3})).result(), 0.0);
}

TEST(R2Score, IsOneLessThePartThatIsNotExplained) {
  constexpr int64_t kCount = 80, kOutputs = 3;
  const Row labels = numbers(37, kCount * kOutputs), errors = numbers(38, kCount * kOutputs);
  const Row weights = numbers(39, kCount);
  Row predictions;
  for (size_t i = 0; i < labels.size(); ++i)
    predictions.push_back(labels[i] + (errors[i] - 0.5) / (i % kOutputs == 0 ? 8 : 1));
  Row scores, variations;
  for (size_t o = 0; o < kOutputs; ++o) {
    double all = 0, mean = 0, variation = 0, error = 0;
    for (size_t i = 0; i < kCount; ++i) {
      all += weights[i];
      mean += weights[i] * labels[i * kOutputs + o];
    }
    mean /= all;
    for (size_t i = 0; i < kCount; ++i) {
      const size_t at = i * kOutputs + o;
      variation += weights[i] * std::pow(labels[at] - mean, 2);
      error += weights[i] * std::pow(labels[at] - predictions[at], 2);
    }
    scores.push_back(1 - error / variation);
    variations.push_back(variation);
  }
  const Tensor y = tensor_of(labels, {kCount, kOutputs}, kFloat64);
  const Tensor p = tensor_of(predictions, {kCount, kOutputs}, kFloat64);
  const Tensor w = tensor_of(weights, {kCount}, kFloat64);
  const Metric none = r2_score(y, p, w, {.class_aggregation = ClassAggregation::kNone});
  for (size_t o = 0; o < kOutputs; ++o) EXPECT_NEAR(none.parts()[o], scores[o], 1e-10);
  const double uniform = (scores[0] + scores[1] + scores[2]) / 3;
  EXPECT_NEAR(none.result(), uniform, 1e-10);
  EXPECT_NEAR(r2_score(y, p, w).result(), uniform, 1e-10);
  double weighted = 0, sum = 0;
  for (size_t o = 0; o < kOutputs; ++o) {
    weighted += variations[o] * scores[o];
    sum += variations[o];
  }
  EXPECT_NEAR(
      r2_score(y, p, w, {.class_aggregation = ClassAggregation::kVarianceWeighted}).result(),
      weighted / sum, 1e-10);
  const double n = kCount * kOutputs;
  EXPECT_NEAR(r2_score(y, p, w, {.num_regressors = 4}).result(),
              1 - (1 - uniform) * (n - 1) / (n - 5), 1e-10);
  EXPECT_NEAR(r2_score(y, p, w, {.num_regressors = 1000}).result(), uniform, 1e-10);
}

TEST(R2Score, OfEqualLabelsIsZero) {
  const Tensor same = torch::full({3, 1}, 0.1);
  EXPECT_EQ(r2_score(same, same).result(), 0.0);
  Metric merged = r2_score(same, same + 1);
  merged.merge(r2_score(same, same));
  merged.merge(r2_score(same.slice(0, 0, 0), same.slice(0, 0, 0)));
  EXPECT_EQ(merged.result(), 0.0);
  // A label without weight is not seen.
  EXPECT_EQ(
      r2_score(tensor_of({1, 1, 5}, {3}), tensor_of({1, 2, 3}, {3}), tensor_of({1, 1, 0}, {3}))
          .result(),
      0.0);
  // Keras's example.
  EXPECT_NEAR(r2_score(tensor_of({1, 4, 3}, {3, 1}), tensor_of({2, 4, 4}, {3, 1})).result(),
              0.57142854, 1e-6);
}

TEST(ClassMetrics, SayWhichClassesAreMissing) {
  const Tensor labels = tensor_of({0, 0, 2}, {3}), said = tensor_of({0, 1, 2}, {3});
  EXPECT_THAT(caution_of(per_class_recall(labels, said, 4)),
              HasSubstr("there are no labels of classes 1, 3: the rate is undefined"));
  EXPECT_THAT(caution_of(per_class_precision(labels, said, 4)),
              HasSubstr("nothing is predicted as class 3: the rate is undefined"));
  // Keras leaves them out of the mean.
  EXPECT_EQ(caution_of(mean_iou(labels, said, 4)), "");
  EXPECT_THAT(caution_of(mean_iou(labels, said, 4, torch::zeros({3}))), HasSubstr("no label"));
  const Tensor y = tensor_of({1, 0, 0, 0, 1, 0}, {2, 3}), p = tensor_of({1, 0, 0, 1, 0, 0}, {2, 3});
  EXPECT_THAT(caution_of(f1_score(y, p, {}, {.threshold = 0.5})),
              HasSubstr("neither labels nor predictions of class 2"));
  EXPECT_EQ(caution_of(f1_score(y, p, {}, {.average = Average::kMicro, .threshold = 0.5})), "");
  EXPECT_THAT(caution_of(r2_score(tensor_of({3, 3}, {2}), tensor_of({1, 2}, {2}))),
              HasSubstr("all labels are equal"));
  EXPECT_EQ(caution_of(r2_score(tensor_of({3, 4}, {2}), tensor_of({1, 2}, {2}))), "");
  EXPECT_THAT(caution_of(metrics::mean(tensor_of({3}, {1}), torch::zeros({1}))),
              HasSubstr("no example"));
  EXPECT_EQ(caution_of(metrics::mean(tensor_of({3}, {1}))), "");
}

TEST(ClassMetrics, KnowWhichValuesAreBetter) {
  const Tensor y = tensor_of({0, 1}, {2}), p = tensor_of({0.2, 0.8}, {2});
  const auto better = [](const Metric& metric) { return metric.definition()->better; };
  for (const Metric& metric :
       {auc(y, p), precision(y, p), recall(y, p), true_positives(y, p), r2_score(y, p),
        mean_iou(y, y, 2), per_class_recall(y, y, 2), f1_score(y, p), precision_at_recall(y, p, 1),
        metrics::cosine_similarity(y, p), binary_accuracy(y, p)}) {
    EXPECT_EQ(better(metric), Better::kHigher) << metric.kind();
  }
  for (const Metric& metric : {false_positives(y, p), mean_squared_error(y, p), hinge(y, p),
                               poisson(y, p), log_cosh(y, p), binary_crossentropy(y, p)}) {
    EXPECT_EQ(better(metric), Better::kLower) << metric.kind();
  }
  EXPECT_EQ(better(metrics::mean(p)), Better::kUnknown);
  EXPECT_EQ(better(metrics::sum(p)), Better::kUnknown);
}

TEST(ClassMetrics, RefuseWhatCannotBe) {
  const Tensor y = tensor_of({0, 1, 2}, {3}, kInt64);
  EXPECT_EQ(message_of([&] { (void)confusion_matrix(y, y, 2).state(); }),
            "metrics::confusion_matrix: labels[2] is 2; labels are class numbers from 0 to 1");
  EXPECT_EQ(message_of([&] { (void)per_class_recall(y * 0, y + 0.5, 4).state(); }),
            "metrics::per_class_recall: predictions[0] is 0.5; predictions are class numbers from "
            "0 to 3");
  EXPECT_EQ(message_of([&] { binary_accuracy(y, y, {}, {.threshold = std::nan("")}); }),
            "metrics::binary_accuracy: threshold is nan; it must be a number");
  EXPECT_EQ(message_of([&] { mean_iou(y, y, 0); }),
            "metrics::mean_iou: num_classes is 0; it must be at least 1");
  EXPECT_EQ(message_of([&] { per_class_precision(y, y.slice(0, 1), 3); }),
            "metrics::per_class_precision: labels int64[3] do not fit predictions int64[2]");
  EXPECT_EQ(message_of([&] { f_beta_score(y, y, {}, {.beta = 0}); }),
            "metrics::f_beta_score: beta is 0; it must be finite and above 0");
  EXPECT_EQ(message_of([&] { f1_score(y, y, {}, {.threshold = 1.5}); }),
            "metrics::f1_score: threshold is 1.5; it must be in (0, 1]");
  EXPECT_EQ(message_of([&] { (void)f1_score(y, y).state(); }),
            "metrics::f1_score: labels[2] is 2; labels are in [0, 1]");
  EXPECT_EQ(message_of([&] { r2_score(y, y, {}, {.num_regressors = -1}); }),
            "metrics::r2_score: num_regressors is -1; it must be at least 0");
}

TEST(EveryMetric, RefusesANegativeWeight) {
  const Tensor y = torch::tensor({0, 1, 1}), p = torch::tensor({0.25, 0.5, 0.75});
  const Tensor w = torch::tensor({1.0, -2.0, 1.0});
  const Tensor one_hot = torch::eye(3);
  for (const auto& [name, metric] : std::map<std::string, Metric>{
           {"accuracy", accuracy(y, y, w)},
           {"auc", auc(y, p, w)},
           {"precision", precision(y, p, w)},
           {"f1_score", f1_score(one_hot, one_hot, w)},
           {"confusion_matrix", confusion_matrix(y, y, 2, w)},
           {"r2_score", r2_score(p, p, w)},
           {"mean", mean(p, w)},
           {"sparse_categorical_crossentropy", sparse_categorical_crossentropy(y, one_hot, w)}}) {
    EXPECT_EQ(message_of([&metric = metric] {
                (void)metric.result();
              }).find("metrics::" + name + ": weights[1"),
              0u)
        << name;
  }
  EXPECT_EQ(message_of([&] { (void)accuracy(y, y, w).result(); }),
            "metrics::accuracy: weights[1] is -2; weights are at least 0");
  EXPECT_EQ(sum(p, w).result(), 0) << "a sum of values is none of examples";
}

TEST(EveryMetric, SaysWhatToDoWithClassNumbers) {
  const Tensor y = torch::tensor({0, 1, 2}), p = torch::rand({3, 3});
  const auto hint = [](const auto& make) { return error_of(make).hint(); };
  EXPECT_EQ(hint([&] { categorical_accuracy(y, p); }),
            "labels are one-hot here; for class numbers there is sparse_categorical_accuracy");
  EXPECT_EQ(hint([&] { f1_score(y, p); }),
            "both need the same shape: class numbers become one-hot by at::one_hot(labels, 3)");
  EXPECT_EQ(hint([&] { precision(y, p.slice(1, 0, 2)); }),
            "both need the same shape: class numbers become one-hot by at::one_hot(labels, 2); of "
            "two classes the probability of the second is enough: predictions.select(-1, 1)");
  EXPECT_EQ(hint([&] { mean_iou(y, p, 3); }), "both are class numbers: predictions.argmax(-1)");
}

// If [batch] is computed as [batch, 1], errors show the given shape.
TEST(EveryMetric, ShowsTheShapesItWasGiven) {
  const Tensor y = torch::tensor({0, 1, 2, 1}), p = torch::full({4}, 0.5);
  EXPECT_EQ(message_of([&] { (void)auc(y, p).result(); }),
            "metrics::auc: labels[2] is 2; labels are in [0, 1]");
  EXPECT_EQ(message_of([&] { auc(y, p, torch::ones({2})); }),
            "metrics::auc: weights float32[2] do not fit predictions float32[4]");
  EXPECT_EQ(message_of([&] { precision(y, p, {}, {.top_k = 3}); }),
            "metrics::precision: top_k is 3; it must be from 1 to 1 for predictions float32[4]");
}

}  // namespace
}  // namespace muster::inline v0_1::metrics
