// How the replicas of a run are brought together; filled by the code that drives a strategy. Thread
// safety: a value.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/file_system.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::distribute {

class ElasticRun;

// The data that a strategy needs to bring the replicas together.
struct StartOptions {
  cluster::ResolvedCluster cluster{};  // of this task; local when there is none
  uint64_t seed = 0;                   // of initial values and shuffles
  // The call of the program that needs them, "Estimator::train()": it is the same on all tasks, and
  // messages name it.
  std::string call = "Strategy::start_replicas()";
  double join_timeout = 600;          // seconds to wait for all tasks to appear
  std::function<bool()> cancelled{};  // asked while waiting for them; true ends the wait
  // Where the run's checkpoints are, which parameter servers read and write; "": nowhere.
  std::string model_dir = {};
  FileSystem* fs = nullptr;  // of model_dir; nullptr: the file system of the path
  // Set: the replicas are those of the workers that are there. nullptr: those of all workers.
  std::shared_ptr<ElasticRun> elastic = {};
};

}  // namespace muster::inline v0_1::distribute
