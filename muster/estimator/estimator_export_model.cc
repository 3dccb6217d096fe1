#include <fmt/format.h>

#include <utility>

#include "muster/base/strings.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/export/free_axes.h"
#include "muster/export/write_version.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

// The model function failed on rows such as the receiver says.
Error does_not_take(const ServingInputReceiver& receiver, const Error& error) {
  std::vector<std::string> features;
  for (const auto& [name, feature] : receiver.features) {
    Shape shape{-1};
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
    features.push_back(fmt::format("{} {}", name, TensorInfo{feature.dtype, shape}.describe()));
  }
  return Error(
      error.kind(),
      fmt::format("export_model: the model function failed on features as the receiver says "
                  "they are, {}: {}",
                  join(features, ", "), error.message()),
      std::string(
          "give the receiver the names, dtypes and shapes that the model trained on, and an "
          "example where it does not take zeros") +
          (free_axes(receiver).empty()
               ? ""
               : "; axes of -1 had the lengths 7, 33 and 129, or those of the example"));
}

}  // namespace

Batch batch_of_features(const std::map<std::string, Tensor>& features) {
  std::vector<std::pair<std::string, Element>> entries(features.begin(), features.end());
  return {.features = Features(Element::dict(std::move(entries))), .labels = Labels()};
}

std::optional<std::string> Estimator::export_model(const std::string& export_dir,
                                                   const ServingInputReceiver& receiver,
                                                   const ExportModelOptions& options) {
  check_export(export_dir, receiver);
  const cluster::ResolvedCluster& task = impl_->resolve();
  if (!task.is_chief && !task.is_evaluator) return std::nullopt;
  if (!options.checkpoint_path && !impl_->checkpoints().latest() && !impl_->config.warm_start_from)
    throw impl_->not_trained();
  set_threads(0);

  ModelRunner runner(impl_->model_fn, Mode::kPredict, impl_->seed(), impl_->params);
  ServableSource source{.receiver = receiver, .formats = options.formats};
  source.checkpoint =
      impl_->load(runner, {.checkpoint_path = options.checkpoint_path, .use_ema = options.use_ema},
                  "exporting");
  source.global_step = runner.global_step();
  // The first call creates the variables, and is not traced.
  try {
    (void)first_lengths(receiver, [&](const std::vector<int64_t>& lengths) {
      std::map<std::string, Tensor> rows;
      for (const auto& [name, feature] : receiver.features) {
        rows[name] = feature.example
                         ? feature.example->slice(0, 0, 1)
                         : torch::zeros(batch_shape(receiver, name, 1, lengths), feature.dtype);
      }
      runner.build(batch_of_features(rows));
    });
  } catch (const Error& error) {
    throw does_not_take(receiver, error);
  }
  for (const Variable* variable : runner.variables())
    source.weights.emplace_back(variable->name(), variable->value());
  source.function = [&](const ServableSource::Tensors& features) {
    return runner.run(batch_of_features(features), 0).signatures();
  };

  return write_version(impl_->fs(), export_dir, static_cast<int64_t>(impl_->clock().wall_seconds()),
                       source);
}

}  // namespace muster::inline v0_1
