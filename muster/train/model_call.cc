#include "muster/train/model_call.h"

#include <fmt/format.h>

#include "muster/base/strings.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/added_losses.h"
#include "muster/train/model_context.h"
#include "muster/train/own_training.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1 {
namespace {

std::string text_of(const CallPlace& place, Mode mode) {
  return fmt::format("{}{}{} (mode {})", place.where,
                     place.number < 0 ? "" : fmt::format(" {}", place.number),
                     place.replica == nullptr ? "" : on_replica(*place.replica), describe(mode));
}

// "net/fc1/weight float32[32, 784], ..."
std::string variables_there_are(const VariableStore& store) {
  std::vector<std::string> each;
  for (const auto& variable : store.variables())
    each.push_back(variable->name() + " " + muster::describe(variable->value()));
  constexpr size_t kMost = 12;
  if (each.size() > kMost) {
    const size_t more = each.size() - kMost;
    each.resize(kMost);
    each.push_back(fmt::format("and {} more", more));
  }
  return join(each, ", ");
}

// Advice for the user.
std::string hint_for(const std::string& said, const Batch& batch, const ModelContext& context) {
  if (const auto hint = hint_of_mixed_devices(said, context.device())) return *hint;
  // The message of torch::nn's BatchNorm in training.
  if (said.find("Expected more than 1 value per channel when training") != std::string::npos) {
    return "BatchNorm cannot normalize a batch of one row: use a larger batch, and leave out what "
           "an epoch leaves over with batch(n, {.drop_remainder = true})";
  }
  if (const auto hint = hint_of_own_backward(said)) return *hint;
  std::string form = "it was given features " + batch.features.element().describe();
  if (batch.labels.defined()) form += ", labels " + batch.labels.element().describe();
  const std::string variables = variables_there_are(context.variables());
  if (!variables.empty()) form += "; its variables are " + variables;
  return form;
}

// The losses that layers added are added to the loss; in evaluation also the penalties of the
// weights, which are added to a training step when its update is made.
void join_losses(EstimatorSpec& spec, Mode mode, const Batch& batch, ModelContext& context) {
  const std::vector<Tensor> added = context.calls().take_losses();
  if (mode == Mode::kPredict) return;
  const auto join = [&](const Tensor& sum) {
    if (sum.defined()) spec.loss = spec.loss + sum.to(spec.loss.scalar_type());
  };
  const Tensor sum = sum_of_added(added, spec.loss_reduction, added.empty() ? 0 : batch.rows());
  join(sum);
  if (mode == Mode::kTrain) {
    add_to_loss(spec.train_op, sum);
  } else {
    join(regularization_loss(context.variables()));
  }
}

EstimatorSpec called(const ModelFn& model_fn, const Batch& batch, Mode mode,
                     ModelContext& context) {
  EstimatorSpec spec = model_fn(batch.features, batch.labels, mode, context);
  spec.validate(mode);
  join_losses(spec, mode, batch, context);
  return spec;
}

}  // namespace

EstimatorSpec call_model(const ModelFn& model_fn, const Batch& batch, Mode mode,
                         ModelContext& context, const CallPlace& place) {
  refuse_weights(batch);
  try {
    return called(model_fn, batch, mode, context);
  } catch (...) {
    rethrow_with_place("the model function", text_of(place, mode),
                       [&](const std::string& said) { return hint_for(said, batch, context); });
  }
}

EstimatorSpec call_model_to_build(const ModelFn& model_fn, const Batch& batch, Mode mode,
                                  ModelContext& context, const distribute::ReplicaPlace* replica) {
  const auto copied = [](const ElementView& view) {
    return view.element().transform([](const Value& value) {
      return value.is_tensor() ? Value(value.tensor().clone()) : value;
    });
  };
  const Batch copy{Features(copied(batch.features)), Labels(copied(batch.labels)), batch.weights};
  torch::NoGradGuard no_grad;
  return call_model(model_fn, copy, mode, context,
                    {.where = "while the model was built", .replica = replica});
}

}  // namespace muster::inline v0_1
