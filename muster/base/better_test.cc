#include "muster/base/better.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

TEST(Better, IsToldByTheWordsOfAName) {
  for (const char* name : {"accuracy",
                           "acc",
                           "val_accuracy",
                           "val_auc_pr",
                           "auc_precision_recall",
                           "AUC",
                           "mean_iou",
                           "val_mean_io_u",
                           "r2",
                           "r2_score",
                           "val_f1",
                           "f1_score",
                           "f_beta_score",
                           "val_cosine_similarity",
                           "top_k",
                           "sparse_top_k_categorical_accuracy",
                           "precision_at_recall",
                           "precision/threshold_0.3",
                           "recall",
                           "sensitivity_at_specificity",
                           "my-accuracy",
                           "head/accuracy",
                           "true_positives"}) {
    EXPECT_EQ(better_by_name(name), Better::kHigher) << name;
  }
  for (const char* name : {"loss",
                           "val_loss",
                           "average_loss",
                           "digit_loss",
                           "mse",
                           "val_mae",
                           "rmse",
                           "mape",
                           "msle",
                           "mean_squared_error",
                           "root_mean_squared_error",
                           "kl_divergence",
                           "poisson",
                           "log_cosh",
                           "logcosh",
                           "squared_hinge",
                           "binary_crossentropy",
                           "false_negatives",
                           "perplexity",
                           "brier_score"}) {
    EXPECT_EQ(better_by_name(name), Better::kLower) << name;
  }
}

TEST(Better, IsNotGuessed) {
  for (const char* name :
       {"", "mine", "score", "label/mean", "prediction/mean", "global_step", "accuracy_loss",
        "accuracy_baseline", "sum", "racc", "confusion_matrix"}) {
    EXPECT_EQ(better_by_name(name), Better::kUnknown) << name;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
