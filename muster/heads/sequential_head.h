// A head for every step of a sequence. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of SequentialHeadWrapper().
struct SequentialHeadOptions {
  // The feature [batch, steps] that selects the steps that count: bool, or numbers other than 0.
  std::string sequence_length_mask = "sequence_length_mask";
  // Features with a value for each step, such as weights; the head gets only these.
  std::vector<std::string> feature_columns{};
};

// Applies `static_head` to each step that counts, as if it were an example: logits are [batch,
// steps, logits_dimension], labels and the feature_columns [batch, steps, ...]. Padding is ignored,
// so a mean is taken over the steps that count, and batches and replicas are weighted by the number
// of these. Predictions are those of all steps, [batch, steps, ...], and the mask, by its name.
// Throws InvalidArgument for a MultiHead, for a head of sequences, and for an empty name; when it
// is used, for a mask or a feature that is missing or does not fit the logits.
MUSTER_EXPORT Head SequentialHeadWrapper(const Head& static_head,
                                         SequentialHeadOptions options = {});

}  // namespace muster::inline v0_1
