// Environments as launchers set them, and the resulting clusters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/cluster/cluster_source.h"
#include "muster/cluster/internal/launcher_environments.h"
#include "muster/cluster/pet.h"
#include "muster/cluster/protection_check.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {
namespace {

using namespace cluster::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Case {
  const char* name{};
  Variables variables;
  const char* source{};
  int rank, size, local_rank, local_size;
  const char* coordinator{};
};

TEST(LauncherProcess, FindsItsPlaceUnderEachLauncher) {
  const std::vector<Case> cases{
      {"torchrun", kTorchrun, "torchrun", 2, 4, 0, 2, "node1:29501"},
      {"torchrun on one machine",
       kTorchrun + Variables{{"LOCAL_WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}}, "torchrun", 2, 4, 2,
       4, "127.0.0.1:29501"},
      {"MUSTER_PORT goes before MASTER_PORT", kTorchrun + Variables{{"MUSTER_PORT", "7000"}},
       "torchrun", 2, 4, 0, 2, "node1:7000"},
      {"the last port", kTorchrun + Variables{{"MASTER_PORT", "65535"}}, "torchrun", 2, 4, 0, 2,
       "node1:65534"},
      {"a port among those of outgoing connections",
       kTorchrun + Variables{{"MASTER_PORT", "55739"}}, "torchrun", 2, 4, 0, 2, "node1:63931"},
      {"the port before those of outgoing connections",
       kTorchrun + Variables{{"MASTER_PORT", "32767"}}, "torchrun", 2, 4, 0, 2, "node1:65535"},
      {"an IPv6 host", kTorchrun + Variables{{"MASTER_ADDR", "fd00::2"}}, "torchrun", 2, 4, 0, 2,
       "[fd00::2]:29501"},
      {"srun", kSlurm, "Slurm", 2, 3, 0, 1, "node01:61452"},
      {"srun, another step", kSlurm + Variables{{"SLURM_STEP_ID", "1"}, {"SLURM_STEPID", "1"}},
       "Slurm", 2, 3, 0, 1, "node01:61549"},
      {"srun in a shell of salloc", kSlurm + Variables{{"SLURM_JOB_NAME", "interactive"}}, "Slurm",
       2, 3, 0, 1, "node01:61452"},
      {"srun bash -c", kSlurm + Variables{{"SLURM_JOB_NAME", "bash"}}, "Slurm", 2, 3, 0, 1,
       "node01:61452"},
      {"srun, the first task", kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}},
       "Slurm", 0, 3, 0, 2, "node01:61452"},
      {"srun on one machine",
       kSlurm + Variables{{"SLURM_STEP_NODELIST", "vm"},
                          {"SLURM_STEP_TASKS_PER_NODE", "3"},
                          {"SLURM_NODEID", "0"},
                          {"SLURM_LOCALID", "2"}},
       "Slurm", 2, 3, 2, 3, "127.0.0.1:61452"},
      {"a task of Slurm with PMI and PMIx",
       kSlurm + Variables{{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"PMIX_RANK", "2"}}, "Slurm", 2, 3,
       0, 1, "node01:61452"},
      {"srun with MASTER_ADDR", kSlurm + Variables{{"MASTER_ADDR", "ib0"}, {"MASTER_PORT", "6000"}},
       "Slurm", 2, 3, 0, 1, "ib0:6001"},
      {"srun, a site without SLURM_NTASKS",
       without(kSlurm, {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}), "Slurm", 2, 3, 0,
       1, "node01:61452"},
      {"mpirun of Open MPI", kOpenMpi, "MPI", 1, 2, 1, 2, "127.0.0.1:62152"},
      {"mpirun on machines of Slurm",
       kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"SLURM_JOB_ID", "12"},
                            {"SLURM_JOB_NODELIST", "node[01-02]"}},
       "MPI", 1, 2, 0, 1, "node01:62152"},
      {"mpirun -x MASTER_ADDR",
       kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"MASTER_ADDR", "node1"}},
       "MPI", 1, 2, 0, 1, "node1:62152"},
      {"mpiexec of MPICH", kMpich, "MPI", 1, 2, 1, 2, "127.0.0.1:29501"},
      {"PyTorchJob", kPyTorchJob, "RANK and WORLD_SIZE", 2, 3, 0, 1, "mnist-master-0:23457"},
      {"a newer PyTorchJob with one process a node",
       kNewPyTorchJob + Variables{{"PET_NPROC_PER_NODE", "1"}, {"WORLD_SIZE", "2"}},
       "PET_* (Kubeflow)", 1, 2, 0, 1, "mnist-master-0:23457"},
      {"a newer PyTorchJob that leaves the number to torchrun",
       kNewPyTorchJob + Variables{{"PET_NPROC_PER_NODE", "auto"}, {"WORLD_SIZE", "2"}},
       "PET_* (Kubeflow)", 1, 2, 0, 1, "mnist-master-0:23457"},
      {"TrainJob", kTrainer, "PET_* (Kubeflow)", 1, 2, 0, 1, "mnist-node-0-0.mnist:29501"},
      {"elastic TrainJob", kTrainer + Variables{{"PET_NNODES", "1:4"}}, "PET_* (Kubeflow)", 1, 4, 0,
       1, "mnist-node-0-0.mnist:29501"},
      {"elastic PyTorchJob", kElasticPyTorchJob, "PET_* (Kubeflow)", 2, 4, 0, 1,
       "mnist-worker-0:23457"},
      {"Vertex AI", kVertex, "CLUSTER_SPEC", 2, 3, 0, 1, "cmle-training-workerpool0-ab12-0:2222"},
      {"SageMaker", kSageMaker, "SageMaker", 1, 2, 0, 1, "algo-1:29501"},
      {"an Indexed Job", kIndexedJob, "Kubernetes Job", 1, 3, 0, 1,
       "train-0.net.default.svc.cluster.local:29501"},
      {"an Indexed Job with MASTER_ADDR", kIndexedJob + Variables{{"MASTER_ADDR", "train-0.net"}},
       "Kubernetes Job", 1, 3, 0, 1, "train-0.net:29501"},
      {"a slice of a TPU", kTpuSlice, "TPU", 1, 2, 0, 1, "train-0.net:29501"},
      {"a slice of a TPU in an Indexed Job, whose index is that of the host",
       kTpuSlice + Variables{{"JOB_COMPLETION_INDEX", "1"}}, "TPU", 1, 2, 0, 1,
       "train-0.net:29501"},
      {"a slice of a TPU with MASTER_ADDR", kTpuSlice + Variables{{"MASTER_ADDR", "10.0.0.7"}},
       "TPU", 1, 2, 0, 1, "10.0.0.7:29501"},
      {"a TPU with CLOUD_TPU_TASK_ID, which has priority",
       kTpuSlice + Variables{{"CLOUD_TPU_TASK_ID", "0"}}, "TPU", 0, 2, 0, 1, "train-0.net:29501"},
      {"a process for each chip", kTpuChips, "TPU", 2, 4, 0, 2, "a:29501"},
      {"a process for each chip of one host",
       kTpuChips + Variables{{"TPU_PROCESS_ADDRESSES",
                              "localhost:8476,localhost:8477,localhost:8478,localhost:8479"}},
       "TPU", 2, 4, 2, 4, "127.0.0.1:29501"},
      {"two processes for each chip's cores, with a fourth number in the bounds",
       kTpuChips + Variables{{"TPU_PROCESS_BOUNDS", "1,2,1,2"}}, "TPU", 2, 4, 0, 2, "a:29501"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const ResolvedCluster got = resolve_in(c.variables, kPodHosts);
    EXPECT_EQ(got.source, c.source);
    EXPECT_EQ(got.rank, c.rank);
    EXPECT_EQ(got.num_workers, c.size);
    EXPECT_EQ(got.local_rank, c.local_rank);
    EXPECT_EQ(got.local_size, c.local_size);
    EXPECT_EQ(got.coordinator_address, c.coordinator);
    EXPECT_EQ(got.addresses.front(), c.coordinator);
    EXPECT_EQ(got.is_chief, c.rank == 0);
    EXPECT_THAT(got.workers, SizeIs(static_cast<size_t>(c.size)));
    EXPECT_EQ(got.workers.at(static_cast<size_t>(c.rank)), got.task);
    EXPECT_THAT(got.addresses, SizeIs(static_cast<size_t>(c.size)));
  }
}

