// Trains on parameter servers in one process: each task is a thread with its own TF_CONFIG.
// Thread safety: free functions.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/distribute/parameter_server.h"
#include "muster/estimator/internal/test_model.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::testing {

// A chief, `workers` - 1 workers and `servers` parameter servers that share a model_dir.
struct ServedTasks {
  int workers = 1;
  int servers = 1;
  distribute::ParameterServerOptions options = {};
  // Changes the configuration of worker `index`, or of a server.
  std::function<void(RunConfig& config, bool serves, int index)> adapt = {};
};

inline void train_on(const ServedTasks& tasks, const std::string& model_dir,
                     const ModelFn& model_fn, const nlohmann::json& params, const InputFn& input,
                     const TrainOptions& options,
                     const std::function<void(int rank, const TrainResult&)>& seen = {}) {
  const LocalCluster cluster(tasks.workers, /*chief=*/true, tasks.servers);
  run_ranks(tasks.workers + tasks.servers, [&](int task) {
    const bool serves = task >= tasks.workers;
    const int index = serves ? task - tasks.workers : task;
    RunConfig config =
        quiet_config(model_dir, distribute::parameter_server(tasks.options),
                     serves ? cluster.server_environment(index) : cluster.environment(index));
    if (tasks.adapt) tasks.adapt(config, serves, index);
    Estimator estimator(model_fn, config, params);
    const TrainResult result = estimator.train(input, options);
    if (seen && !serves) seen(task, result);
  });
}

}  // namespace muster::inline v0_1::testing
