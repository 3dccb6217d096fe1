// Draws tokens from a causal language model, one after another.
// Thread safety: pure functions, if the model is one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::applications {

// How to choose a token from the logits of all tokens.
struct SampleOptions {
  // Logits are divided by it: below 1 the likely tokens become more likely. 0 takes the largest
  // logit (the first of equal ones) and draws nothing.
  double temperature = 1;
  int64_t top_k = 0;  // keeps only this many of the likeliest tokens; 0: all
  // After top_k, keeps only the likeliest tokens that together have this probability, at least one;
  // above 0, and at most 1.
  double top_p = 1;
};

// Chooses a token for each row of logits [batch, vocabulary]: int64 [batch]. Row i draws from
// key.derive(i), so it does not depend on the other rows. Throws InvalidArgument for options out of
// range, for another shape, and for logits that are NaN or all -infinity.
MUSTER_EXPORT Tensor sample(const Tensor& logits, const SampleOptions& options, RandomKey key);

// A model: tokens, int64 [batch, time] -> logits [batch, time, vocabulary].
using LogitsFn = std::function<Tensor(const Tensor& tokens)>;

// Options of generate().
struct GenerateOptions {
  int64_t max_new_tokens = 64;
  // The largest number of last tokens passed to the model; 0: all of them.
  int64_t context = 0;
  double temperature = 1;  // as in SampleOptions; also the next two
  int64_t top_k = 0;
  double top_p = 1;
  // The token that ends a row. Until all rows have ended, an ended row is filled with this token.
  std::optional<int64_t> stop{};
  uint64_t seed = 0;
};

// Returns the prompt, int64 [batch, time], followed by generated tokens: [batch, time + n], where n
// is max_new_tokens, or fewer if all rows have ended. The same seed draws the same tokens. No
// gradients are recorded. Throws InvalidArgument for options out of range, for a prompt that is
// empty or of another dtype, and for logits of another shape.
MUSTER_EXPORT Tensor generate(const LogitsFn& logits, const Tensor& prompt,
                              const GenerateOptions& options = {});
// The same for one row, with at most one stop token.
MUSTER_EXPORT std::vector<int64_t> generate(const LogitsFn& logits,
                                            const std::vector<int64_t>& prompt,
                                            const GenerateOptions& options = {});

}  // namespace muster::inline v0_1::applications
