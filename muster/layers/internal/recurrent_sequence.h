// Recurrent layers of the usual kind over all steps of a batch at once: one function of autograd,
// with a matrix product for all inputs, one and a pass over memory for each step, and one for each
// kernel's gradient. Thread safety: pure functions.
#pragma once

#include "muster/layers/internal/lstm_gru_steps.h"

namespace muster::inline v0_1::internal {

// As recurrent_steps(), for an LSTM and a GRU with reset_after, with tanh and sigmoid and without
// dropout of their own, on the CPU, in a fraction of the time.
RecurrentResult recurrent_sequence(const RecurrentCell& cell, const RecurrentSequence& sequence);

}  // namespace muster::inline v0_1::internal
