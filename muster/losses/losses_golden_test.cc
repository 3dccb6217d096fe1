// Losses of tf.estimator's own tests, from the logits its models and heads have there.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/losses/losses.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

enum class Head { kBinary, kMultiClass, kRegression };

// Rows of one shape; the number of them follows from it.
struct Golden {
  const char* id{};
  Head head;
  Shape shape{};                 // of the logits
  std::vector<double> logits{};  // as tf.estimator's checkpoint or test gives them
  std::vector<double> labels{};  // one for each logit; of kMultiClass one for each row
  std::vector<double> weights{};
  Reduction reduction;
  double expected{};
  double tolerance{};  // relative
};

constexpr Reduction kOverBatch = Reduction::kSumOverBatchSize;
constexpr Reduction kAdded = Reduction::kSum;
constexpr double kLn2 = 0.6931471805599453;

const std::vector<Golden>& golden() {
  using enum Head;
  static const std::vector<Golden> cases = {
      {"lin_reg_eval_simple", kRegression, {1, 1}, {13}, {10}, {}, kOverBatch, 9, 1e-6},
      {"lin_reg_eval_weights",
       kRegression,
       {2, 1},
       {13, 13},
       {10, 10},
       {1, 2},
       kOverBatch,
       13.5,
       1e-6},
      {"lin_reg_eval_two_columns",
       kRegression,
       {2, 1},
       {213, 421},
       {213, 421},
       {},
       kOverBatch,
       0,
       1e-6},
      {"lin_reg_train_from_ckpt", kRegression, {1, 1}, {175}, {5}, {}, kOverBatch, 28900, 1e-6},
      {"base_reg_eval_simple", kRegression, {1, 1}, {13}, {10}, {}, kOverBatch, 9, 1e-6},
      {"base_reg_train_ckpt", kRegression, {1, 1}, {7}, {5}, {}, kOverBatch, 4, 1e-6},
      {"derived_sgd_linreg", kRegression, {1, 1}, {0}, {5}, {}, kOverBatch, 25, 1e-5},
      {"head_reg_eval", kRegression, {2, 1}, {45, 41}, {43, 44}, {}, kOverBatch, 6.5, 1e-6},
      {"head_reg_weighted",
       kRegression,
       {3, 1},
       {45, 41, 44},
       {35, 42, 45},
       {1, 0.1, 1.5},
       kOverBatch,
       33.8666667,
       1e-6},
      {"head_reg_multibatch_eval 0", kRegression, {1, 1}, {45}, {35}, {1}, kOverBatch, 100, 1e-6},
      {"head_reg_multibatch_eval 1", kRegression, {1, 1}, {41}, {42}, {0.1}, kOverBatch, 0.1, 1e-6},
      {"head_reg_multibatch_eval 2", kRegression, {1, 1}, {44}, {45}, {1.5}, kOverBatch, 1.5, 1e-6},
      {"dnn_reg_eval_3d_weights",
       kRegression,
       {1, 3},
       {-0.48, 0.48, 0.39},
       {1, -1, 0.5},
       {10},
       kOverBatch,
       14.643,
       1e-5},
      {"lin_cls_train_scratch_n2", kBinary, {1, 1}, {0}, {1}, {}, kOverBatch, kLn2, 1e-6},
      {"derived_ftrl_baseline_cls", kBinary, {1, 1}, {0}, {1}, {}, kOverBatch, kLn2, 1e-5},
      {"lin_cls_eval_batch_binary", kBinary, {2, 1}, {-1, 1}, {1, 0}, {}, kOverBatch, 1.3133, 1e-3},
      {"base_cls_eval_batch", kBinary, {2, 1}, {-1, -1}, {1, 0}, {}, kOverBatch, 0.81325, 1e-3},
      {"dnn_cls_eval_binary_v1_sum",
       kBinary,
       {2, 1},
       {-2.08, -2.08},
       {1, 0},
       {},
       kAdded,
       2.315442,
       1e-6},
      {"dnn_cls_eval_binary_v1_sum average_loss",
       kBinary,
       {2, 1},
       {-2.08, -2.08},
       {1, 0},
       {},
       kOverBatch,
       1.157721,
       1e-6},
      {"head_bin_eval_reg", kBinary, {2, 1}, {45, -41}, {1, 1}, {}, kOverBatch, 20.5, 1e-6},
      {"head_bin_train_1d_weights",
       kBinary,
       {3, 1},
       {45, -41, 44},
       {1, 1, 0},
       {1, 0.1, 1.5},
       kOverBatch,
       23.366666667,
       1e-6},
      {"head_ml_eval",
       kBinary,
       {2, 2},
       {-1, 1, -1.5, 1.5},
       {1, 0, 1, 1},
       {},
       kOverBatch,
       1.1323374827504877,
       1e-6},
      {"head_ml_multidim",
       kBinary,
       {2, 2, 3},
       {-10, 10, -10, 10, -10, 10, -12, 12, -12, 12, -12, 12},
       {1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1},
       {1, 1.5, 2, 2.5},
       kOverBatch,
       9.9167,
       1e-5},
      {"lin_cls_train_ckpt_multi",
       kMultiClass,
       {1, 4},
       {-35, -1, 33, 67},
       {1},
       {},
       kOverBatch,
       68,
       1e-6},
      {"lin_cls_train_multibatch_multi",
       kMultiClass,
       {2, 4},
       {-35, -1, 33, 67, -35, 2, 39, 76},
       {1, 0},
       {},
       kOverBatch,
       89.5,
       1e-6},
      {"lin_cls_eval_weights_multi",
       kMultiClass,
       {2, 4},
       {-35, -1, 33, 67, -35, 1, 37, 73},
       {1, 0},
       {1, 2},
       kOverBatch,
       142,
       1e-6},
      {"dnn_cls_eval_weights",
       kMultiClass,
       {2, 3},
       {-0.48, 0.48, 0.39, -0.48, 0.48, 0.39},
       {1, 0},
       {10, 100},
       kOverBatch,
       93.734,
       1e-6},
      {"dnn_cls_eval_weights, added",
       kMultiClass,
       {2, 3},
       {-0.48, 0.48, 0.39, -0.48, 0.48, 0.39},
       {1, 0},
       {10, 100},
       kAdded,
       187.468007,
       1e-6},
      {"dnn_cls_train_multi",
       kMultiClass,
       {1, 3},
       {-2.08, 2.08, 1.19},
       {1},
       {},
       kOverBatch,
       0.35505795,
       1e-6},
      {"head_multi_eval",
       kMultiClass,
       {2, 3},
       {10, 0, 0, 0, 10, 0},
       {1, 1},
       {},
       kOverBatch,
       5,
       1e-2},
      {"head_multi_weighted_eval",
       kMultiClass,
       {3, 3},
       {10, 0, 0, 0, 10, 0, 0, 0, 10},
       {1, 2, 2},
       {1, 2, 3},
       kOverBatch,
       10,
       1e-2},
  };
  return cases;
}

