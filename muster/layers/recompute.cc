#include "muster/layers/recompute.h"

#include <memory>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/layers/internal/call_layer.h"
#include "muster/layers/internal/call_tape.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs to make a call again, but for its tensors, which autograd keeps.
struct RecomputedCall : torch::CustomClassHolder {
  RecomputedCall(Layer layer, const LayerInputs& inputs, CallContext& context)
      : layer(std::move(layer)),
        context(context),
        tensors(inputs.tensors.size()),
        states(inputs.state.size()),
        masks(inputs.masks) {}

  Layer layer;
  CallContext& context;
  size_t tensors;
  size_t states;
  std::vector<Tensor> masks;
  internal::CallTape tape;
  variable_list results;  // on their way into autograd
};

// How the results of a call are divided: tensors, state, and behind them the losses that layers
// added.
struct ResultParts {
  size_t tensors = 0;
  size_t states = 0;
  std::vector<Tensor> masks;
};

// Calls the layer with `inputs` (tensors, then state) cut off from what made them. What its layers
// add to the loss becomes a result, so that its gradient goes through this call too.
variable_list call_apart(const RecomputedCall& call, const variable_list& inputs,
                         ResultParts* parts) {
  const auto states = inputs.begin() + static_cast<std::ptrdiff_t>(call.tensors);
  const std::vector<Tensor> of_others = call.context.take_losses();
  LayerOutputs outputs = internal::call_layer(
      call.layer.impl(),
      {.tensors = {inputs.begin(), states}, .masks = call.masks, .state = {states, inputs.end()}},
      call.context);
  const std::vector<Tensor> losses = call.context.take_losses();
  for (const Tensor& loss : of_others) call.context.add_loss(loss);
  if (parts != nullptr)
    *parts = {outputs.tensors.size(), outputs.state.size(), std::move(outputs.masks)};
  variable_list all = std::move(outputs.tensors);
  all.insert(all.end(), outputs.state.begin(), outputs.state.end());
  all.insert(all.end(), losses.begin(), losses.end());
  return all;
}

// The same numbers as leaves.
variable_list cut_off(const Tensor* begin, size_t count) {
  variable_list leaves;
  for (const Tensor* each = begin; each != begin + count; ++each)
    leaves.push_back(each->detach().set_requires_grad(each->requires_grad()));
  return leaves;
}

// Its arguments are what goes into the call, and the weights the call used.
struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  static variable_list forward(AutogradContext* context,
                               const c10::intrusive_ptr<RecomputedCall>& call,
                               at::TensorList arguments) {
    context->set_materialize_grads(false);
    context->save_for_backward(arguments.vec());
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    variable_list results;
    for (const Tensor& result : std::exchange(call->results, {}))
      results.push_back(result.detach());
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw invalid_argument("Recompute: gradients of gradients were asked for",
                             "leave Recompute away where they are");
    }
    const auto call =
        c10::static_intrusive_pointer_cast<RecomputedCall>(context->saved_data["call"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const size_t count = call->tensors + call->states;
    const variable_list inputs = cut_off(saved.data(), count);
    const variable_list results = call_again(*call, inputs);

    variable_list roots, root_gradients, wanted;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!gradients[i].defined() || !results[i].requires_grad()) continue;
      roots.push_back(results[i]);
      root_gradients.push_back(std::move(gradients[i]));
    }
    for (size_t i = 0; i < saved.size(); ++i) {
      const Tensor& each = i < count ? inputs[i] : saved[i];
      if (each.requires_grad()) wanted.push_back(each);
    }
    variable_list found(wanted.size());
    if (!roots.empty() && !wanted.empty()) {
      found = torch::autograd::grad(roots, wanted, root_gradients, /*retain_graph=*/{},
                                    /*create_graph=*/false, /*allow_unused=*/true);
    }
    variable_list all(1);  // the call has none
    for (size_t i = 0, next = 0; i < saved.size(); ++i)
      all.push_back(saved[i].requires_grad() ? std::move(found[next++]) : Tensor());
    return all;
  }

 private:
  static variable_list call_again(const RecomputedCall& call, const variable_list& inputs) {
    const at::AutoGradMode record(true);
    internal::CallTapeReader reader(call.tape);
    const CallContext::Replay replay(call.context, reader);
    variable_list results = call_apart(call, inputs, nullptr);
    reader.check_all_read();
    return results;
  }
};

class RecomputeImpl final : public LayerImpl {
 public:
  explicit RecomputeImpl(Layer layer) : LayerImpl("recompute", ""), layer_(std::move(layer)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    if (!at::GradMode::is_enabled()) return internal::call_layer(layer_.impl(), inputs, context);
    const auto call = c10::make_intrusive<RecomputedCall>(layer_, inputs, context);
    variable_list arguments = inputs.tensors;
    arguments.insert(arguments.end(), inputs.state.begin(), inputs.state.end());
    ResultParts parts;
    {
      // Gradients are recorded, and dropped with the results: so this call and the next one run
      // the same kernels, and rows of tables are noted as used.
      const CallContext::Recording recording(context, call->tape);
      call->results = call_apart(*call, cut_off(arguments.data(), arguments.size()), &parts);
    }
    const variable_list weights = call->tape.leaves();
    arguments.insert(arguments.end(), weights.begin(), weights.end());
    variable_list results = RecomputeFunction::apply(call, at::TensorList(arguments));
    const auto states = results.begin() + static_cast<std::ptrdiff_t>(parts.tensors);
    const auto losses = states + static_cast<std::ptrdiff_t>(parts.states);
    for (auto loss = losses; loss != results.end(); ++loss) context.add_loss(*loss);
    return {.tensors = {results.begin(), states},
            .masks = std::move(parts.masks),
            .state = {states, losses}};
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  Layer layer_;
};

}  // namespace

Layer Recompute(Layer layer) { return Layer(std::make_shared<RecomputeImpl>(std::move(layer))); }

}  // namespace muster::inline v0_1