TEST(LauncherProcess, IsAloneWhereALauncherStartedOneProcessOrNone) {
  const std::vector<std::pair<const char*, Variables>> cases{
      {"nothing", {}},
      {"one process of torchrun", kTorchrun + Variables{{"RANK", "0"},
                                                        {"WORLD_SIZE", "1"},
                                                        {"GROUP_RANK", "0"},
                                                        {"LOCAL_WORLD_SIZE", "1"}}},
      {"the script of sbatch", kSlurmShell},
      {"the shell of salloc", kSlurmShell + Variables{{"SLURM_STEP_ID", "4294967290"}}},
      {"a batch step", kSlurmShell + Variables{{"SLURM_STEP_ID", "batch"}}},
      {"srun --pty bash", kSlurmShell + Variables{{"SLURM_STEP_ID", "0"},
                                                  {"SLURM_JOB_NAME", "bash"},
                                                  {"SLURM_PTY_PORT", "37343"}}},
      {"the shell of salloc with PMI and PMIx",
       kSlurmShell + Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"PMIX_RANK", "0"}}},
      {"an Indexed Job whose pods are not a cluster", without(kIndexedJob, {"WORLD_SIZE"})},
      {"a TFJob of one replica, which gets no TF_CONFIG",
       {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}},
      {"a job of Vertex AI with one replica",
       {{"CLUSTER_SPEC", R"({"cluster":{"workerpool0":["h:2222"],"workerpool1":[]},)"
                         R"("environment":"cloud","task":{"type":"workerpool0","index":0}})"}}},
      {"another system's CLUSTER_SPEC", {{"CLUSTER_SPEC", "blue"}}},
      {"a job of SageMaker with one host",
       {{"SM_HOSTS", R"(["algo-1"])"}, {"SM_CURRENT_HOST", "algo-1"}}},
      {"a TPU with one host",
       {{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "localhost"}, {"TPU_NAME", "one"}}},
      {"the user's word", kTorchrun + kSlurm + Variables{{"MUSTER_CLUSTER", "local"}}}};
  for (const auto& [name, variables] : cases) {
    SCOPED_TRACE(name);
    const ResolvedCluster got = resolve_in(variables);
    EXPECT_FALSE(got.distributed());
    EXPECT_TRUE(got.is_chief);
    EXPECT_EQ(got.coordinator_address, "");
  }
}

