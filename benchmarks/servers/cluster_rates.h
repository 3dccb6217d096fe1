// How fast the global step grows in a cluster of processes, workers on one parameter server: by an
// Estimator, beside tf.estimator 2.15 with its ParameterServerStrategy. Thread safety: one call in
// a process.
#pragma once

#include <cstdint>
#include <string>

namespace muster::bench {

// What a task is told. Its steps touch the weights of examples/mnist. Up to `waiting_steps` each of
// them waits as long as a step computes, the rest compute next to nothing.
struct ClusterTask {
  std::string meet{};  // a folder of the run: the model's, and where workers meet
  int64_t workers = 0;
  int64_t waiting_steps = 0;
  int64_t max_steps = 0;
};

// Trains as a task of `muster run`. The chief prints two lines of the global_step/sec, of those
// that wait and of the others.
void train_cluster_task(const ClusterTask& task);

// Runs clusters of 1, 2 and 4 workers of both, in turns, and prints a table. `self` is the program
// that calls train_cluster_task() when it is given --task and the fields above as --meet,
// --workers,
// --waiting_steps and --max_steps.
void compare_clusters(const std::string& self, bool quick);

}  // namespace muster::bench