Tensor shaped(const std::vector<double>& values, at::IntArrayRef shape) {
  return torch::tensor(values, at::kFloat).view(shape);
}

Tensor loss_of(Head head, const Tensor& labels, const Tensor& logits, const Tensor& weights,
               Reduction reduction) {
  switch (head) {
    case Head::kBinary:
      return binary_crossentropy(
          labels, logits, {.from_logits = true, .reduction = reduction, .sample_weight = weights});
    case Head::kMultiClass:
      return sparse_categorical_crossentropy(
          labels.to(at::kLong), logits,
          {.from_logits = true, .reduction = reduction, .sample_weight = weights});
    case Head::kRegression:
      return mean_squared_error(labels, logits, {.reduction = reduction, .sample_weight = weights});
  }
  throw std::logic_error("no such head");
}

TEST(GoldenLosses, AreTfEstimators) {
  for (const Golden& each : golden()) {
    SCOPED_TRACE(each.id);
    const Shape batch(each.shape.begin(), each.shape.end() - 1);
    const Tensor logits = shaped(each.logits, each.shape);
    const Tensor labels = shaped(each.labels, each.head == Head::kMultiClass ? batch : each.shape);
    const Tensor weights = each.weights.empty() ? Tensor() : shaped(each.weights, batch);
    const double tolerance = each.tolerance * std::max(1.0, each.expected);
    EXPECT_NEAR(loss_of(each.head, labels, logits, weights, each.reduction).item<float>(),
                each.expected, tolerance);
    if (each.weights.empty()) continue;
    EXPECT_NEAR(
        loss_of(each.head, labels, logits, weights.unsqueeze(-1), each.reduction).item<float>(),
        each.expected, tolerance)
        << "with weights that have a last axis of 1";
  }
}

// head_bin_train_1d_weights: labels of [batch] for logits of [batch, 1].
TEST(GoldenLosses, LabelsMayLackTheLastAxisOfOne) {
  EXPECT_NEAR(
      binary_crossentropy(shaped({1, 1, 0}, {3}), shaped({45, -41, 44}, {3, 1}),
                          {.from_logits = true, .sample_weight = shaped({1, 0.1, 1.5}, {3})})
          .item<float>(),
      23.366666667, 1e-5);
}

// lin_reg_eval_weights, head_multi_weighted_eval, head_reg_weighted: their average_loss divides by
// the sum of the weights.
TEST(GoldenLosses, AverageLossIsTheSumDividedByTheWeights) {
  const Tensor weights = shaped({1, 0.1, 1.5}, {3, 1});
  const Tensor sum = mean_squared_error(shaped({35, 42, 45}, {3, 1}), shaped({45, 41, 44}, {3, 1}),
                                        {.reduction = Reduction::kSum, .sample_weight = weights});
  EXPECT_NEAR((sum / weights.sum()).item<float>(), 39.0769231, 1e-4);
}

// head_multihead_split_multidim: two regression heads share the last axis of the logits.
TEST(GoldenLosses, LossesOfHeadsAreAdded) {
  const Tensor logits = shaped({-1.0, 1.0, 2.0,  -2.0, 2.0,  -1.0, 1.0, 2.0,  -2.0, 2.0,
                                -1.5, 1.5, -2.0, 2.0,  -2.0, -1.5, 1.5, -2.0, 2.0,  -2.0},
                               {2, 2, 5});
  const Tensor first = shaped({1, 0, 1, 0, 1.5, 1.5, 1.5, 1.5}, {2, 2, 2});
  const Tensor second = shaped({0, 1, 0, 0, 1, 0, 2, 2, 0, 2, 2, 0}, {2, 2, 3});
  const Tensor loss = mean_squared_error(first, logits.narrow(-1, 0, 2)) +
                      mean_squared_error(second, logits.narrow(-1, 2, 3));
  EXPECT_NEAR(loss.item<float>(), 9.667, 1e-3);
}

TEST(GoldenLosses, ArgumentsThatTfEstimatorRefusesAreRefused) {
  // head_bin_float_labels_invalid.
  EXPECT_EQ(message_of([] {
              binary_crossentropy(shaped({1.2, 0.4}, {2, 1}), shaped({0.5, -0.3}, {2, 1}),
                                  {.from_logits = true});
            }),
            "binary_crossentropy: the label of row 0 is 1.2, outside [0, 1]");
}

}  // namespace
}  // namespace muster::inline v0_1::losses
