// Connectionist temporal classification: a loss of sequences whose alignment is not known (Graves
// et al., "Connectionist temporal classification", 2006). Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses {

// Options of ctc_loss().
struct CtcLossOptions {
  // False, as in Keras's ctc_batch_cost: predictions are probabilities; 1e-7 is added to each, and
  // they are scaled to sum 1.
  bool from_logits = false;
  // The class that stands for no label; a negative one counts from the end. The last one, as in
  // Keras 2.
  int64_t blank_index = -1;
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes -log of the probability that the predictions, without repetitions and blanks, read as
// the labels; a loss for each sequence, [batch].
//   labels: [batch, labels], an integer dtype; what is behind the length of a row is not read.
//   predictions: [batch, time, classes], floating point.
//   label_length, logit_length: [batch] or [batch, 1], an integer dtype: how many labels of each
//     row and how many of its times count.
// Throws InvalidArgument for shapes that do not fit, for a length out of range, for a label that is
// outside [0, classes) or the blank, and for a row whose labels do not fit into its times: each
// label takes one, and between two equal ones there is a blank. The checks read labels and lengths
// on the CPU.
MUSTER_EXPORT Tensor ctc_loss(const Tensor& labels, const Tensor& predictions,
                              const Tensor& label_length, const Tensor& logit_length,
                              const CtcLossOptions& options = {});

}  // namespace muster::inline v0_1::losses
