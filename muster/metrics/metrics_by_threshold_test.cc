// Counts above thresholds, compared with plain counting of pairs and thresholds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error_of.h"
#include "muster/metrics/internal/test_numbers.h"
#include "muster/metrics/metrics.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics {
namespace {

using testing::caution_of;
using ::testing::HasSubstr;
using testing::numbers;
using testing::Row;
using testing::tensor_of;
using testing::whole_numbers;

struct Counts {
  double tp = 0, fp = 0, tn = 0, fn = 0;
};

// One comparison for each number, in float32 as in Keras.
Counts counted_at(double threshold, const Row& labels, const Row& predictions, const Row& weights) {
  Counts counts;
  for (size_t i = 0; i < labels.size(); ++i) {
    const bool above = static_cast<float>(predictions[i]) > static_cast<float>(threshold);
    (labels[i] != 0 ? (above ? counts.tp : counts.fn) : (above ? counts.fp : counts.tn)) +=
        weights[i];
  }
  return counts;
}

// The part of the pairs of a positive and a negative in which the positive is larger; equal ones
// count half. This is the area under the ROC curve for infinitely many thresholds.
double area_by_pairs(const Row& labels, const Row& predictions, const Row& weights) {
  double right = 0, all = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] == 0 || labels[j] != 0) continue;
      const double weight = weights[i] * weights[j];
      right += weight * (predictions[i] > predictions[j]    ? 1.0
                         : predictions[i] == predictions[j] ? 0.5
                                                            : 0.0);
      all += weight;
    }
  }
  return right / all;
}

TEST(Auc, OfManyThresholdsIsTheRankingOfPairs) {
  constexpr int64_t kCount = 400, kGrid = 1024;
  for (const uint64_t seed : {1, 2, 3}) {
    const Row labels = whole_numbers(seed, kCount, 2);
    Row predictions = numbers(seed + 100, kCount, kGrid);
    // Pull positives up, so that the area is not just 1/2.
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] != 0) predictions[i] = (predictions[i] * kGrid + 3 * kGrid) / (4 * kGrid);
    const Row weights = whole_numbers(seed + 200, kCount, 4, 1);
    const double area = area_by_pairs(labels, predictions, weights);
    EXPECT_GT(area, 0.6);
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Metric metric =
          auc(tensor_of(labels, {kCount}), tensor_of(predictions, {kCount}, dtype),
              tensor_of(weights, {kCount}), {.num_thresholds = 16 * kGrid});
      EXPECT_NEAR(metric.result(), area, 1e-12);
    }
  }
}

// Keras's definition, with every number compared to every threshold.
TEST(Auc, IsKerasesSumOverThresholds) {
  constexpr int64_t kCount = 300;
  const Row labels = whole_numbers(5, kCount, 2);
  const Row predictions = numbers(6, kCount, 199);  // many lie on a threshold
  const Row weights = numbers(7, kCount);
  const Tensor y = tensor_of(labels, {kCount}), p = tensor_of(predictions, {kCount});
  const Tensor w = tensor_of(weights, {kCount}, kFloat64);
  double roc = 0, minoring = 0, majoring = 0, pr = 0, pr_minoring = 0;
  Counts last;
  const auto part = [](double a, double b) { return b == 0 ? 0 : a / b; };
  for (int k = 0; k < 200; ++k) {
    const double threshold = k == 0 ? -1e-7 : k == 199 ? 1 + 1e-7 : k / 199.0;
    const Counts now = counted_at(threshold, labels, predictions, weights);
    if (k > 0) {
      const double x0 = part(last.fp, last.fp + last.tn), x1 = part(now.fp, now.fp + now.tn);
      const double y0 = part(last.tp, last.tp + last.fn), y1 = part(now.tp, now.tp + now.fn);
      roc += (x0 - x1) * (y0 + y1) / 2;
      minoring += (x0 - x1) * std::min(y0, y1);
      majoring += (x0 - x1) * std::max(y0, y1);
      pr_minoring +=
          (y0 - y1) * std::min(part(last.tp, last.tp + last.fp), part(now.tp, now.tp + now.fp));
      const double p0 = last.tp + last.fp, p1 = now.tp + now.fp;
      const double slope = part(last.tp - now.tp, std::max(p0 - p1, 0.0));
      const double growth = p0 > 0 && p1 > 0 ? p0 / p1 : 1;
      pr += part(slope * (last.tp - now.tp + (now.tp - slope * p1) * std::log(growth)),
                 now.tp + now.fn);
    }
    last = now;
  }
  EXPECT_NEAR(auc(y, p, w).result(), roc, 1e-12);
  EXPECT_NEAR(auc(y, p, w, {.summation_method = SummationMethod::kMinoring}).result(), minoring,
              1e-12);
  EXPECT_NEAR(auc(y, p, w, {.summation_method = SummationMethod::kMajoring}).result(), majoring,
              1e-12);
  EXPECT_NEAR(auc(y, p, w, {.curve = Curve::kPr}).result(), pr, 1e-12);
  EXPECT_NEAR(
      auc(y, p, w, {.curve = Curve::kPr, .summation_method = SummationMethod::kMinoring}).result(),
      pr_minoring, 1e-12);
  EXPECT_EQ(auc(y, p, w).kind(),
            "auc(curve=ROC, summation_method=interpolation, num_thresholds=200)");
}