TEST(LauncherProcess, TakesTheInnermostLauncherAndSaysWhatElseItSaw) {
  EXPECT_EQ(resolve_in(kTorchrun).origin, "torchrun 4f7e");
  EXPECT_EQ(resolve_in(kSlurm + kTorchrun).origin,
            "torchrun 4f7e (also seen, not used: Slurm step 12.0)");
  const ResolvedCluster mpi = resolve_in(kSlurm + kOpenMpi);
  EXPECT_EQ(mpi.rank, 1);
  EXPECT_EQ(mpi.origin, "Open MPI rank 1 of 2 (also seen, not used: Slurm step 12.0)");
  EXPECT_EQ(resolve_in(kTpuSlice).origin, "TPU v5litepod-8, worker 1");
  // Variables that a manifest sets count before those of the machine.
  EXPECT_EQ(resolve_in(kTpuSlice + kPyTorchJob).origin,
            "RANK 2 of WORLD_SIZE 3 (also seen, not used: TPU v5litepod-8, worker 1)");
  EXPECT_EQ(resolve_in({{"SLURM_JOB_ID", "12"}}).origin, "");
  EXPECT_EQ(resolve_in(kSlurm + Variables{{"MUSTER_CLUSTER", "local"}}).origin,
            "this process alone (also seen, not used: Slurm step 12.0)");
}

TEST(LauncherProcess, MusterClusterChooses) {
  const ResolvedCluster got =
      resolve_in(kTorchrun + kSlurm + Variables{{"MUSTER_CLUSTER", "slurm"}});
  EXPECT_EQ(got.source, "Slurm");
  EXPECT_EQ(got.num_workers, 3);
  const Error unknown = refusal_in({{"MUSTER_CLUSTER", "slrum"}});
  EXPECT_THAT(unknown.message(), HasSubstr("MUSTER_CLUSTER is 'slrum'"));
  EXPECT_THAT(unknown.hint(), HasSubstr("torchrun"));
  const Error absent = refusal_in(kTorchrun + Variables{{"MUSTER_CLUSTER", "slurm"}});
  EXPECT_THAT(absent.message(), HasSubstr("seen: torchrun 4f7e"));
  for (const ClusterSource& source : cluster_sources()) {
    const Error none = refusal_in({{"MUSTER_CLUSTER", std::string(source.word)}});
    EXPECT_THAT(none.message(), HasSubstr("nothing says")) << source.word;
  }
}

