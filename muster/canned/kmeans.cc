#include "muster/canned/kmeans.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/canned/internal/kmeans_part.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

ModelFn kmeans_model(const KMeansOptions& options, const RunConfig& config) {
  if (config.accumulate_steps != 1) {
    throw invalid_argument(
        fmt::format("KMeansClustering: not supported: RunConfig.accumulate_steps = {}",
                    config.accumulate_steps),
        "set mini_batch_steps_per_iteration, which is that for centers");
  }
  const internal::KMeansPart kmeans(options);
  return [kmeans](const Features& features, const Labels&, Mode, ModelContext& context) {
    return kmeans(features, context);
  };
}

}  // namespace

KMeansClustering::KMeansClustering(const KMeansOptions& options, RunConfig config)
    : Estimator(kmeans_model(options, config), config) {}

double KMeansClustering::score(const InputFn& input_fn) { return evaluate(input_fn).at("score"); }

Tensor KMeansClustering::predicted(const InputFn& input_fn, const std::string& key) {
  Predictions all = predict(input_fn, {.predict_keys = {key}, .yield_single_examples = false});
  std::vector<Tensor> batches;
  while (const auto batch = all.next()) batches.push_back(batch->at(key));
  if (batches.empty())
    throw invalid_argument("the input function gave no points", "check the data directory");
  return at::cat(batches, 0);
}

Tensor KMeansClustering::transform(const InputFn& input_fn) {
  return predicted(input_fn, "all_distances");
}

Tensor KMeansClustering::predict_cluster_index(const InputFn& input_fn) {
  return predicted(input_fn, "cluster_index");
}

Tensor KMeansClustering::cluster_centers() const { return get_variable_value("clusters"); }

}  // namespace muster::inline v0_1
