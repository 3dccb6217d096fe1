// K-means clustering, as tf.compat.v1.estimator.experimental.KMeans. Names, defaults and numbers
// are those. Thread safety: one thread.
//
//   KMeansClustering kmeans({.num_clusters = 8, .initial_clusters = "kmeans_plus_plus"},
//                           {.model_dir = "customers"});
//   kmeans.train(all_points, {.max_steps = 20});
//   const Tensor centers = kmeans.cluster_centers();  // [8, numbers of a point]
//
// Points are features that are one tensor, [rows] or [rows, numbers], or a dict of these, which are
// joined in the order of their names, or, with feature_columns, what DenseFeatures gives. Labels
// are not looked at. Every replica has its part of a batch; sums are made over all of them in
// float64, so centers are the same on any number of replicas.
//   variables: "clusters" [num_clusters, numbers]; "initialized", how many of them were chosen;
//   and,
//     where there are such, "cluster_counts", "clusters_updated", "update_in_steps" and
//     "previous_loss". A run that continues has all it needs in these.
//   predictions: "all_distances" [rows, num_clusters] and "cluster_index" int64 [rows].
//   metrics: "score", the sum of the distances of all points to the center that is nearest.
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

// How centers are chosen at first.
//   "random": points of the first batch, each at most once. Where it has too few, all of them, and
//     the others of the next batches, in which nothing else is learned.
//   "kmeans_plus_plus": points of the first batch, the next one with a probability that is
//     proportional to its distance to those chosen (Arthur and Vassilvitskii, "k-means++: the
//     advantages of careful seeding", 2007). The batch needs num_clusters points.
//   A tensor [clusters, numbers]: these, whatever num_clusters is.
//   A function of the points of a batch, float32 [rows, numbers], and how many are missing: it
//   gives
//     centers, [0 to that many, numbers], and is asked while the model is built and then in each
//     step until there are enough. It must give the same on all replicas, which may call it at
//     once.
using InitialClusters =
    std::variant<std::string, Tensor, std::function<Tensor(const Tensor& inputs, int64_t k)>>;

// Options of KMeansClustering.
struct KMeansOptions {
  int64_t num_clusters = 0;  // at least 1; of no meaning where initial_clusters is a tensor
  InitialClusters initial_clusters = std::string("random");
  // "squared_euclidean": |x - c|^2. "cosine": 1 - x c / (|x| |c|).
  std::string distance_metric = "squared_euclidean";
  // false: each step is one of Lloyd's, in which a center becomes the mean of the points that are
  // nearest to it; batches should be the whole data. true: a center moves to the mean of all points
  // it was nearest to in all steps (Sculley, "Web-scale k-means clustering", 2010).
  bool use_mini_batch = true;
  // With use_mini_batch: centers are replaced every so many steps, by the mean of the points of
  // these steps; at least 1.
  int64_t mini_batch_steps_per_iteration = 1;
  // Of kmeans_plus_plus: so many further points are drawn for each center, and the best of all is
  // taken; below 0: 2 + log(clusters that are missing).
  int64_t kmeans_plus_plus_num_retries = 2;
  // Training ends with the step whose loss differs from the one before by less than this, as a part
  // of 1 + the loss before; more than 0. Unset: it does not.
  std::optional<double> relative_tolerance{};
  std::vector<FeatureColumn> feature_columns{};  // dense ones; empty: all features
};

// An Estimator whose model is num_clusters centers. Where the Estimator is asked, it trains,
// evaluates and predicts as all others do.
class MUSTER_EXPORT KMeansClustering : public Estimator {
 public:
  // The seed is RunConfig's random_seed. Throws InvalidArgument, which begins with the class's
  // name, for options that are not as said there, columns that DenseFeatures refuses, and a
  // RunConfig whose accumulate_steps is not 1; and what the Estimator's constructor throws.
  // Training throws it for points that are no such features, and for a first batch that is too
  // small.
  explicit KMeansClustering(const KMeansOptions& options, RunConfig config = {});

  // Gives the sum of the distances of all points of the input, which ends, to the center that is
  // nearest. Throws what evaluate() throws.
  double score(const InputFn& input_fn);
  // Gives the distances of all points of the input to all centers, float32 [rows, num_clusters].
  // Throws what Predictions::next() throws.
  Tensor transform(const InputFn& input_fn);
  // Gives the number of the nearest center of each point, int64 [rows].
  Tensor predict_cluster_index(const InputFn& input_fn);
  // Gives the centers of the latest checkpoint, [num_clusters, numbers]. Throws NotFound when the
  // model was not trained.
  Tensor cluster_centers() const;

 private:
  Tensor predicted(const InputFn& input_fn, const std::string& key);
};

}  // namespace muster::inline v0_1
