// Runs on parameter servers: each task is a thread of the test, with its own TF_CONFIG.
#pragma once

#include "muster/checkpoint/manager.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/estimator.h"
#include "muster/ps/parameter_server.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::testing {

// A chief, `workers` - 1 workers and `servers` parameter servers.
struct ServedRun {
  int workers = 1;
  int servers = 1;
  distribute::ParameterServerOptions options = {};
};

// Trains, each task with `config` except for its strategy and TF_CONFIG, and returns the newest
// checkpoint.
inline Checkpoint train_served(const ServedRun& run, const RunConfig& config,
                               const ModelFn& model_fn, const InputFn& input,
                               const TrainOptions& options) {
  const LocalCluster cluster(run.workers, /*chief=*/true, run.servers);
  run_ranks(run.workers + run.servers, [&](int task) {
    RunConfig its = config;
    its.train_distribute = distribute::parameter_server(run.options);
    its.environment = task < run.workers ? cluster.environment(task)
                                         : cluster.server_environment(task - run.workers);
    Estimator(model_fn, its).train(input, options);
  });
  return CheckpointManager(config.model_dir).load_latest()->checkpoint;
}

}  // namespace muster::inline v0_1::testing
