// Environments as launchers set them, for tests.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "muster/base/error_of.h"
#include "muster/cluster/cluster_source.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster::testing {

using Variables = std::map<std::string, std::string>;
using Files = std::map<std::string, std::string>;

inline Variables operator+(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

inline Variables without(Variables all, std::initializer_list<const char*> names) {
  for (const char* name : names) all.erase(name);
  return all;
}

inline ResolvedCluster resolve_in(const Variables& variables, const Files& files = {}) {
  const Environment environment(variables);
  const auto read_file = [&](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  };
  return cluster::resolve_in({environment, read_file}, {.worker_zero_may_be_chief = true});
}

inline Error refusal_in(const Variables& variables, const Files& files = {}) {
  return error_of([&] { resolve_in(variables, files); });
}

// torchrun 1.13, rank 1 of two nodes with two processes each.
inline const Variables kTorchrun{{"RANK", "2"},
                                 {"WORLD_SIZE", "4"},
                                 {"GROUP_RANK", "1"},
                                 {"GROUP_WORLD_SIZE", "2"},
                                 {"LOCAL_RANK", "0"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"ROLE_RANK", "2"},
                                 {"ROLE_WORLD_SIZE", "4"},
                                 {"MASTER_ADDR", "node1"},
                                 {"MASTER_PORT", "29500"},
                                 {"OMP_NUM_THREADS", "1"},
                                 {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                 {"TORCHELASTIC_RESTART_COUNT", "0"},
                                 {"TORCHELASTIC_RUN_ID", "4f7e"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
// Slurm 22.05, task 2 of 3 on two nodes.
inline const Variables kSlurm{{"SLURM_JOB_ID", "12"},
                              {"SLURM_JOBID", "12"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_STEPID", "0"},
                              {"SLURM_PROCID", "2"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_NTASKS", "3"},
                              {"SLURM_NPROCS", "3"},
                              {"SLURM_STEP_NUM_TASKS", "3"},
                              {"SLURM_STEP_NUM_NODES", "2"},
                              {"SLURM_STEP_NODELIST", "node[01-02]"},
                              {"SLURM_JOB_NODELIST", "node[01-02]"},
                              {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                              {"SLURM_TASKS_PER_NODE", "2,1"},
                              {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
                              {"SLURM_JOB_NAME", "train"},
                              {"SLURMD_NODENAME", "node02"}};
// The variables in the script of sbatch, or in a shell: no step of srun, and the number 0.
inline const Variables kSlurmShell =
    without(kSlurm, {"SLURM_STEP_ID", "SLURM_STEPID"}) +
    Variables{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURMD_NODENAME", "node01"}};
// Open MPI 4.1, rank 1 of 2 on one machine.
inline const Variables kOpenMpi{{"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                                {"OMPI_UNIVERSE_SIZE", "2"},
                                {"PMIX_NAMESPACE", "233439233"},
                                {"PMIX_RANK", "1"},
                                {"OMPI_MCA_orte_hnp_uri", "233439232.0;tcp://10.0.0.9:46345"}};
// MPICH 4.0, rank 1 of 2 on one machine.
inline const Variables kMpich{{"PMI_RANK", "1"},        {"PMI_SIZE", "2"},
                              {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"},
                              {"PMI_FD", "8"},          {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "vm"}};
// PyTorchJob of training-operator 1.3, the second worker.
inline const Variables kPyTorchJob{{"MASTER_ADDR", "mnist-master-0"},
                                   {"MASTER_PORT", "23456"},
                                   {"WORLD_SIZE", "3"},
                                   {"RANK", "2"},
                                   {"PYTHONUNBUFFERED", "0"}};
// PyTorchJob of training-operator 1.8 with two processes a node: RANK is the node's.
inline const Variables kNewPyTorchJob{
    {"MASTER_ADDR", "mnist-master-0"}, {"MASTER_PORT", "23456"}, {"WORLD_SIZE", "4"}, {"RANK", "1"},
    {"PET_NPROC_PER_NODE", "2"},       {"PET_NODE_RANK", "1"},   {"PET_NNODES", "2"}};
// PyTorchJob of training-operator 1.8 with an elasticPolicy of 1 to 4 replicas, worker 2.
inline const Variables kElasticPyTorchJob{
    {"PET_RDZV_BACKEND", "c10d"}, {"PET_RDZV_ENDPOINT", "mnist-worker-0:23456"},
    {"PET_RDZV_ID", "mnist"},     {"PET_NNODES", "1:4"},
    {"PET_MAX_RESTARTS", "10"},   {"HOSTNAME", "mnist-worker-2"}};
// TrainJob of Kubeflow's Trainer 2.
inline const Variables kTrainer{
    {"PET_NNODES", "2"},          {"PET_NPROC_PER_NODE", "auto"},
    {"PET_NODE_RANK", "1"},       {"PET_MASTER_ADDR", "mnist-node-0-0.mnist"},
    {"PET_MASTER_PORT", "29500"}, {"JOB_COMPLETION_INDEX", "1"}};
inline const Variables kVertex{
    {"CLUSTER_SPEC",
     R"({"cluster":{"workerpool0":["cmle-training-workerpool0-ab12-0:2222"],)"
     R"("workerpool1":["cmle-training-workerpool1-ab12-0:2222","cmle-training-workerpool1-ab12-1:2222"]},)"
     R"("environment":"cloud","task":{"type":"workerpool1","index":1,"trial":""},)"
     R"("job":"{\"worker_pool_specs\":[]}","open_ports":["2222","3333"]})"},
    {"CLOUD_ML_JOB_ID", "7"},
    {"AIP_MODEL_DIR", "gs://bucket/run/model/"},
    {"AIP_CHECKPOINT_DIR", "gs://bucket/run/checkpoints/"},
    {"AIP_TENSORBOARD_LOG_DIR", "gs://bucket/run/logs/"}};
inline const Variables kSageMaker{{"SM_HOSTS", R"(["algo-2","algo-1"])"},
                                  {"SM_CURRENT_HOST", "algo-2"},
                                  {"SM_NETWORK_INTERFACE_NAME", "eth0"},
                                  {"SM_MODEL_DIR", "/opt/ml/model"},
                                  {"TRAINING_JOB_NAME", "mnist-7"}};
inline const Variables kIndexedJob{
    {"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "3"}, {"HOSTNAME", "train-1"}};
// GKE, the second host of a slice v5litepod-8 with four chips a host.
inline const Variables kTpuSlice{{"TPU_NAME", "pool-1"},
                                 {"TPU_WORKER_ID", "1"},
                                 {"TPU_WORKER_HOSTNAMES", "train-0.net,train-1.net"},
                                 {"TPU_ACCELERATOR_TYPE", "v5litepod-8"},
                                 {"TPU_TOPOLOGY", "2x4"},
                                 {"TPU_HOST_BOUNDS", "1,2,1"},
                                 {"TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"},
                                 {"TPU_SKIP_MDS_QUERY", "true"}};
// A process for each chip of two hosts with two chips each: the first process of the second host.
inline const Variables kTpuChips{{"TPU_PROCESS_ADDRESSES", "a:8476,a:8477,b:8476,b:8477"},
                                 {"CLOUD_TPU_TASK_ID", "2"},
                                 {"TPU_PROCESS_PORT", "8476"},
                                 {"TPU_VISIBLE_CHIPS", "0"},
                                 {"TPU_PROCESS_BOUNDS", "2,2,1"},
                                 {"TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"}};
inline const Files kPodHosts{{"/etc/hosts",
                              "127.0.0.1\tlocalhost\n"
                              "10.0.0.7\ttrain-1.net.default.svc.cluster.local\ttrain-1\n"}};

}  // namespace muster::inline v0_1::cluster::testing
