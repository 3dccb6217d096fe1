// The model function of k-means. Thread safety: an immutable value; calls are safe from several
// threads with different contexts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/canned/kmeans.h"
#include "muster/features/dense_features.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

class KMeansPart {
 public:
  // Throws InvalidArgument, as KMeansClustering says.
  explicit KMeansPart(const KMeansOptions& options);

  EstimatorSpec operator()(const Features& features, ModelContext& context) const;

 private:
  // The variables; variables that the options do not need are undefined.
  struct State {
    Tensor clusters;
    Tensor initialized;      // int64 scalar: the centers that were chosen
    Tensor counts;           // float64 [clusters]: the points that made each center
    Tensor updated;          // the next clusters of update_in_steps
    Tensor update_in_steps;  // int64 scalar
    Tensor previous_loss;    // float64 scalar, below 0 before the first step
  };

  Tensor points_of(const Features& features, ModelContext& context) const;
  State state_of(ModelContext& context, int64_t numbers) const;
  // As they are compared with points.
  Tensor directions(const Tensor& clusters) const;
  // Distances [rows, clusters]; the distances of centers that were not chosen yet are infinite.
  Tensor distances(const Tensor& points, const Tensor& clusters, const Tensor& initialized) const;
  // Further centers out of the points of all replicas; `missing` is more than 0.
  Tensor choose(const Tensor& points, int64_t missing, ModelContext& context) const;
  EstimatorSpec train(const Tensor& points, State state, ModelContext& context) const;
  // The state after a step, from the sums [clusters, numbers + 1] of points and their counts.
  State next(State state, const Tensor& sums) const;

  KMeansOptions options_;
  int64_t num_clusters_;
  bool cosine_;
  bool several_steps_;  // make an iteration
  std::optional<DenseFeatures> columns_;
};

}  // namespace muster::inline v0_1::internal