std::string tf_config(const std::string& type, int index) {
  return R"({"cluster":{"chief":["c:1"],"worker":["w0:1","w1:1"]},"task":{"type":")" + type +
         R"(","index":)" + std::to_string(index) + "}}";
}

TEST(LauncherProcess, NamesBothWhereTheyContradictEachOther) {
  const Variables config{{"TF_CONFIG", tf_config("worker", 1)}};
  const Error workers = refusal_in(config + kTorchrun);
  EXPECT_THAT(workers.message(), HasSubstr("TF_CONFIG says that this is rank 2 of 3"));
  EXPECT_THAT(workers.message(), HasSubstr("torchrun that it is rank 2 of 4"));
  EXPECT_THAT(workers.hint(), HasSubstr("MUSTER_CLUSTER=torchrun"));
  EXPECT_EQ(resolve_in(config + kTorchrun + Variables{{"MUSTER_CLUSTER", "torchrun"}}).num_workers,
            4);

  const Error rank = refusal_in(config + kPyTorchJob + Variables{{"RANK", "1"}});
  EXPECT_THAT(rank.message(), HasSubstr("RANK and WORLD_SIZE that it is rank 1 of 3"));
  EXPECT_EQ(resolve_in(config + kPyTorchJob).source, "TF_CONFIG");

  // Also if a script set two of three.
  const Error partial = refusal_in(config + Variables{{"RANK", "1"}, {"WORLD_SIZE", "3"}});
  EXPECT_THAT(partial.message(), HasSubstr("RANK and WORLD_SIZE that it is rank 1 of 3"));
  EXPECT_THAT(partial.hint(), HasSubstr("MUSTER_CLUSTER=tf_config"));
  EXPECT_EQ(resolve_in(config + Variables{{"RANK", "2"}, {"WORLD_SIZE", "3"}}).rank, 2);
  EXPECT_EQ(resolve_in(config + Variables{{"RANK", "1"}}).rank, 2);

  const Error mpi = refusal_in(kOpenMpi + kPyTorchJob);
  EXPECT_THAT(mpi.message(), HasSubstr("MPI that it is rank 1 of 2"));
  // A rank and a size contradict also if mpirun would have set more.
  const Error part = refusal_in(
      kPyTorchJob + Variables{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(part.message(),
              HasSubstr("OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE that it is rank 0 of 4"));
  EXPECT_THAT(part.hint(), HasSubstr("unset OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE, or set "
                                     "MUSTER_CLUSTER=rank"));
  EXPECT_EQ(resolve_in(kPyTorchJob +
                       Variables{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}})
                .rank,
            2);
  // An evaluator has no rank that could be another one.
  EXPECT_TRUE(
      resolve_in(Variables{{"TF_CONFIG", tf_config("evaluator", 0)}} + kPyTorchJob).is_evaluator);
  // Unused variables may be wrong.
  EXPECT_EQ(resolve_in(config + kPyTorchJob + Variables{{"RANK", "x"}}).source, "TF_CONFIG");
}

TEST(LauncherProcess, SaysWhichVariableIsWrong) {
  const std::vector<std::pair<Variables, const char*>> cases{
      {kTorchrun + Variables{{"RANK", "two"}}, "RANK is 'two'"},
      {kTorchrun + Variables{{"RANK", "-1"}}, "RANK is '-1'"},
      {kTorchrun + Variables{{"RANK", "4"}}, "rank 4 of 4"},
      {kTorchrun + Variables{{"MASTER_PORT", "x"}}, "MASTER_PORT is 'x'"},
      {kTorchrun + Variables{{"MUSTER_PORT", "70000"}}, "MUSTER_PORT is 70000"},
      {without(kTorchrun, {"MASTER_ADDR"}), "does not say on which machine"},
      {kSlurm + Variables{{"SLURM_STEP_NODELIST", "n[1"}}, "a bracket without its end"},
      {kSlurm + Variables{{"SLURM_STEP_TASKS_PER_NODE", "x"}}, "how many tasks each node has"},
      {kOpenMpi +
           Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}},
       "Open MPI does not say on which machine"},
      {kNewPyTorchJob, "no launcher started 2 processes"},
      {kNewPyTorchJob + Variables{{"WORLD_SIZE", "3"}}, "WORLD_SIZE is 3"},
      {kNewPyTorchJob + Variables{{"PET_NPROC_PER_NODE", "many"}}, "PET_NPROC_PER_NODE is 'many'"},
      {without(kNewPyTorchJob, {"PET_NPROC_PER_NODE"}), "no PET_NPROC_PER_NODE says"},
      {kTrainer + Variables{{"PET_NNODES", "4:1"}},
       "PET_NNODES is '4:1': the minimum is larger than the maximum"},
      {{{"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "w0:23456"}},
       "neither PET_NODE_RANK nor the name of this pod says"},
      {kElasticPyTorchJob + Variables{{"HOSTNAME", "other-worker-2"}},
       "says which of them this is"},
      {kElasticPyTorchJob + Variables{{"HOSTNAME", "mnist-worker-4"}}, "this is node 4"},
      {kSageMaker + Variables{{"SM_CURRENT_HOST", "algo-3"}}, "SM_CURRENT_HOST is 'algo-3'"},
      {kSageMaker + Variables{{"SM_HOSTS", "{"}}, "SM_HOSTS"},
      {kIndexedJob + Variables{{"JOB_INDEX", "1"}}, "replica 1 of a Job"},
      {kVertex + Variables{{"CLUSTER_SPEC", R"({"cluster":["h:1"],"task":{}})"}},
       "cluster is not an object"},
      {kTpuSlice + Variables{{"TPU_WORKER_ID", "x"}}, "TPU_WORKER_ID is 'x'"},
      {kTpuSlice + Variables{{"TPU_WORKER_ID", "2"}},
       "TPU_WORKER_ID is 2, and TPU_WORKER_HOSTNAMES has 2 hosts: workers are 0 to 1"},
      {kTpuSlice + Variables{{"CLOUD_TPU_TASK_ID", "5"}}, "CLOUD_TPU_TASK_ID is 5"},
      {kTpuSlice + Variables{{"TPU_WORKER_HOSTNAMES", "a,,b"}}, "host 1 is empty"},
      {kTpuSlice + Variables{{"TPU_WORKER_HOSTNAMES", "a,a"}}, "it has 'a' twice"},
      {kTpuSlice + Variables{{"TPU_HOST_BOUNDS", "1,two,1"}},
       "TPU_HOST_BOUNDS is '1,two,1', and not three whole numbers"},
      {kTpuSlice + Variables{{"TPU_HOST_BOUNDS", "2"}}, "TPU_HOST_BOUNDS is '2', and not three"},
      {kTpuSlice + Variables{{"TPU_PROCESS_BOUNDS", "2,2,1"}},
       "TPU_PROCESS_BOUNDS is 2,2,1, which is 4 processes, and TPU_WORKER_HOSTNAMES has 2"},
      {kTpuSlice + Variables{{"TPU_CHIPS_PER_HOST_BOUNDS", "2,0,1"}},
       "TPU_CHIPS_PER_HOST_BOUNDS is '2,0,1'"},
      {kTpuSlice + Variables{{"MEGASCALE_NUM_SLICES", "2"}}, "not supported: one run on 2 slices"},
      {kTpuChips + Variables{{"TPU_PROCESS_ADDRESSES", "a:8476,a:8476,b:8476,b:8477"}},
       "it has 'a:8476' twice"},
      {kTpuChips + Variables{{"CLOUD_TPU_TASK_ID", "4"}}, "TPU_PROCESS_ADDRESSES has 4 hosts"}};
  for (const auto& [variables, says] : cases) {
    EXPECT_THAT(refusal_in(variables).message(), HasSubstr(says)) << says;
  }
  EXPECT_THAT(refusal_in(kIndexedJob).hint(), HasSubstr("headless Service"));
}

// Or each would take all cores of it.
TEST(LauncherProcess, ProcessesThatMeetOnLoopbackShareTheirMachine) {
  for (const char* host : {"127.0.0.1", "localhost", "::1"}) {
    const Variables second{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", host}};
    const LocalPlace place = local_place(Environment(second));
    EXPECT_EQ(place.rank, 1) << host;
    EXPECT_EQ(place.size, 4) << host;
    EXPECT_EQ(resolve_in(second).coordinator_address, "127.0.0.1:29501");
  }
  // The variables about the machine are used as they are, and other machines are unknown.
  const Variables said{{"RANK", "3"},
                       {"WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "localhost"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_EQ(local_place(Environment(said)).size, 2);
  EXPECT_EQ(local_place(Environment(kPyTorchJob)).size, 1);
  const Variables counted{
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_EQ(local_place(Environment(counted)).rank, 1);
  // The master of a PyTorchJob finds itself on loopback, alone in its pod.
  Variables master{{"RANK", "0"},
                   {"WORLD_SIZE", "4"},
                   {"MASTER_ADDR", "localhost"},
                   {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_EQ(local_place(Environment(master)).size, 1);
  master["RANK"] = "1";
  EXPECT_EQ(local_place(Environment(master)).size, 4);
}

TEST(LauncherProcess, SpeaksOfSeveralVariablesInThePlural) {
  EXPECT_THAT(refusal_in({{"RANK", "9"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}).message(),
              HasSubstr("RANK and WORLD_SIZE say that this process has rank 9 of 2"));
  EXPECT_THAT(refusal_in(kTorchrun + Variables{{"RANK", "9"}}).message(),
              HasSubstr("torchrun says that"));
}

// Each rank costs memory, and a slip of the keyboard must not cost all of it.
TEST(LauncherProcess, KnowsNoClusterOfMoreThanAMillionProcesses) {
  EXPECT_THAT(message_of([] {
                resolve_in({{"RANK", "0"}, {"WORLD_SIZE", "2000000"}, {"MASTER_ADDR", "a"}});
              }),
              HasSubstr("rank 0 of 2000000"));
}

TEST(LauncherProcess, StartsTheProcessesOfANodeAsTorchrunWould) {
  const auto processes = processes_of_node(Environment(kNewPyTorchJob));
  ASSERT_THAT(processes, SizeIs(2));
  for (size_t local = 0; local < processes.size(); ++local) {
    const ResolvedCluster got = resolve_in(kNewPyTorchJob + processes[local]);
    EXPECT_EQ(got.source, "torchrun");
    EXPECT_EQ(got.rank, 2 + static_cast<int>(local));
    EXPECT_EQ(got.num_workers, 4);
    EXPECT_EQ(got.local_rank, static_cast<int>(local));
    EXPECT_EQ(got.local_size, 2);
    EXPECT_EQ(got.coordinator_address, "mnist-master-0:23457");
    // They start none themselves.
    EXPECT_THAT(processes_of_node(Environment(kNewPyTorchJob + processes[local])), IsEmpty());
  }
  // Nor if they inherit that PET_* was chosen, over a TF_CONFIG that was left.
  const Variables chosen =
      kNewPyTorchJob + Variables{{"MUSTER_CLUSTER", "pet"}, {"TF_CONFIG", tf_config("worker", 0)}};
  const auto of_chosen = processes_of_node(Environment(chosen));
  ASSERT_THAT(of_chosen, SizeIs(2));
  EXPECT_EQ(resolve_in(chosen + of_chosen[1]).rank, 3);
  EXPECT_THAT(processes_of_node(Environment(chosen + of_chosen[1])), IsEmpty());
  const auto trainer =
      processes_of_node(Environment(kTrainer + Variables{{"PET_NPROC_PER_NODE", "4"}}));
  ASSERT_THAT(trainer, SizeIs(4));
  EXPECT_EQ(trainer[3].at("RANK"), "7");
  EXPECT_EQ(trainer[3].at("MASTER_ADDR"), "mnist-node-0-0.mnist");
  for (const Variables& one : {Variables(), kTrainer, kTorchrun, kPyTorchJob,
                               kNewPyTorchJob + Variables{{"MUSTER_CLUSTER", "local"}},
                               kNewPyTorchJob + Variables{{"TF_CONFIG", tf_config("worker", 0)}}})
    EXPECT_THAT(processes_of_node(Environment(one)), IsEmpty());
}

TEST(LauncherProcess, ReadsTheHostsOfSageMakerFromItsFile) {
  const ResolvedCluster got = resolve_in(
      {{"TRAINING_JOB_NAME", "mnist-7"}},
      {{"/opt/ml/input/config/resourceconfig.json",
        R"({"current_host":"algo-1","hosts":["algo-1","algo-2"],"network_interface_name":"eth0"})"}});
  EXPECT_EQ(got.rank, 0);
  EXPECT_EQ(got.num_workers, 2);
  EXPECT_EQ(got.origin, "SageMaker job mnist-7");
}

TEST(LauncherProcess, LearnsWhereTheServiceWantsTheModel) {
  EXPECT_EQ(resolve_in(kVertex).model_dir, "gs://bucket/run/checkpoints/");
  EXPECT_EQ(resolve_in(without(kVertex, {"AIP_CHECKPOINT_DIR"})).model_dir,
            "gs://bucket/run/model/");
  EXPECT_EQ(resolve_in(kSageMaker).model_dir, "/opt/ml/model");
  EXPECT_EQ(resolve_in(Variables()).model_dir, std::nullopt);
  EXPECT_EQ(resolve_cluster(Environment(kVertex), {.model_dir = "mine"}).model_dir, "mine");
}

TEST(LauncherProcess, KnowsTheJobsOfAiPlatformAndOfKubeflow) {
  // Vertex and AI Platform say the same twice.
  const std::string both =
      R"({"cluster":{"master":["m:2222"],"worker":["w:2222"]},"environment":"cloud",)"
      R"("task":{"type":"worker","index":0,"trial":"3","cloud":"x"},"job":{"scaleTier":"CUSTOM"}})";
  const ResolvedCluster platform = resolve_in({{"TF_CONFIG", both}, {"CLUSTER_SPEC", both}});
  EXPECT_EQ(platform.source, "TF_CONFIG");
  EXPECT_EQ(platform.rank, 1);
  EXPECT_EQ(resolve_in({{"CLUSTER_SPEC", both}}).rank, 1);
  // A dynamic worker of a TFJob receives only its own entry and the parameter servers; its tasks
  // are found by their numbers, as texts.
  const auto sparse = [](const std::string& cluster) {
    return Variables{{"TF_CONFIG", R"({"sparseCluster":{)" + cluster +
                                       R"(},"task":{"type":"worker","index":1}})"}};
  };
  EXPECT_EQ(resolve_in(sparse(R"("worker":{"0":"j-worker-0:2222","1":"j-worker-1:2222"})")).rank,
            1);
  const Environment lone(sparse(R"("worker":{"1":"j-worker-1:2222"},"ps":["j-ps-0:2222"])"));
  EXPECT_THAT(error_of([&] { resolve_cluster(lone); }).message(),
              HasSubstr("it must have one \"chief\" task"));
}

TEST(LauncherProcess, NeedsATokenWhereOthersCanReachTheCoordinator) {
  EXPECT_NO_THROW(check_protected(resolve_in(kOpenMpi)));
  const Error torchrun = error_of([] { check_protected(resolve_in(kTorchrun)); });
  EXPECT_THAT(torchrun.message(), HasSubstr("MUSTER_JOB_TOKEN"));
  EXPECT_THAT(torchrun.hint(), HasSubstr("torchrun hands its own environment on"));
  EXPECT_THAT(error_of([] { check_protected(resolve_in(kSlurm)); }).hint(),
              HasSubstr("srun --export=ALL"));
  EXPECT_THAT(error_of([] {
                check_protected(resolve_in(kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                                {"MASTER_ADDR", "node1"}}));
              }).hint(),
              HasSubstr("mpirun -x MUSTER_JOB_TOKEN"));
  EXPECT_THAT(error_of([] { check_protected(resolve_in(kTpuSlice)); }).hint(),
              HasSubstr("in Kubernetes it is a Secret"));
  EXPECT_NO_THROW(check_protected(
      resolve_in(kTorchrun + Variables{{"MUSTER_JOB_TOKEN", "0123456789abcdef0123"}})));
}

TEST(LauncherProcess, KnowsItsPlaceOnTheMachine) {
  EXPECT_EQ(local_place(Environment(kOpenMpi)).rank, 1);
  EXPECT_EQ(local_place(Environment(kOpenMpi)).size, 2);
  EXPECT_EQ(local_place(Environment(kTorchrun + Variables{{"RANK", "x"}})).size, 1);
  EXPECT_EQ(local_place(Environment()).size, 1);
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
