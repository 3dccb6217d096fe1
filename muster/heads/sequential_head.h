// A head for every step of a sequence. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of SequentialHeadWrapper().
struct SequentialHeadOptions {
  // The feature [batch, steps] that tells which steps count: bool, or numbers that are not 0.
  std::string sequence_length_mask = "sequence_length_mask";
  // Features that have a value for each step, as weights do; the head sees no others.
  std::vector<std::string> feature_columns{};
};

// Asks `static_head` about each step that counts, as if it were an example: logits are [batch,
// steps, logits_dimension], labels and the feature_columns [batch, steps, ...]. What padding holds
// is not looked at, so a mean is one over the steps that count, and batches and replicas weigh as
// much as they have of these. Predictions are those of all steps, [batch, steps, ...], and the
// mask, by its name. Throws InvalidArgument for a MultiHead, a head that is one of sequences
// already, and an empty name; when it is used, for a mask or a feature that is missing or does not
// fit the logits.
MUSTER_EXPORT Head SequentialHeadWrapper(const Head& static_head,
                                         SequentialHeadOptions options = {});

}  // namespace muster::inline v0_1
