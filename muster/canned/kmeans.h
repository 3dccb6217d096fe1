// K-means clustering with the names, defaults and numbers of
// tf.compat.v1.estimator.experimental.KMeans. Thread safety: one thread.
//
//   KMeansClustering kmeans({.num_clusters = 8, .initial_clusters = "kmeans_plus_plus"},
//                           {.model_dir = "customers"});
//   kmeans.train(all_points, {.max_steps = 20});
//   const Tensor centers = kmeans.cluster_centers();  // [8, numbers of a point]
//
// Points are features that are one tensor, [rows] or [rows, numbers], or a dict of these,
// concatenated in the order of their names, or, with feature_columns, the output of DenseFeatures.
// Labels are ignored. Every replica has its part of a batch; sums are computed over all replicas in
// float64, so centers are the same on any number of replicas.
//   variables: "clusters" [num_clusters, numbers]; "initialized", the number of chosen centers;
//     with some options "cluster_counts", "clusters_updated", "update_in_steps" and
//     "previous_loss". A run that continues needs only these.
//   predictions: "all_distances" [rows, num_clusters] and "cluster_index" int64 [rows].
//   metrics: "score", the sum of the distances of all points to their nearest centers.
//   TensorBoard: "loss/raw", the score of a step's batch.
//   export: all_distances, cluster_index, and serving_default, which is cluster_index.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/estimator/estimator.h"
#include "muster/features/feature_column.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// How to choose the initial centers.
//   "random": points of the first batch, each at most once. If it has too few, also points of the
//     next batches; nothing else is learned until then.
//   "kmeans_plus_plus": points of the first batch; the probability of a point is proportional to
//     its distance to the centers chosen so far (Arthur and Vassilvitskii, "k-means++: the
//     advantages of careful seeding", 2007). The batch needs num_clusters points.
//   A tensor [clusters, numbers]: these centers, whatever num_clusters is.
//   A function of the points of a batch, float32 [rows, numbers], and the number of missing
//     centers. It returns centers, [0 to that number, numbers]. It is called while the model is
//     built and then in each step until there are enough centers. It must return the same on all
//     replicas, which may call it at the same time.
using InitialClusters =
    std::variant<std::string, Tensor, std::function<Tensor(const Tensor& inputs, int64_t k)>>;

// Options of KMeansClustering.
struct KMeansOptions {
  int64_t num_clusters = 0;  // at least 1; ignored if initial_clusters is a tensor
  InitialClusters initial_clusters = std::string("random");
  // "squared_euclidean": |x - c|^2. "cosine": 1 - x c / (|x| |c|).
  std::string distance_metric = "squared_euclidean";
  // False: each step is one of Lloyd's algorithm, in which a center becomes the mean of its nearest
  // points; use batches of the whole data. True: a center moves to the mean of all points it was
  // nearest to in all steps (Sculley, "Web-scale k-means clustering", 2010).
  bool use_mini_batch = true;
  // With use_mini_batch: centers are replaced after every this many steps, by the mean of the
  // points of these steps; at least 1.
  int64_t mini_batch_steps_per_iteration = 1;
  // For kmeans_plus_plus: how many additional points are drawn for each center, of which the best
  // is used; below 0: 2 + log(number of missing centers).
  int64_t kmeans_plus_plus_num_retries = 2;
  // Ends training after a step whose loss differs from the one before by less than this fraction of
  // 1 + the loss before; more than 0. Unset: never.
  std::optional<double> relative_tolerance{};
  std::vector<FeatureColumn> feature_columns{};  // dense ones; empty: all features
};

// An Estimator whose model is num_clusters centers. It trains, evaluates and predicts like every
// other Estimator.
class MUSTER_EXPORT KMeansClustering : public Estimator {
 public:
  // The seed is RunConfig's random_seed. Throws InvalidArgument, which begins with the class's
  // name, if an option is outside its documented range, for columns that DenseFeatures refuses, and
  // for a RunConfig whose accumulate_steps is not 1; and the errors of the Estimator's constructor.
  // Training throws it for features that are not points, and for a first batch that is too small.
  explicit KMeansClustering(const KMeansOptions& options, RunConfig config = {});

  // Returns the sum of the distances of all points of the input, which must end, to their nearest
  // centers. Throws the errors of evaluate().
  double score(const InputFn& input_fn);
  // Returns the distances of all points of the input to all centers, float32 [rows, num_clusters].
  // Throws the errors of Predictions::next().
  Tensor transform(const InputFn& input_fn);
  // Returns the index of the nearest center of each point, int64 [rows].
  Tensor predict_cluster_index(const InputFn& input_fn);
  // Returns the centers of the latest checkpoint, [num_clusters, numbers]. Throws NotFound if the
  // model was not trained.
  Tensor cluster_centers() const;

 private:
  Tensor predicted(const InputFn& input_fn, const std::string& key);
};

}  // namespace muster::inline v0_1
