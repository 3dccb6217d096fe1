#include "muster/layers/internal/recurrent_state.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

void check_state(CallContext& context, const LayerIdentity& layer, const std::vector<Tensor>& state,
                 const std::vector<int64_t>& sizes, int64_t rows, const Tensor& like) {
  const auto refuse = [&](const std::string& text, const std::string& hint) {
    throw invalid_argument(fmt::format("layer {}: {}", context.name_of(layer), text), hint);
  };
  if (state.size() != sizes.size()) {
    refuse(fmt::format("expected a state of {} tensor{}, was given {}", sizes.size(),
                       sizes.size() == 1 ? "" : "s", state.size()),
           "give the state that such a layer gives with return_state");
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Shape shape{rows, sizes[i]};
    const Tensor& given = state[i];
    if (given.defined() && given.sizes() == shape && given.scalar_type() == like.scalar_type()) {
      continue;
    }
    refuse(fmt::format("expected a state {}{}, was given {}", dtype_name(like.scalar_type()),
                       describe(shape), given.defined() ? describe(given) : "an undefined tensor"),
           "a state is [batch, units], of the dtype of the input");
  }
}

std::vector<Tensor> zero_state(const std::vector<int64_t>& sizes, int64_t rows,
                               const Tensor& like) {
  std::vector<Tensor> state;
  for (const int64_t size : sizes) state.push_back(at::zeros({rows, size}, like.options()));
  return state;
}

}  // namespace muster::inline v0_1::internal
