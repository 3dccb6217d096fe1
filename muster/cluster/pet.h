// Where torchrun would be the launcher of a pod, and a program of ours takes its place: Kubeflow's
// Trainer, and its newer PyTorchJob, give each pod the flags of torchrun as PET_<FLAG>.
// Thread safety: pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/environment.h"

namespace muster::inline v0_1::cluster {

// The variables of each process that this one shall start in its place, as torchrun would set them;
// nothing if it is a worker itself: one process a node, another launcher, or a node in which
// torchrun runs already. "auto", "gpu" and "cpu" as the number of processes are one process, which
// trains on all devices of the node. Throws InvalidArgument when PET_* is wrong.
std::vector<std::map<std::string, std::string>> processes_of_node(const Environment& environment);

// Returns how many workers an elastic job needs at least: the lower bound of PET_NNODES ("1:4"),
// times the processes of a node; 0 of a job with one number of nodes. Throws InvalidArgument when
// PET_* is wrong.
int min_workers_of_pet(const Environment& environment);

}  // namespace muster::inline v0_1::cluster
