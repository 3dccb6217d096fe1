#include "muster/keras/model_to_estimator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/manager.h"
#include "muster/export/model_format.h"
#include "muster/files/file_systems.h"
#include "muster/keras/internal/model_files.h"
#include "muster/keras/internal/model_impl.h"
#include "muster/keras/internal/structure.h"
#include "muster/layers/step_context.h"
#include "muster/loop/named_call.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::keras {
namespace {

// The state of the model function: values that outlive the Model.
struct Parts {
  std::optional<Layer> layer{};
  Model::Function function;
  std::vector<std::string> input_names, output_names;
  internal::Objective objective;
  optim::Optimizer optimizer;
  std::vector<std::string> metric_names{};  // as the Estimator calls them
  std::shared_ptr<const internal::FrozenLayers> frozen{};

  EstimatorSpec operator()(const Features& features, const Labels& labels, Mode mode,
                           ModelContext& context) const;
};

// {"features": …, "sample_weights": …} are features and weights.
Batch batch_of(const Features& features, const Labels& labels) {
  const Element& element = features.element();
  const std::vector<std::string> both{"features", "sample_weights"};
  if (element.structure().kind != Structure::Kind::kDict || element.structure().keys != both)
    return {features, labels};
  return {Features(element.at("features")), labels, ElementView(element.at("sample_weights"))};
}

EstimatorSpec Parts::operator()(const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) const {
  const Batch batch = batch_of(features, labels);
  if (frozen)
    StepContext::of(context.calls()).set_frozen([this](const std::string& layer) {
      return (*frozen)(layer);
    });
  const std::vector<Tensor> outputs =
      function
          ? function(batch.features, context.calls()).tensors
          : (*layer)(internal::inputs_of(batch.features, input_names), context.calls()).tensors;
  if (mode == Mode::kPredict) {
    std::map<std::string, Tensor> predictions;
    for (size_t o = 0; o < outputs.size() && o < output_names.size(); ++o)
      predictions[output_names[o]] = outputs[o];
    return EstimatorSpec::predict(std::move(predictions));
  }
  internal::Measured measured = objective.measure(batch, outputs, {});
  std::map<std::string, Metric> metrics;
  for (size_t m = 0; m < measured.metrics.size(); ++m)
    metrics[metric_names[m]] = std::move(measured.metrics[m]);
  EstimatorSpec spec =
      mode == Mode::kEval ? EstimatorSpec::eval(measured.loss, std::move(metrics))
                          : EstimatorSpec::train(
                                measured.loss, context.optimizer(optimizer).minimize(measured.loss),
                                std::move(metrics));
  spec.loss_reduction = objective.reduction();
  return spec;
}

std::vector<std::string> renamed(const std::vector<std::string>& names,
                                 const std::map<std::string, std::string>& by_name) {
  if (by_name.empty()) return names;
  std::vector<std::string> given;
  for (const auto& [name, other] : by_name) {
    if (std::ranges::find(names, name) == names.end())
      throw unknown_name("metric_names_map: the model", "metric", name, names);
  }
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      throw invalid_argument(
          fmt::format("metric_names_map has no name for the metric \"{}\"", name),
          "name all of them: " + join_quoted(names));
    }
    given.push_back(found->second);
  }
  return given;
}

// The inputs of an export: the given ones, else those of the first batch.
std::map<std::string, ServingFeature> served_features(const Model::Impl& impl) {
  std::map<std::string, ServingFeature> features;
  if (impl.options.inputs.empty() && impl.first_rows()) {
    const auto add = [&](const std::string& name, const Element& element) {
      if (!element.is_leaf() || !element.value().is_tensor()) {
        throw invalid_argument(
            fmt::format("not supported: export_model: the feature {} of a batch is {}", name,
                        element.describe()),
            "an export takes tensors: let the model take a tensor, or a dict of tensors");
      }
      const Tensor& rows = element.value().tensor();
      features[name] = {rows.scalar_type(), {rows.sizes().begin() + 1, rows.sizes().end()}};
    };
    const Element& rows = *impl.first_rows();
    const Structure& structure = rows.structure();
    if (structure.kind == Structure::Kind::kDict) {
      for (size_t i = 0; i < structure.keys.size(); ++i)
        add(structure.keys[i], rows.part(static_cast<int64_t>(i)));
    } else {
      add(impl.input_names.front(), rows);
    }
    for (const auto& [name, feature] : features) {
      log::info(
          fmt::format("the export uses the shape of {} in the first batch, {} per row; to define "
                      "another one, set ModelOptions::inputs or use a Functional",
                      name, muster::describe(feature.shape)));
    }
    return features;
  }
  for (size_t i = 0; i < impl.options.inputs.size(); ++i) {
    const SymbolicTensor& input = impl.options.inputs[i];
    features[impl.input_names[i]] = {input.dtype(),
                                     {input.shape().begin() + 1, input.shape().end()}};
  }
  if (features.empty()) {
    throw invalid_argument(
        "export_model: the inputs of the model are not known",
        "call it after fit(), or give ModelOptions::inputs: {.inputs = {Input({784})}}");
  }
  return features;
}