TEST(Auc, SaysWhereItIsNotDefined) {
  const Tensor p = tensor_of({0.2, 0.4, 0.8}, {3});
  const Tensor ones = tensor_of({1, 1, 1}, {3}), zeros = tensor_of({0, 0, 0}, {3});
  EXPECT_EQ(auc(ones, p).result(), 0);  // as in Keras
  EXPECT_THAT(caution_of(auc(ones, p)), HasSubstr("all labels are positive"));
  EXPECT_THAT(caution_of(auc(zeros, p)), HasSubstr("no label is positive"));
  EXPECT_THAT(caution_of(auc(zeros, p, {}, {.curve = Curve::kPr})), HasSubstr("no label"));
  // Precision over recall needs no negative label.
  EXPECT_EQ(caution_of(auc(ones, p, {}, {.curve = Curve::kPr})), "");
  EXPECT_EQ(caution_of(auc(tensor_of({0, 1, 1}, {3}), p)), "");
  const Tensor y = tensor_of({1, 0, 0, 0}, {2, 2}), q = tensor_of({0.2, 0.4, 0.6, 0.8}, {2, 2});
  EXPECT_THAT(caution_of(auc(y, q, {}, {.multi_label = true})),
              HasSubstr("of label 1, no label is positive"));
}

TEST(Auc, SaysWhereThresholdsDoNotSeeTheOrder) {
  // A rare event: all probabilities are below the second threshold, and in perfect order.
  const Tensor rare = torch::linspace(0.0001, 0.0045, 1000);
  const Tensor last = torch::cat({torch::zeros({990}), torch::ones({10})});
  const Metric coarse = auc(last, rare);
  EXPECT_NEAR(coarse.result(), 0.5, 1e-9);  // as in Keras
  EXPECT_THAT(caution_of(coarse), HasSubstr("200 thresholds, which do not tell them apart"));
  const Metric fine = auc(last, rare, {}, {.num_thresholds = 20000});
  EXPECT_NEAR(fine.result(), 1, 2e-3);
  EXPECT_EQ(caution_of(fine), "");
  // A user who gives thresholds has seen the predictions.
  EXPECT_EQ(caution_of(auc(last, rare, {}, {.thresholds = {0.5}})), "");
  // Equal predictions have no order that a threshold could miss.
  EXPECT_EQ(caution_of(auc(last, torch::full({1000}, 0.3))), "");
  EXPECT_EQ(caution_of(auc(last, last)), "");
  // Merged batches give the same warning as all rows at once.
  Metric merged = auc(last.slice(0, 0, 995), rare.slice(0, 0, 995));
  merged.merge(auc(last.slice(0, 995), rare.slice(0, 995)));
  EXPECT_EQ(merged.state(), coarse.state());
  EXPECT_EQ(coarse.definition()->better, Better::kHigher);
}

