// The numbers of one update, beside weights, gradients and slots.
// Thread safety: values.
#pragma once

namespace muster::inline v0_1::optim::internal {

template <typename T>
struct SgdStep {
  T learning_rate;
  T momentum;
  T gradient_scale;

  template <typename U>
  SgdStep<U> cast() const {
    return {static_cast<U>(learning_rate), static_cast<U>(momentum),
            static_cast<U>(gradient_scale)};
  }
};

template <typename T>
struct AdamStep {
  T alpha;  // learning rate with the bias corrections of both moments
  T one_minus_beta_1;
  T one_minus_beta_2;
  T epsilon;
  T gradient_scale;

  template <typename U>
  AdamStep<U> cast() const {
    return {static_cast<U>(alpha), static_cast<U>(one_minus_beta_1),
            static_cast<U>(one_minus_beta_2), static_cast<U>(epsilon),
            static_cast<U>(gradient_scale)};
  }
};

template <typename T>
struct AdagradStep {
  T learning_rate;
  T epsilon;
  T gradient_scale;

  template <typename U>
  AdagradStep<U> cast() const {
    return {static_cast<U>(learning_rate), static_cast<U>(epsilon), static_cast<U>(gradient_scale)};
  }
};

}  // namespace muster::inline v0_1::optim::internal
