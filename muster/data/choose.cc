// One data set out of several: choose_from_datasets(), sample_from_datasets().
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/data/internal/node.h"

namespace muster::inline v0_1 {

namespace in = data::internal;

namespace {

// The nodes of data sets that one is taken out of.
std::vector<in::NodePtr> inputs_of(const std::vector<Dataset>& datasets, std::string_view call) {
  if (datasets.empty()) {
    throw invalid_argument(fmt::format("{}() needs at least one data set, got none", call));
  }
  std::vector<in::NodePtr> inputs;
  for (const Dataset& dataset : datasets) {
    inputs.push_back(in::DatasetAccess::node(dataset));
    const std::optional<Element>&first = inputs.front()->kinds,
          &here = in::DatasetAccess::node(dataset)->kinds;
    if (!first || !here || in::same_kinds(*first, *here)) continue;
    throw in::unequal_kinds(
        fmt::format("{}(): data set {}, {},", call, inputs.size() - 1, dataset.describe()), *here,
        *first);
  }
  return inputs;
}

}  // namespace

Dataset Dataset::choose_from_datasets(std::vector<Dataset> datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset) {
  std::vector<in::NodePtr> inputs = inputs_of(datasets, "choose_from_datasets");
  inputs.push_back(choices.node_);
  return Dataset(in::make_node(in::Choose{.sampled = false,
                                          .weights = {},
                                          .seed = std::nullopt,
                                          .rerandomize = true,
                                          .stop_on_empty = stop_on_empty_dataset},
                               std::move(inputs)));
}

Dataset Dataset::sample_from_datasets(std::vector<Dataset> datasets, const SampleOptions& options) {
  const std::vector<in::NodePtr> given = inputs_of(datasets, "sample_from_datasets");
  std::vector<double> weights = options.weights;
  if (weights.empty()) weights.assign(given.size(), 1.0);
  if (weights.size() != given.size()) {
    throw invalid_argument(fmt::format("sample_from_datasets(): {} weights for {} data sets",
                                       weights.size(), given.size()),
                           "give one for each, or none");
  }
  in::Choose choose{.sampled = true,
                    .weights = {},
                    .seed = options.seed,
                    .rerandomize = options.rerandomize_each_iteration,
                    .stop_on_empty = options.stop_on_empty_dataset};
  std::vector<in::NodePtr> drawn;  // without inputs of weight 0
  for (size_t i = 0; i < given.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      throw invalid_argument(fmt::format("sample_from_datasets(): weight {} is {}", i, weights[i]),
                             "a weight is a number of at least 0");
    }
    if (weights[i] == 0) continue;
    choose.weights.push_back(weights[i]);
    drawn.push_back(given[i]);
  }
  if (drawn.empty()) {
    throw invalid_argument("sample_from_datasets(): all weights are 0",
                           "give a weight to at least one data set");
  }
  if (drawn.size() == 1) return Dataset(drawn.front());
  return Dataset(in::make_node(std::move(choose), std::move(drawn)));
}

}  // namespace muster::inline v0_1