TEST(Precision, SaysWhereItIsNotDefined) {
  const Tensor y = tensor_of({0, 1}, {2}), none = tensor_of({0, 0}, {2});
  const Tensor low = tensor_of({0.1, 0.4}, {2}), high = tensor_of({0.1, 0.6}, {2});
  EXPECT_THAT(caution_of(precision(y, low)), HasSubstr("nothing is predicted to be positive"));
  EXPECT_EQ(caution_of(precision(y, high)), "");
  EXPECT_THAT(caution_of(precision(y, high, {}, {.thresholds = {0.3, 0.9}})),
              HasSubstr("at the threshold 0.9 nothing is predicted"));
  EXPECT_THAT(caution_of(recall(none, high)), HasSubstr("no label is positive"));
  EXPECT_EQ(caution_of(recall(y, low)), "");
  EXPECT_THAT(caution_of(precision_at_recall(none, low, 0.5)), HasSubstr("no label is positive"));
  EXPECT_THAT(caution_of(sensitivity_at_specificity(tensor_of({1, 1}, {2}), low, 0.5)),
              HasSubstr("every label is positive"));
  EXPECT_THAT(caution_of(recall_at_precision(tensor_of({1, 0}, {2}), low, 0.9)),
              HasSubstr("no threshold reaches a precision of 0.9"));
  EXPECT_EQ(caution_of(recall_at_precision(y, low, 0.9)), "");
}

TEST(Auc, TakesThresholdsInAnyOrderAndPlace) {
  // Keras's example: thresholds 0, 0.5 and 1 of [0, 0.5, 0.3, 0.9].
  const Tensor y = tensor_of({0, 0, 1, 1}, {4}), p = tensor_of({0, 0.5, 0.3, 0.9}, {4});
  EXPECT_NEAR(auc(y, p, {}, {.num_thresholds = 3}).result(), 0.75, 1e-7);
  EXPECT_NEAR(auc(y, p, {}, {.thresholds = {0.5}}).result(), 0.75, 1e-7);
  EXPECT_NEAR(auc(y, p, tensor_of({1, 0, 0, 1}, {4}), {.num_thresholds = 3}).result(), 1, 1e-7);
  const Metric near = auc(y, p, {}, {.thresholds = {0.899, 0.3, 0.898, 0.897, 0.29, 0.896}});
  EXPECT_EQ(near.state().size(), 36u);  // and the range of predictions of each
  // Among the positives, 0.9 is above all seven in [0, 1), 0.3 above -1e-7 and 0.29 alone: not
  // above
  // 0.3.
  EXPECT_EQ(Row(near.state().begin(), near.state().begin() + 9), (Row{0, 0, 1, 0, 0, 0, 0, 1, 0}));
}

TEST(Auc, OfSeveralLabels) {
  constexpr int64_t kRows = 60, kLabels = 3;
  const Row labels = whole_numbers(8, kRows * kLabels, 2);
  const Row predictions = numbers(9, kRows * kLabels);
  const Tensor y = tensor_of(labels, {kRows, kLabels}),
               p = tensor_of(predictions, {kRows, kLabels});
  const Tensor w = tensor_of(numbers(10, kRows), {kRows});
  const Metric each = auc(y, p, w, {.multi_label = true});
  double mean = 0;
  for (int64_t c = 0; c < kLabels; ++c) {
    const double alone = auc(y.select(1, c), p.select(1, c), w).result();
    EXPECT_EQ(each.parts()[static_cast<size_t>(c)], alone);
    mean += alone / kLabels;
  }
  EXPECT_NEAR(each.result(), mean, 1e-15);
  EXPECT_EQ(each.definition()->part_names,
            (std::vector<std::string>{"label_0", "label_1", "label_2"}));
  const std::vector<double> by{1, 0, 3};
  const Metric weighted = auc(y, p, w, {.multi_label = true, .label_weights = by});
  EXPECT_NEAR(weighted.result(), (each.parts()[0] + 3 * each.parts()[2]) / 4, 1e-15);
  // Without multi_label they are weights of predictions.
  const Tensor both = w.unsqueeze(1) * tensor_of(by, {1, kLabels});
  EXPECT_NEAR(auc(y, p, w, {.label_weights = by}).result(), auc(y, p, both).result(), 1e-7);
  const Tensor logits = tensor_of({-3, 0.5, 2, 90}, {4}), truth = tensor_of({0, 1, 0, 1}, {4});
  EXPECT_EQ(auc(truth, logits, {}, {.from_logits = true}).state(),
            auc(truth, logits.sigmoid()).state());
}

