// Connectionist temporal classification: a loss of sequences whose alignment is unknown (Graves et
// al., "Connectionist temporal classification", 2006). Thread safety: pure functions.
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
  // The class that means no label; a negative number counts from the end. The default, as in Keras
  // 2, is the last class.
  int64_t blank_index = -1;
  Reduction reduction = Reduction::kMean;
  Tensor sample_weight = {};
};

// Computes -log of the probability that the predictions, without repetitions and blanks, equal the
// labels; a loss for each sequence, [batch].
//   labels: [batch, labels], an integer dtype; entries after the length of a row are not read.
//   predictions: [batch, time, classes], floating point.
//   label_length, logit_length: [batch] or [batch, 1], an integer dtype: how many labels and how
//     many time steps each row has.
// Throws InvalidArgument for shapes that do not fit, for a length out of range, for a label that is
// outside [0, classes) or is the blank, and for a row with more labels than its time steps allow:
// each label needs one, and two equal neighbours need a blank between them. The checks read labels
// and lengths on the CPU.
MUSTER_EXPORT Tensor ctc_loss(const Tensor& labels, const Tensor& predictions,
                              const Tensor& label_length, const Tensor& logit_length,
                              const CtcLossOptions& options = {});

}  // namespace muster::inline v0_1::losses