// A folder that exists as long as it is needed.
class PassingFolder {
 public:
  explicit PassingFolder(std::string path) : path_(std::move(path)) {
    file_systems().make_directories(path_).value();
  }
  ~PassingFolder() {
    if (const Status removed = file_systems().remove_tree(path_); !removed.ok())
      log::warning(fmt::format("cannot remove {}: {}", path_, removed.error().message()));
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace

Estimator model_to_estimator(Model& model, RunConfig config,
                             const ModelToEstimatorOptions& options) {
  Model::Impl& impl = internal::ModelAccess::impl(model);
  const Model::Impl::Compiled& compiled = impl.compiled_for("model_to_estimator");
  Parts parts{.layer = impl.layer,
              .function = impl.function,
              .input_names = impl.input_names,
              .output_names = impl.output_names,
              .objective = compiled.objective,
              .optimizer = impl.training_optimizer(),
              .metric_names = renamed(compiled.objective.metric_names(), options.metric_names_map),
              .frozen = impl.frozen};
  if (!config.random_seed) config.random_seed = impl.options.seed;
  if (config.accumulate_steps == 1) config.accumulate_steps = compiled.options.accumulate_steps;
  const bool has_weights = impl.built;
  if (!has_weights) return Estimator(std::move(parts), std::move(config));
  Estimator named(parts, config);  // knows model_dir and the place of this process
  config.model_dir = named.model_dir();
  const std::string prefix = join_path(named.model_dir(), "keras/keras_model.ckpt-0");
  Checkpoint weights;
  for (auto& [name, value] : model.get_weights()) weights.tensors[name] = std::move(value);
  FileSystem& files = file_systems();
  if (named.is_chief() && !named.latest_checkpoint()) {
    files.make_directories(join_path(named.model_dir(), "keras")).value();
    write_checkpoint(files, checkpoint_file(prefix), weights);
  }
  if (!config.warm_start_from) {
    config.warm_start_from =
        WarmStartSettings{.ckpt_to_initialize_from = prefix, .vars_to_warm_start = {".*"}};
  }
  return Estimator(std::move(parts), std::move(config));
}

std::string Model::export_model(const std::string& directory,
                                const std::vector<std::string>& formats) {
  const distribute::NamedCall call("Model::export_model()");
  if (impl_->bystander()) return "";
  impl_->require_built("export_model");
  const std::map<std::string, ServingFeature> features = served_features(*impl_);
  const std::vector<std::pair<std::string, Tensor>> weights = get_weights();
  if (!impl_->is_chief()) return "";
  CompileOptions plain = compiled() ? impl_->compiled->options : CompileOptions{.loss = "mse"};
  Parts parts{.layer = impl_->original,
              .function = impl_->function,
              .input_names = impl_->input_names,
              .output_names = impl_->output_names,
              .objective = internal::Objective(plain, impl_->output_names),
              .optimizer = plain.optimizer.make(),
              .metric_names = {},
              .frozen = nullptr};
  const PassingFolder folder(join_path(directory, fmt::format(".weights-{}", ::getpid())));
  Checkpoint checkpoint{.global_step = step()};
  for (const auto& [name, value] : weights) checkpoint.tensors[name] = value;
  CheckpointManager(folder.path()).save(checkpoint);
  // One process writes: the cluster has no part in it.
  Estimator estimator(std::move(parts), {.model_dir = folder.path(), .environment = Environment()});
  return estimator
      .export_model(directory, raw_serving_input_receiver(features), {.formats = formats})
      .value_or("");
}

void internal::export_file(Model& model, const std::string& format, const std::string& path) {
  const ModelFormat found = model_format(format);  // before anything is computed
  const PassingFolder folder(
      join_path(directory_of(path), fmt::format(".{}-{}", base_name(path), ::getpid())));
  const std::string version = model.export_model(folder.path());
  if (version.empty()) return;  // another task writes
  (void)found.write(file_systems(), read_export(file_systems(), version), path);
}

}  // namespace muster::inline v0_1::keras