TEST(Precision, AndTheOthersAreCountsAtTheirThresholds) {
  constexpr int64_t kCount = 200;
  const Row labels = whole_numbers(11, kCount, 2);
  Row predictions = numbers(12, kCount, 10);  // 0.3 and others lie on a threshold
  const Row weights = whole_numbers(13, kCount, 3);
  const Tensor y = tensor_of(labels, {kCount}), p = tensor_of(predictions, {kCount});
  const Tensor w = tensor_of(weights, {kCount});
  const std::vector<double> thresholds{0.7, 0.3, 1, 0, 0.3};
  const auto tp = true_positives(y, p, w, {thresholds}).parts();
  const auto fp = false_positives(y, p, w, {thresholds}).parts();
  const auto tn = true_negatives(y, p, w, {thresholds}).parts();
  const auto fn = false_negatives(y, p, w, {thresholds}).parts();
  const auto precisions = precision(y, p, w, {.thresholds = thresholds}).parts();
  const auto recalls = recall(y, p, w, {.thresholds = thresholds}).parts();
  for (size_t t = 0; t < thresholds.size(); ++t) {
    const Counts counts = counted_at(thresholds[t], labels, predictions, weights);
    EXPECT_EQ(tp[t], counts.tp);
    EXPECT_EQ(fp[t], counts.fp);
    EXPECT_EQ(tn[t], counts.tn);
    EXPECT_EQ(fn[t], counts.fn);
    EXPECT_EQ(precisions[t], counts.tp + counts.fp == 0 ? 0 : counts.tp / (counts.tp + counts.fp));
    EXPECT_EQ(recalls[t], counts.tp / (counts.tp + counts.fn));
  }
  const Metric several = precision(y, p, w, {.thresholds = thresholds});
  EXPECT_EQ(several.result(), precisions[0]);
  EXPECT_EQ(several.definition()->part_names[1], "threshold_0.3");
  EXPECT_EQ(several.kind(), "precision(thresholds=[0.7, 0.3, 1, 0, 0.3])");
  const Counts half = counted_at(0.5, labels, predictions, weights);
  EXPECT_EQ(precision(y, p, w).result(), half.tp / (half.tp + half.fp));
  EXPECT_TRUE(precision(y, p, w).parts().empty());
}

// Keras's own numbers, of its tests of top_k and class_id.
TEST(Precision, OfTheLargestAndOfOneClass) {
  const Tensor y = tensor_of({0, 1, 1, 0, 0}, {1, 5}),
               p = tensor_of({0.2, 0.1, 0.5, 0, 0.2}, {1, 5});
  // The three largest are 0.5 and both 0.2.
  EXPECT_NEAR(precision(y, p, {}, {.top_k = 3}).result(), 1.0 / 3, 1e-15);
  EXPECT_EQ(recall(y, p, {}, {.top_k = 3}).result(), 0.5);
  EXPECT_EQ(precision(y, p, {}, {.thresholds = {0.4}, .top_k = 3}).result(), 1.0);
  EXPECT_EQ(recall(y, p, {}, {.top_k = 3, .class_id = 1}).result(), 0.0);
  EXPECT_EQ(recall(y, p, {}, {.top_k = 3, .class_id = 2}).result(), 1.0);
  // Among equal ones the first is among the largest two.
  EXPECT_EQ(true_positives(tensor_of({1, 0, 0, 0, 1}, {1, 5}), p).result(), 0.0);
  EXPECT_EQ(precision(tensor_of({1, 0, 1, 0, 0}, {1, 5}), p, {}, {.top_k = 2}).result(), 1.0);
  EXPECT_EQ(precision(tensor_of({0, 0, 1, 0, 1}, {1, 5}), p, {}, {.top_k = 2}).result(), 0.5);
  // Weights of examples weight each class.
  const Tensor two = tensor_of({1, 0, 1, 1}, {2, 2}), given = tensor_of({1, 1, 0, 1}, {2, 2});
  EXPECT_EQ(precision(two, given, tensor_of({1, 4}, {2})).result(), 5.0 / 6);
  EXPECT_EQ(recall(two, given, tensor_of({1, 4}, {2, 1}), {.class_id = 0}).result(), 0.2);
}

