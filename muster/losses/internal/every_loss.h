// Every loss on a batch of two examples of three outputs, with the result of the plain formula for
// each, computed apart from Muster in double precision. For tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/losses/losses.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {

struct LossCase {
  std::string name;
  std::function<Tensor(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                       Reduction reduction)>
      loss;
  std::vector<double> labels;       // [2, 3]
  std::vector<double> predictions;  // [2, 3]
  std::vector<double> expected;     // [2]

  Tensor labels_as(at::ScalarType dtype) const {
    return torch::tensor(labels, at::kDouble).view({2, 3}).to(dtype);
  }
  Tensor predictions_as(at::ScalarType dtype) const {
    return torch::tensor(predictions, at::kDouble).view({2, 3}).to(dtype);
  }
};

inline const std::vector<LossCase>& every_loss() {
  static const std::vector<LossCase> cases = {
      {"mean_squared_error",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return mean_squared_error(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {0.604166666666667, 1.10416666666667}},
      {"mean_absolute_error",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return mean_absolute_error(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {0.75, 0.916666666666667}},
      {"mean_absolute_percentage_error",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return mean_absolute_percentage_error(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {90.2777777777778, 219.444444444444}},
      {"mean_squared_logarithmic_error",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return mean_squared_logarithmic_error(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {0.0879959872621309, 0.044184658224857}},
      {"huber",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return huber(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.75, 2.75, -1.25, 2.125, -0.75},
       {0.385416666666667, 0.471354166666667}},
      {"huber_delta",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return huber(y, p, {.delta = 0.6, .reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {0.271666666666667, 0.390416666666667}},
      {"log_cosh",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return log_cosh(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {0.270720478288037, 0.440050268372328}},
      {"cosine_similarity",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return cosine_similarity(y, p, {.reduction = r, .sample_weight = w});
       },
       {1.5, -0.5, 2.0, 0.25, 3.0, -1.0},
       {1.0, 0.5, 2.75, -1.25, 2.0, -0.75},
       {-0.891861731777319, -0.819995084218019}},
      {"poisson",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return poisson(y, p, {.reduction = r, .sample_weight = w});
       },
       {0, 3, 1, 2, 0, 7},
       {0.5, 2.5, 1.25, 3.0, 0.125, 5.0},
       {0.425994684354444, -1.77943005701386}},
      {"log_poisson_loss",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return log_poisson_loss(y, p, {.reduction = r, .sample_weight = w});
       },
       {0, 3, 1, 2, 0, 7},
       {-0.5, 1.0, 0.25, 1.0, -2.0, 1.5},
       {0.452945968286473, -1.72156460598876}},
      {"log_poisson_loss_full",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return log_poisson_loss(y, p,
                                 {.compute_full_loss = true, .reduction = r, .sample_weight = w});
       },
       {0, 3, 1, 2, 0, 7},
       {-0.5, 1.0, 0.25, 1.0, -2.0, 1.5},
       {1.04097314946749, 1.33345910591926}},
      {"binary_crossentropy",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return binary_crossentropy(y, p, {.reduction = r, .sample_weight = w});
       },
       {1, 0, 1, 0, 0.5, 1},
       {0.9, 0.2, 0.6, 0.05, 0.7, 0.999},
       {0.279776429320092, 0.277539075131672}},
      {"binary_crossentropy_logits",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return binary_crossentropy(y, p,
                                    {.from_logits = true, .reduction = r, .sample_weight = w});
       },
       {1, 0, 1, 0, 0.5, 1},
       {2.0, -1.0, 0.5, -3.0, 1.0, 4.0},
       {0.304755560913767, 0.293332989003258}},
      {"binary_crossentropy_smoothed",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return binary_crossentropy(
             y, p,
             {.from_logits = true, .label_smoothing = 0.2, .reduction = r, .sample_weight = w});
       },
       {1, 0, 1, 0, 0.5, 1},
       {2.0, -1.0, 0.5, -3.0, 1.0, 4.0},
       {0.421422227580434, 0.526666322336592}},
      {"binary_focal_crossentropy",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return binary_focal_crossentropy(y, p, {.reduction = r, .sample_weight = w});
       },
       {1, 0, 1, 0, 0.5, 1},
       {0.9, 0.2, 0.6, 0.05, 0.7, 0.999},
       {0.03057047141131, 0.0650697143274978}},
      {"binary_focal_crossentropy_balanced",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return binary_focal_crossentropy(y, p,
                                          {.apply_class_balancing = true,
                                           .alpha = 0.3,
                                           .gamma = 1.5,
                                           .from_logits = true,
                                           .label_smoothing = 0.1,
                                           .reduction = r,
                                           .sample_weight = w});
       },
       {1, 0, 1, 0, 0.5, 1},
       {2.0, -1.0, 0.5, -3.0, 1.0, 4.0},
       {0.027460161586806, 0.0495882457992083}},
      {"categorical_crossentropy",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return categorical_crossentropy(y, p, {.reduction = r, .sample_weight = w});
       },
       {0, 1, 0, 0.2, 0.3, 0.5},
       {0.1, 0.7, 0.3, 0.25, 0.5, 0.25},
       {0.451985123743057, 1.17835020695191}},
      {"categorical_crossentropy_logits",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return categorical_crossentropy(y, p,
                                         {.from_logits = true, .reduction = r, .sample_weight = w});
       },
       {0, 1, 0, 0.2, 0.3, 0.5},
       {1.0, 2.0, -1.0, 0.5, -0.25, 3.0},
       {0.349012216768186, 1.58909553982}},
      {"categorical_crossentropy_smoothed",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return categorical_crossentropy(
             y, p,
             {.from_logits = true, .label_smoothing = 0.3, .reduction = r, .sample_weight = w});
       },
       {0, 1, 0, 0.2, 0.3, 0.5},
       {1.0, 2.0, -1.0, 0.5, -0.25, 3.0},
       {0.749012216768186, 1.72159553982}},
      {"categorical_focal_crossentropy",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return categorical_focal_crossentropy(y, p, {.reduction = r, .sample_weight = w});
       },
       {0, 1, 0, 0.2, 0.3, 0.5},
       {0.1, 0.7, 0.3, 0.25, 0.5, 0.25},
       {0.0149416569832416, 0.149459860808238}},
      {"categorical_focal_crossentropy_of_classes",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return categorical_focal_crossentropy(y, p,
                                               {.alpha = {0.2, 0.5, 1.0},
                                                .gamma = 1.5,
                                                .from_logits = true,
                                                .label_smoothing = 0.1,
                                                .reduction = r,
                                                .sample_weight = w});
       },
       {0, 1, 0, 0.2, 0.3, 0.5},
       {1.0, 2.0, -1.0, 0.5, -0.25, 3.0},
       {0.137581160780587, 0.585438373168634}},
      {"kl_divergence",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return kl_divergence(y, p, {.reduction = r, .sample_weight = w});
       },
       {0.2, 0.8, 0.0, 0.5, 0.25, 0.25},
       {0.4, 0.5, 0.1, 0.6, 0.3, 0.1},
       {0.237372085733544, 0.0923315153730728}},
      {"hinge",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return hinge(y, p, {.reduction = r, .sample_weight = w});
       },
       {-1, 1, 1, 1, -1, -1},
       {0.3, -0.2, 2.0, 0.75, 0.5, -1.5},
       {0.833333333333333, 0.583333333333333}},
      {"squared_hinge",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return squared_hinge(y, p, {.reduction = r, .sample_weight = w});
       },
       {-1, 1, 1, 1, -1, -1},
       {0.3, -0.2, 2.0, 0.75, 0.5, -1.5},
       {1.04333333333333, 0.770833333333333}},
      {"categorical_hinge",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return categorical_hinge(y, p, {.reduction = r, .sample_weight = w});
       },
       {0, 1, 0, 1, 0, 0},
       {0.3, -0.2, 2.0, 0.75, 0.5, -1.5},
       {3.2, 0.75}},
      {"sparse_categorical_crossentropy",
       [](const Tensor& y, const Tensor& p, const Tensor& w, Reduction r) {
         return sparse_categorical_crossentropy(
             y.argmax(-1), p, {.from_logits = true, .reduction = r, .sample_weight = w});
       },
       {0, 1, 0, 0, 0, 1},
       {1.0, 2.0, -1.0, 0.5, -0.25, 3.0},
       {0.349012216768186, 0.114095539819997}},
  };
  return cases;
}

}  // namespace muster::inline v0_1::losses
