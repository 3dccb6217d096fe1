#include "muster/train/internal/models_graph.h"

#include <fmt/format.h>

#include <map>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/layers/model_graph.h"
#include "muster/train/model_steps.h"

namespace muster::inline v0_1::internal {
namespace {

std::vector<SymbolicTensor> symbols(const NamedModel& model) {
  std::vector<SymbolicTensor> inputs;
  for (const auto& [shape, dtype] : model.inputs) {
    if (shape.empty()) throw invalid_argument("an input has no batch axis");
    inputs.push_back(Input({shape.begin() + 1, shape.end()}, {.dtype = dtype}));
  }
  return inputs;
}

}  // namespace

formats::GraphDef graph_of_models(const ModelContext& context) {
  std::map<std::string, const NamedModel*> models;
  for (const auto& [name, model] : models_of(context)) models.emplace(name, &model);
  formats::GraphDef all;
  for (const auto& [name, model] : models) {
    try {
      formats::GraphDef graph = model_graph(model->layer, symbols(*model), name);
      all.nodes.insert(all.nodes.end(), graph.nodes.begin(), graph.nodes.end());
    } catch (...) {
      // A picture for people is no reason to end a run.
      log::warning(fmt::format("TensorBoard's graph does not contain the model '{}': {}", name,
                               current_error().message()));
    }
  }
  return all;
}

}  // namespace muster::inline v0_1::internal
