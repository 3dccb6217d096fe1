// The computation of one step of an LSTM or a GRU between its matrix products, forward and
// backward, in one pass over memory. A row is an example; all arrays are contiguous. A row that
// does not count keeps its state. Thread safety: functions of the memory that they receive; built
// without LibTorch.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::internal {

// Gates are in the order i, f, c, o. T is float or double.
template <typename T>
struct LstmForward {
  int64_t units{};
  T* gates{};                // [rows, 4 * units]: from their sums to their values
  const T* cell_before{};    // [rows, units], as all that follow
  const T* output_before{};  //
  const bool* counts{};      // [rows], or null where all rows count
  T* cell{};
  T* cell_tanh{};
  T* output{};
};

template <typename T>
struct LstmBackward {
  int64_t units{};
  const T* gates{};
  const T* cell_before{};
  const T* cell_tanh{};
  const bool* counts{};
  // Both are added up; null means zero.
  const T* output_gradient{};
  T* later_gradient{};  // from the next step; afterwards the gradient that passes this step by
  T* cell_gradient{};   // from the gradient of `cell` to the gradient of `cell_before`
  T* sum_gradients{};   // [rows, 4 * units]
};

// Gates are in the order z, r, h; the bias of the state is inside of the reset (reset_after).
template <typename T>
struct GruForward {
  int64_t units{};
  const T* input_sums{};     // [rows, 3 * units]
  const T* state_sums{};     // [rows, 3 * units]
  const T* output_before{};  // [rows, units]
  const bool* counts{};
  T* gates{};  // [rows, 4 * units]: z, r, h, and the state's sum for h
  T* output{};
};

template <typename T>
struct GruBackward {
  int64_t units{};
  const T* gates{};
  const T* output_before{};
  const bool* counts{};
  const T* output_gradient{};
  T* later_gradient{};
  T* input_sum_gradients{};
  T* state_sum_gradients{};
};

// Computes the rows begin ... end - 1 of a step.
template <typename Step>
void compute_rows(const Step& step, int64_t begin, int64_t end);

}  // namespace muster::inline v0_1::internal
