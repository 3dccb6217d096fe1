#include "muster/layers/recompute.h"

#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/layers/internal/call_layer.h"
#include "muster/layers/internal/call_scopes.h"
#include "muster/layers/internal/call_tape.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs to make a call again, except for its tensors, which autograd keeps.
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

// How the results of a call are divided: tensors, state, and after them the losses that layers
// added.
struct ResultParts {
  size_t tensors = 0;
  size_t states = 0;
  std::vector<Tensor> masks{};
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

// Calls the layer once more, with the same keys, weights and state.
variable_list call_again(const RecomputedCall& call, const variable_list& inputs) {
  const at::AutoGradMode record(true);
  internal::CallTapeReader reader(call.tape);
  const internal::ReplayScope replay(call.context, reader);
  variable_list results = call_apart(call, inputs, nullptr);
  reader.check_all_read();
  return results;
}

// What goes into a call, cut off from what made it, and after it the weights themselves.
variable_list leaves_of(const RecomputedCall& call, const Tensor* arguments, size_t count) {
  const size_t inputs = call.tensors + call.states;
  variable_list leaves = cut_off(arguments, inputs);
  leaves.insert(leaves.end(), arguments + inputs, arguments + count);
  return leaves;
}

// Gives a gradient for each of `wanted` that has one.
variable_list gradients_for(const variable_list& results, const variable_list& of_results,
                            const variable_list& wanted, bool create_graph) {
  variable_list roots, root_gradients, inputs;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!of_results[i].defined() || !results[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(results[i]);
    root_gradients.push_back(of_results[i]);
  }
  for (const Tensor& each : wanted) {
    if (each.requires_grad()) inputs.push_back(each);
  }
  variable_list all(wanted.size());
  if (roots.empty() || inputs.empty()) return all;
  variable_list found = torch::autograd::grad(roots, inputs, root_gradients, /*retain_graph=*/{},
                                              create_graph, /*allow_unused=*/true);
  for (size_t i = 0, next = 0; i < wanted.size(); ++i) {
    if (wanted[i].requires_grad()) all[i] = std::move(found[next++]);
  }
  return all;
}

// Gives the gradients for `leaves` of a call, of those of its results.
variable_list call_backward(const RecomputedCall& call, const variable_list& leaves,
                            const variable_list& of_results, bool create_graph) {
  const auto inputs = leaves.begin() + static_cast<std::ptrdiff_t>(call.tensors + call.states);
  return gradients_for(call_again(call, {leaves.begin(), inputs}), of_results, leaves,
                       create_graph);
}

// One backward of a call that can be derived itself. Tensors that are undefined stand in no list
// of autograd's; these say which ones do.
struct RecomputedBackward : torch::CustomClassHolder {
  explicit RecomputedBackward(c10::intrusive_ptr<RecomputedCall> call) : call(std::move(call)) {}

  // Puts `tensors` in their places, of `size`.
  static variable_list spread(const variable_list& tensors, const std::vector<size_t>& places,
                              size_t size) {
    variable_list all(size);
    for (size_t i = 0; i < places.size(); ++i) all[places[i]] = tensors[i];
    return all;
  }
  // Gives those that are defined, and notes their places.
  static variable_list defined(const variable_list& tensors, std::vector<size_t>& places) {
    variable_list all;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined()) continue;
      places.push_back(i);
      all.push_back(tensors[i]);
    }
    return all;
  }

  c10::intrusive_ptr<RecomputedCall> call;
  size_t arguments = 0;                // of the call, the weights among them
  size_t results = 0;                  // of the call
  std::vector<size_t> of_results{};    // that have a gradient
  std::vector<size_t> of_arguments{};  // that get one
};

// Its arguments are those of the call, and the gradients of the call's results; it gives the
// gradients of the call's arguments.
struct RecomputeBackwardFunction : torch::autograd::Function<RecomputeBackwardFunction> {
  static variable_list forward(AutogradContext* context,
                               const c10::intrusive_ptr<RecomputedBackward>& backward,
                               at::TensorList tensors) {
    context->set_materialize_grads(false);
    context->save_for_backward(tensors.vec());
    context->saved_data["backward"] = c10::IValue::make_capsule(backward);
    const auto [leaves, of_results] = parts_of(*backward, tensors.vec());
    return RecomputedBackward::defined(
        call_backward(
            *backward->call, leaves,
            RecomputedBackward::spread(of_results, backward->of_results, backward->results),
            /*create_graph=*/false),
        backward->of_arguments);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw invalid_argument("Recompute: third derivatives were asked for",
                             "leave Recompute away where they are");
    }
    const auto backward = c10::static_intrusive_pointer_cast<RecomputedBackward>(
        context->saved_data["backward"].toCapsule());
    const auto [leaves, of_results] = parts_of(*backward, context->get_saved_variables());
    const variable_list first = call_backward(
        *backward->call, leaves,
        RecomputedBackward::spread(of_results, backward->of_results, backward->results),
        /*create_graph=*/true);
    variable_list wanted = leaves;
    wanted.insert(wanted.end(), of_results.begin(), of_results.end());
    variable_list all = gradients_for(
        first, RecomputedBackward::spread(gradients, backward->of_arguments, first.size()), wanted,
        /*create_graph=*/false);
    all.insert(all.begin(), Tensor());  // `backward` has none
    return all;
  }

 private:
  // Cuts off the call's arguments, and the gradients of its results after them.
  static std::pair<variable_list, variable_list> parts_of(const RecomputedBackward& backward,
                                                          const variable_list& tensors) {
    return {leaves_of(*backward.call, tensors.data(), backward.arguments),
            cut_off(tensors.data() + backward.arguments, tensors.size() - backward.arguments)};
  }
};

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
    const auto call =
        c10::static_intrusive_pointer_cast<RecomputedCall>(context->saved_data["call"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    variable_list all = at::GradMode::is_enabled()
                            ? derivable_backward(call, saved, gradients)
                            : call_backward(*call, leaves_of(*call, saved.data(), saved.size()),
                                            gradients, /*create_graph=*/false);
    all.insert(all.begin(), Tensor());  // the call has none
    return all;
  }

 private:
  static variable_list derivable_backward(const c10::intrusive_ptr<RecomputedCall>& call,
                                          const variable_list& saved,
                                          const variable_list& gradients) {
    const auto backward = c10::make_intrusive<RecomputedBackward>(call);
    backward->arguments = saved.size();
    backward->results = gradients.size();
    variable_list tensors = saved;
    const variable_list given = RecomputedBackward::defined(gradients, backward->of_results);
    tensors.insert(tensors.end(), given.begin(), given.end());
    const variable_list found = RecomputeBackwardFunction::apply(backward, at::TensorList(tensors));
    return RecomputedBackward::spread(found, backward->of_arguments, saved.size());
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
      const internal::RecordingScope recording(context, call->tape);
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
