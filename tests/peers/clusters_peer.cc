// K-means clustering: tools/peers/cases/clusters.py.
#include "muster/base/temp_directory.h"
#include "muster/muster.h"
#include "tests/peers/columns.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

Tensor points_of(const nlohmann::json& rows) {
  std::vector<Tensor> points;
  for (const auto& row : rows)
    points.push_back(torch::tensor(row.get<std::vector<double>>(), kFloat64).to(kFloat32));
  return torch::stack(points);
}

PeerArrays run_clusters(const PeerCase& a_case) {
  const nlohmann::json& program = a_case.program;
  const Tensor points = points_of(program.at("points"));
  const TempDirectory directory;
  KMeansOptions options;
  options.initial_clusters = points_of(program.at("initial_clusters"));
  options.num_clusters = static_cast<int64_t>(program.at("initial_clusters").size());
  take_option<std::string>(program, "distance_metric", options.distance_metric);
  take_option<bool>(program, "use_mini_batch", options.use_mini_batch);
  KMeansClustering kmeans(options, {.model_dir = directory.path(), .save_summary_steps = 0});
  const Dataset rows = Dataset::from_tensor_slices(points);
  kmeans.train([&] { return rows.repeat().batch(program.at("batch")); },
               {.max_steps = program.at("steps").get<int64_t>()});
  const InputFn once = [&] { return rows.batch(points.size(0)); };
  return {{"centers", PeerArray::of(kmeans.cluster_centers())},
          {"distances", PeerArray::of(kmeans.transform(once))},
          {"index", PeerArray::of(kmeans.predict_cluster_index(once))},
          {"score", PeerArray::of(kmeans.score(once))}};
}

const PeerKind kClusters("clusters", run_clusters);

}  // namespace
}  // namespace muster::inline v0_1
