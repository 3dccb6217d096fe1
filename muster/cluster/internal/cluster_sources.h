// The sources of a cluster, each in a file of its own. cluster_sources() has their order.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/cluster/cluster_source.h"

namespace muster::inline v0_1::cluster::internal {

ClusterSource tf_config_source();       // TF_CONFIG with a cluster
ClusterSource torchrun_source();        // torch's elastic launcher
ClusterSource vertex_source();          // CLUSTER_SPEC of Vertex AI and AI Platform
ClusterSource pet_source();             // PET_*: Kubeflow's Trainer, and its newer PyTorchJob
ClusterSource rank_variables_source();  // RANK and WORLD_SIZE: its older PyTorchJob, scripts
ClusterSource mpi_source();             // Open MPI, MPICH, Intel MPI, MVAPICH
ClusterSource slurm_source();           // a step of srun
ClusterSource sagemaker_source();       // a training job of SageMaker
ClusterSource kubernetes_source();      // an Indexed Job, also in a JobSet
ClusterSource tpu_source();             // the hosts of a slice of a TPU

// The same interpretation of a TF_CONFIG as in training. Throws InvalidArgument.
ResolvedCluster resolve_tf_config_text(const std::string& text, const ResolveOptions& options);

}  // namespace muster::inline v0_1::cluster::internal
