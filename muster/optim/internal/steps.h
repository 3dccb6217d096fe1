// The numbers of one update, in addition to weights, gradients and slots. Thread safety: values.
#pragma once

#include <array>
#include <bit>
#include <cstddef>

namespace muster::inline v0_1::optim::internal {

template <typename T>
struct SgdStep {
  T learning_rate{};
  T momentum{};
  T gradient_scale{};
};

template <typename T>
struct DecayStep {
  T decay{};  // the part of a weight that is taken away
};

template <typename T>
struct AverageStep {
  T part{};  // of the way to the weight, the average's step
};

template <typename T>
struct AdamStep {
  T alpha{};  // learning rate with the bias corrections of both moments
  T one_minus_beta_1{};
  T one_minus_beta_2{};
  T epsilon{};
  T gradient_scale{};
  T decay = 0;  // the part of a weight that is taken away
};

template <typename T>
struct AdagradStep {
  T learning_rate{};
  T epsilon{};
  T gradient_scale{};
};

template <typename T>
struct AdamaxStep {
  T alpha{};  // learning rate with the bias correction of the first moment
  T one_minus_beta_1{};
  T beta_2{};
  T epsilon{};
  T gradient_scale{};
};

template <typename T>
struct NadamStep {
  T gradient_part{};  // of the gradient and of the moment in the update, with the learning rate
  T moment_part{};
  T one_minus_beta_1{};
  T one_minus_beta_2{};
  T epsilon{};
  T gradient_scale{};
};

template <typename T>
struct RmsPropStep {
  T learning_rate{};
  T one_minus_rho{};
  T momentum{};
  T epsilon{};
  T gradient_scale{};
};

template <typename T>
struct AdadeltaStep {
  T learning_rate{};
  T one_minus_rho{};
  T epsilon{};
  T gradient_scale{};
};

template <typename T>
struct FtrlStep {
  T learning_rate{};
  T minus_power{};  // of the accumulator: 0.5 is its square root
  T l1{};
  T l2_twice{};  // with beta / learning_rate
  T shrinkage_twice{};
  T gradient_scale{};
};

template <typename T>
struct LionStep {
  T learning_rate{};
  T one_minus_beta_1{};
  T one_minus_beta_2{};
  T gradient_scale{};
};

template <typename T>
struct LambStep {
  T one_minus_beta_1{};
  T one_minus_beta_2{};
  T moment_correction{};  // 1 / (1 - beta_1^t)
  T root_correction{};    // 1 / sqrt(1 - beta_2^t)
  T epsilon{};
  T weight_decay{};
  T gradient_scale{};
  T learning_rate = 0;  // times the trust ratio
};

template <typename T>
struct LarsStep {
  T learning_rate{};  // times the trust ratio
  T momentum{};
  T weight_decay{};
  T gradient_scale{};
};

// Returns the same numbers as another type: cast<float>(AdamStep<double>{...}). A step has members
// of its one type alone.
template <typename U, template <typename> class Step, typename T>
Step<U> cast(const Step<T>& step) {
  constexpr size_t kCount = sizeof(Step<T>) / sizeof(T);
  const auto from = std::bit_cast<std::array<T, kCount>>(step);
  std::array<U, kCount> to;
  for (size_t i = 0; i < kCount; ++i) to[i] = static_cast<U>(from[i]);
  return std::bit_cast<Step<U>>(to);
}

}  // namespace muster::inline v0_1::optim::internal
