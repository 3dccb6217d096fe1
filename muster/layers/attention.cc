#include "muster/layers/attention.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/attention_inputs.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/weights.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class AttentionImpl final : public LayerImpl {
 public:
  explicit AttentionImpl(AttentionOptions options)
      : LayerImpl("attention", options.name), options_(std::move(options)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const internal::AttentionInputs given = internal::attention_inputs(
        inputs, context, identity(), options_.causal, /*takes_mask=*/false);
    if (given.query.size(2) != given.key.size(2)) {
      internal::refuse_input(context, identity(),
                             fmt::format("a key [batch, steps, {}], as the query {} is",
                                         given.query.size(2), describe(given.query)),
                             given.key);
    }
    Tensor scores = scores_of(given.query, given.key, context);
    if (given.counts.defined()) {
      scores = scores + internal::score_offset(given.counts, scores);
    }
    const Tensor weights = at::softmax(scores, -1);
    Tensor used = weights;
    if (context.training() && options_.dropout > 0) {
      used = weights * internal::drop_mask(weights, weights.sizes(), context.random_key(identity()),
                                           options_.dropout, 1 / (1 - options_.dropout));
    }
    if (given.value.scalar_type() == kBFloat16) used = internal::narrowed(used);
    LayerOutputs outputs{.tensors = {internal::batch_product(used, given.value)}};
    if (given.query_mask.defined()) {
      const Tensor absent = given.query_mask.logical_not().unsqueeze(-1);
      outputs.tensors[0] = outputs.tensors[0].masked_fill(absent, 0);
      outputs.masks = {given.query_mask};
    }
    if (options_.return_attention_scores) {
      outputs.tensors.push_back(weights);
      if (!outputs.masks.empty()) outputs.masks.emplace_back();
    }
    return outputs;
  }

  LayerPrecision precision() const override {
    return options_.score_mode == ScoreMode::kDot ? LayerPrecision::kBfloat16
                                                  : LayerPrecision::kWidened;
  }

 private:
  Tensor scores_of(const Tensor& query, const Tensor& key, CallContext& context) const {
    const auto number = [&](int slot, const char* name, const Tensor& like) {
      return internal::weight(context, identity(), slot, name, {}, like, initializers::ones());
    };
    if (options_.score_mode == ScoreMode::kDot) {
      // Softmax is of float32 also for inputs of bfloat16.
      const Tensor scores = internal::widened(internal::batch_product(query, key.transpose(1, 2)));
      return options_.use_scale ? scores * number(0, "scale", scores) : scores;
    }
    Tensor sums = query.unsqueeze(2) + key.unsqueeze(1);
    if (options_.use_scale) sums = sums * number(0, "scale", sums);
    return at::tanh(sums).sum(-1) * number(1, "concat_score_weight", sums);
  }

  AttentionOptions options_;
};

}  // namespace

Layer Attention(AttentionOptions options) {
  internal::check_rate(internal::titled("Attention", options.name), options.dropout, "dropout");
  return Layer(std::make_shared<AttentionImpl>(std::move(options)));
}

}  // namespace muster::inline v0_1
