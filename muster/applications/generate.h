// Draws tokens from a causal language model, one after another.
// Thread safety: pure functions, as far as the model is one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::applications {

// How a token is chosen among the logits of all.
struct SampleOptions {
  // Logits are divided by it: below 1 the likely tokens become likelier. 0 takes the largest, the
  // first of equals, and draws nothing.
  double temperature = 1;
  int64_t top_k = 0;  // only so many of the likeliest; 0: all
  // Only as many of the likeliest as together have this probability, but one at least; above 0, and
  // 1 at most. It follows top_k.
  double top_p = 1;
};

// Chooses a token for each row of logits [batch, vocabulary]: int64 [batch]. Row i draws from
// key.derive(i), so it does not depend on the rows beside it. Throws InvalidArgument for options
// out of range, for another shape, and for logits that are NaN or all -infinity.
MUSTER_EXPORT Tensor sample(const Tensor& logits, const SampleOptions& options, RandomKey key);

// A model: tokens, int64 [batch, time] -> logits [batch, time, vocabulary].
using LogitsFn = std::function<Tensor(const Tensor& tokens)>;

// Options of generate().
struct GenerateOptions {
  int64_t max_new_tokens = 64;
  // The model is given so many of the last tokens at most; 0: all of them.
  int64_t context = 0;
  double temperature = 1;  // as in SampleOptions, and so are the next two
  int64_t top_k = 0;
  double top_p = 1;
  // A row ends with this token. Rows that go on longer fill it up with more of them.
  std::optional<int64_t> stop{};
  uint64_t seed = 0;
};

// Gives the prompt, int64 [batch, time], with what the model says behind it: [batch, time + n],
// where n is max_new_tokens, or fewer where all rows have stopped. The same seed draws the same
// tokens. No gradients are recorded. Throws InvalidArgument for options out of range, for a prompt
// that is empty or of another dtype, and for what the model gives in another shape.
MUSTER_EXPORT Tensor generate(const LogitsFn& logits, const Tensor& prompt,
                              const GenerateOptions& options = {});
// The same for one row, with the stop token at most once.
MUSTER_EXPORT std::vector<int64_t> generate(const LogitsFn& logits,
                                            const std::vector<int64_t>& prompt,
                                            const GenerateOptions& options = {});

}  // namespace muster::inline v0_1::applications