TEST(OperatingPoint, IsTheBestThatKeepsItsConstraint) {
  constexpr int64_t kCount = 150;
  const Row labels = whole_numbers(14, kCount, 2);
  const Row predictions = numbers(15, kCount);
  const Row weights = numbers(16, kCount);
  const Tensor y = tensor_of(labels, {kCount}), p = tensor_of(predictions, {kCount});
  const Tensor w = tensor_of(weights, {kCount}, kFloat64);
  for (const double least : {0.0, 0.35, 0.6, 0.9}) {
    double precision = 0, recall = 0, sensitivity = 0, specificity = 0;
    for (int k = 0; k < 200; ++k) {
      const Counts at = counted_at(k / 199.0, labels, predictions, weights);
      const double precise = at.tp + at.fp == 0 ? 0 : at.tp / (at.tp + at.fp);
      const double recalled = at.tp / (at.tp + at.fn), specific = at.tn / (at.tn + at.fp);
      if (recalled >= least) precision = std::max(precision, precise);
      if (precise >= least) recall = std::max(recall, recalled);
      if (specific >= least) sensitivity = std::max(sensitivity, recalled);
      if (recalled >= least) specificity = std::max(specificity, specific);
    }
    EXPECT_NEAR(precision_at_recall(y, p, least, w).result(), precision, 1e-12);
    EXPECT_NEAR(recall_at_precision(y, p, least, w).result(), recall, 1e-12);
    EXPECT_NEAR(sensitivity_at_specificity(y, p, least, w).result(), sensitivity, 1e-12);
    EXPECT_NEAR(specificity_at_sensitivity(y, p, least, w).result(), specificity, 1e-12);
  }
  const Counts half = counted_at(0.5, labels, predictions, weights);
  EXPECT_NEAR(recall_at_precision(y, p, 0, w, {.num_thresholds = 1}).result(),
              half.tp / (half.tp + half.fn), 1e-12);
  // Keras's examples.
  const Tensor truth = tensor_of({0, 0, 0, 1, 1}, {5}),
               said = tensor_of({0, 0.3, 0.8, 0.3, 0.8}, {5});
  EXPECT_NEAR(precision_at_recall(truth, said, 0.5).result(), 0.5, 1e-12);
  EXPECT_NEAR(precision_at_recall(truth, said, 0.5, tensor_of({2, 2, 2, 1, 1}, {5})).result(),
              1.0 / 3, 1e-12);
  EXPECT_NEAR(
      recall_at_precision(tensor_of({0, 0, 1, 1}, {4}), tensor_of({0, 0.5, 0.3, 0.9}, {4}), 0.8)
          .result(),
      0.5, 1e-12);
  EXPECT_NEAR(sensitivity_at_specificity(truth, said, 0.5).result(), 0.5, 1e-12);
  EXPECT_NEAR(specificity_at_sensitivity(truth, said, 0.5).result(), 2.0 / 3, 1e-12);
  EXPECT_EQ(recall_at_precision(truth, said, 1.0).result(), 0.0) << "no threshold is that precise";
  const Tensor two = tensor_of({0, 1, 1, 0}, {2, 2}),
               given = tensor_of({0.9, 0.8, 0.1, 0.7}, {2, 2});
  EXPECT_EQ(precision_at_recall(two, given, 1, {}, {.class_id = 1}).result(), 1.0);
}

TEST(ThresholdMetrics, ReadBfloat16InFloat32) {
  const Tensor p = tensor_of({0.25, 0.5, 0.75, 1}, {4}, kBFloat16);
  const Tensor y = tensor_of({0, 1, 1, 0}, {4}, kBFloat16);
  EXPECT_EQ(auc(y, p, y + 1).state(),
            auc(y.to(kFloat64), p.to(kFloat64), y.to(kFloat32) + 1).state());
  EXPECT_EQ(true_positives(y, p).result(), 1.0);
}

