// Runs on parameter servers for tests: each task is a thread with its own TF_CONFIG.
#pragma once

#include <functional>
#include <string>

#include "muster/estimator/internal/test_model.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::testing {

// A chief, `workers` - 1 workers and `servers` parameter servers that share a model_dir; `adapt`
// may change the configuration of each, which gets its rank, or -1 - index of a server.
struct ServedRun {
  int workers = 1;
  int servers = 1;
  distribute::ParameterServerOptions options = {};
  std::function<void(RunConfig& config, int task)> adapt = {};
};

// Trains, and gives the newest checkpoint. `seen` gets what the chief and workers return.
inline Checkpoint train_served(const ServedRun& run, const std::string& model_dir,
                               const ModelFn& model_fn, const InputFn& input,
                               const TrainOptions& options,
                               const std::function<void(int rank, const TrainResult&)>& seen = {}) {
  const LocalCluster cluster(run.workers, /*chief=*/true, run.servers);
  run_ranks(run.workers + run.servers, [&](int task) {
    const bool serves = task >= run.workers;
    RunConfig config = quiet_config(
        model_dir, distribute::parameter_server(run.options),
        serves ? cluster.server_environment(task - run.workers) : cluster.environment(task));
    if (run.adapt) run.adapt(config, serves ? run.workers - task - 1 : task);
    const TrainResult result = Estimator(model_fn, config).train(input, options);
    if (seen && !serves) seen(task, result);
  });
  return latest(model_dir);
}

}  // namespace muster::inline v0_1::testing