TEST(ThresholdMetrics, RefuseWhatIsNoProbability) {
  const Tensor y = tensor_of({0, 1, 1, 0}, {2, 2}), p = tensor_of({0.5, 1, 1.5, 0}, {2, 2});
  EXPECT_EQ(message_of([&] { (void)auc(y, p).state(); }),
            "metrics::auc: predictions[1, 0] is 1.5; predictions are probabilities in [0, 1]");
  EXPECT_EQ(error_of([&] { (void)auc(y, p).state(); }).hint(), "for logits: {.from_logits = true}");
  EXPECT_EQ(error_of([&] { (void)recall(y, p).state(); }).hint(), "");
  EXPECT_EQ(message_of([&] { (void)recall(y, p, {}, {.top_k = 1, .class_id = 1}).state(); }),
            "metrics::recall: predictions[1, 0] is 1.5; predictions are probabilities in [0, 1]");
  EXPECT_NO_THROW((void)recall(y, p, {}, {.class_id = 1}).state());
  EXPECT_EQ(
      message_of([&] { (void)precision(y, p * NAN).state(); }),
      "metrics::precision: predictions[0, 0] is nan; predictions are probabilities in [0, 1]");
  EXPECT_EQ(message_of([&] { (void)auc(2 * y - 1, y).state(); }),
            "metrics::auc: labels[0, 0] is -1; labels are in [0, 1]");
}

TEST(ThresholdMetrics, RefuseArgumentsThatCannotBe) {
  const Tensor y = tensor_of({0, 1, 1, 0}, {2, 2});
  const auto said = [](auto call) { return message_of(call); };
  EXPECT_EQ(said([&] { auc(y, y, {}, {.num_thresholds = 1}); }),
            "metrics::auc: num_thresholds is 1; it must be at least 2");
  EXPECT_EQ(said([&] {
              auc(y, y, {}, {.thresholds = {0.5, -0.1}});
            }),
            "metrics::auc: a threshold is -0.1; it must be in [0, 1]");
  EXPECT_EQ(said([&] {
              auc(y, y, {}, {.label_weights = {1, -1}});
            }),
            "metrics::auc: a label weight is -1; it must be finite and 0 or more");
  EXPECT_EQ(said([&] { auc(y, y, {}, {.multi_label = true, .label_weights = {1}}); }),
            "metrics::auc: the number of label_weights is 1; it must be from 2 to 2 for "
            "predictions float32[2, 2]");
  EXPECT_EQ(said([&] { precision(y, y, {}, {.thresholds = {2}}); }),
            "metrics::precision: a threshold is 2; it must be in [0, 1]");
  EXPECT_EQ(said([&] { precision(y, y, {}, {.top_k = 3}); }),
            "metrics::precision: top_k is 3; it must be from 1 to 2 for predictions float32[2, 2]");
  EXPECT_EQ(said([&] { recall(y, y, {}, {.class_id = 2}); }),
            "metrics::recall: class_id is 2; it must be from 0 to 1 for predictions float32[2, 2]");
  EXPECT_EQ(said([&] { precision_at_recall(y, y, 1.5); }),
            "metrics::precision_at_recall: recall is 1.5; it must be in [0, 1]");
  EXPECT_EQ(said([&] { recall_at_precision(y, y, 0.5, {}, {.num_thresholds = 0}); }),
            "metrics::recall_at_precision: num_thresholds is 0; it must be at least 1");
  EXPECT_EQ(said([&] { auc(y, y.slice(0, 0, 1)); }),
            "metrics::auc: labels float32[2, 2] do not fit predictions float32[1, 2]");
  EXPECT_EQ(said([&] {
              auc(y, y, y.slice(0, 0, 1).expand({3, 2}));
            }),
            "metrics::auc: weights float32[3, 2] do not fit predictions float32[2, 2]");
}

}  // namespace
}  // namespace muster::inline v0_1::metrics
