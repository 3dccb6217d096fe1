// Environments of launchers of which a variable lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/cluster/cluster_source.h"
#include "muster/cluster/internal/launcher_environments.h"

namespace muster::inline v0_1::cluster {
namespace {

using namespace cluster::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Launcher {
  const char* name{};
  Variables variables;
};

// Each launcher with a rank above 0 and with rank 0, on one machine and on several.
std::vector<Launcher> launchers() {
  const Variables first_of_torchrun{{"RANK", "0"}, {"GROUP_RANK", "0"}, {"ROLE_RANK", "0"}};
  const Variables one_a_node{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                             {"MASTER_ADDR", "node1"}};
  return {
      {"torchrun", kTorchrun},
      {"torchrun, rank 0", kTorchrun + first_of_torchrun},
      {"torchrun on one machine", kTorchrun + Variables{{"LOCAL_WORLD_SIZE", "4"}}},
      {"Slurm", kSlurm},
      {"Slurm, task 0", kSlurm + Variables{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}}},
      {"Open MPI", kOpenMpi},
      {"Open MPI, rank 0",
       kOpenMpi + Variables{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}},
      {"Open MPI, one a node", kOpenMpi + one_a_node},
      {"Open MPI, rank 0, one a node",
       kOpenMpi + one_a_node + Variables{{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}}},
      {"MPICH", kMpich},
      {"MPICH, rank 0", kMpich + Variables{{"PMI_RANK", "0"}, {"MPI_LOCALRANKID", "0"}}},
      {"PyTorchJob", kPyTorchJob},
      {"PyTorchJob, rank 0", kPyTorchJob + Variables{{"RANK", "0"}}},
      {"a newer PyTorchJob",
       kNewPyTorchJob + Variables{{"PET_NPROC_PER_NODE", "1"}, {"WORLD_SIZE", "2"}}},
      {"a newer PyTorchJob with two processes a node", kNewPyTorchJob},
      {"TrainJob", kTrainer},
      {"TrainJob, node 0",
       kTrainer + Variables{{"PET_NODE_RANK", "0"}, {"JOB_COMPLETION_INDEX", "0"}}},
      {"SageMaker", kSageMaker},
      {"SageMaker, rank 0", kSageMaker + Variables{{"SM_CURRENT_HOST", "algo-1"}}},
      {"an Indexed Job", kIndexedJob},
      {"an Indexed Job, pod 0",
       kIndexedJob + Variables{{"JOB_COMPLETION_INDEX", "0"}, {"HOSTNAME", "train-0"}}},
      {"a slice of a TPU", kTpuSlice},
      {"a slice of a TPU, worker 0", kTpuSlice + Variables{{"TPU_WORKER_ID", "0"}}},
      {"a process for each chip", kTpuChips},
      {"a process for each chip, process 0", kTpuChips + Variables{{"CLOUD_TPU_TASK_ID", "0"}}}};
}

std::string host_of_coordinator(const ResolvedCluster& cluster) {
  return cluster.coordinator_address.substr(0, cluster.coordinator_address.rfind(':'));
}

// Checks the result without the variable: the same cluster, an error that names the variable, or a
// note that does.
void expect_never_silently_alone(const Variables& whole, const Variables& part,
                                 const std::string& name) {
  std::optional<ResolvedCluster> expected;
  try {
    expected = resolve_in(whole, kPodHosts);
  } catch (const Error&) {
    // A launcher that must be started by the program first is not a cluster yet.
  }
  std::optional<ResolvedCluster> got;
  try {
    got = resolve_in(part, kPodHosts);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    // A pod is found by its name, and else by this.
    const std::string& asked = name == "HOSTNAME" ? "MASTER_ADDR" : name;
    const std::string text = error.message() + "; " + error.hint();
    if (expected) {
      EXPECT_THAT(text, HasSubstr(asked));
    }
    return;
  }
  if (got->num_workers > 1) {
    ASSERT_TRUE(expected);
    EXPECT_EQ(got->rank, expected->rank);
    EXPECT_EQ(got->num_workers, expected->num_workers);
    EXPECT_EQ(host_of_coordinator(*got), host_of_coordinator(*expected));
    return;
  }
  EXPECT_THAT(got->notes, ElementsAre(AllOf(HasSubstr("trains alone"), HasSubstr(name))));
}

TEST(PartialEnvironment, IsTheSameClusterOrSaysWhatLacks) {
  for (const auto& [launcher, variables] : launchers()) {
    for (const auto& [name, value] : variables) {
      SCOPED_TRACE(std::string(launcher) + " without " + name);
      expect_never_silently_alone(variables, without(variables, {name.c_str()}), name);
    }
  }
}

TEST(PartialEnvironment, TakesAnEmptyVariableForOneThatIsNotThere) {
  for (const auto& [launcher, variables] : launchers()) {
    for (const auto& [name, value] : variables) {
      SCOPED_TRACE(std::string(launcher) + " with an empty " + name);
      expect_never_silently_alone(variables, variables + Variables{{name, ""}}, name);
    }
  }
}

// A launcher of one process may leave any variables.
TEST(PartialEnvironment, IsNoErrorWhereThereIsOneProcess) {
  const std::vector<Launcher> one{
      {"torchrun", kTorchrun + Variables{{"RANK", "0"},
                                         {"WORLD_SIZE", "1"},
                                         {"GROUP_RANK", "0"},
                                         {"LOCAL_WORLD_SIZE", "1"}}},
      {"MPICH",
       {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}}},
      {"PyTorchJob", kPyTorchJob + Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}},
      {"SageMaker", {{"SM_HOSTS", R"(["algo-1"])"}, {"SM_CURRENT_HOST", "algo-1"}}}};
  for (const auto& [launcher, variables] : one) {
    for (const auto& [name, value] : variables) {
      SCOPED_TRACE(std::string(launcher) + " without " + name);
      // A rank alone means that processes are counted, and not that there is one.
      const bool size = name == "WORLD_SIZE" || name == "PMI_SIZE" || name == "SM_HOSTS";
      if (size) {
        EXPECT_THAT(refusal_in(without(variables, {name.c_str()})).message(), HasSubstr(name));
        continue;
      }
      EXPECT_FALSE(resolve_in(without(variables, {name.c_str()})).distributed());
    }
  }
}

TEST(PartialEnvironment, ErrorsNameWhatIsThereAndWhatLacks) {
  const std::vector<std::pair<Variables, const char*>> cases{
      {{{"RANK", "1"}}, "RANK is 1, and WORLD_SIZE and MASTER_ADDR are not there"},
      {{{"RANK", "0"}}, "RANK is 0, and WORLD_SIZE and MASTER_ADDR are not there"},
      {{{"RANK", "0"}, {"MASTER_ADDR", "a"}}, "RANK is 0 and MASTER_ADDR is a, and WORLD_SIZE"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_RANK is 0, and OMPI_COMM_WORLD_SIZE, "},
      {{{"PMIX_RANK", "0"}}, "PMIX_RANK is 0"},
      {{{"PET_NODE_RANK", "0"}}, "PET_NODE_RANK is 0, and PET_NNODES is not there"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE is 2, and RANK and MASTER_ADDR are not there"},
      {{{"RANK", ""}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
       "WORLD_SIZE is 2 and MASTER_ADDR is a, and RANK is empty"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       "RANK is 0 and WORLD_SIZE is 2, and MASTER_ADDR is not there"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}},
       "RANK is 0 and WORLD_SIZE is 2, and MASTER_ADDR is not there"},
      {without(kTorchrun, {"LOCAL_RANK"}), "and LOCAL_RANK is not there"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, "OMPI_COMM_WORLD_RANK is 1, and OMPI_COMM_WORLD_SIZE, "},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "MPI_LOCALRANKID and MPI_LOCALNRANKS are not there"},
      {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "n"}}, "PMIX_RANK is 1, and WORLD_SIZE is not"},
      {{{"PET_NPROC_PER_NODE", "2"}}, "PET_NNODES and PET_NODE_RANK are not there"},
      {{{"PET_NODE_RANK", "1"}}, "PET_NODE_RANK is 1, and PET_NNODES is not there"},
      {{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}},
       "SLURM_PROCID is 2 and SLURM_NTASKS is 3, and SLURM_STEP_ID is not there"},
      {kSlurm + Variables{{"SLURM_JOB_NAME", "bash"}, {"SLURM_PTY_PORT", "37343"}},
       "SLURM_JOB_NAME is bash, as of a shell"},
      {{{"SM_HOSTS", R"(["algo-1","algo-2"])"}}, "and SM_CURRENT_HOST is not there"},
      {{{"SM_CURRENT_HOST", "algo-2"}}, "SM_CURRENT_HOST is algo-2, and SM_HOSTS is not there"},
      {{{"JOB_COMPLETION_INDEX", ""}, {"WORLD_SIZE", "3"}},
       "WORLD_SIZE is 3, and JOB_COMPLETION_INDEX is empty"}};
  for (const auto& [variables, says] : cases) {
    const Error error = refusal_in(variables);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr(says), HasSubstr("would train alone"))) << says;
    EXPECT_THAT(error.hint(), HasSubstr("MUSTER_CLUSTER=local trains alone")) << says;
    EXPECT_FALSE(resolve_in(variables + Variables{{"MUSTER_CLUSTER", "local"}}).distributed())
        << says;
  }
}

TEST(PartialEnvironment, NotesWhatMayBeMeant) {
  const std::vector<std::pair<Variables, const char*>> cases{
      {kSlurmShell, "SLURM_STEP_ID is not there: this process trains alone"},
      {{{"SLURM_NTASKS", "3"}}, "start the tasks by srun"},
      {kSlurmShell + Variables{{"SLURM_STEP_ID", "4294967290"}}, "step 4294967290 is that of a"},
      {without(kIndexedJob, {"WORLD_SIZE"}), "write WORLD_SIZE"},
      {{{"RANK", ""}}, "RANK is empty"},
      {{{"TF_CONFIG", ""}}, "TF_CONFIG is empty: this process trains alone"},
      {{{"CLUSTER_SPEC", ""}}, "CLUSTER_SPEC is empty"}};
  for (const auto& [variables, says] : cases) {
    EXPECT_THAT(resolve_in(variables).notes, ElementsAre(HasSubstr(says)));
    EXPECT_THAT(resolve_in(variables + Variables{{"MUSTER_CLUSTER", "local"}}).notes, IsEmpty());
  }
}

TEST(PartialEnvironment, IsNotSpokenOfWhereItIsOrdinary) {
  for (const Variables& variables :
       {Variables(), Variables{{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}},
        Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Variables{{"WORLD_SIZE", "1"}},
        Variables{{"SLURM_JOB_ID", "12"}},
        kSlurmShell +
            Variables{{"SLURM_NTASKS", "1"}, {"SLURM_NPROCS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}},
        Variables{{"TF_CONFIG", "{}"}}, Variables{{"CLUSTER_SPEC", "blue"}}, kVertex, kTorchrun,
        // Of nested launchers only the one that counts has to be whole.
        kSlurm + Variables{{"RANK", "2"}, {"WORLD_SIZE", "3"}},
        kTorchrun + without(kSlurm, {"SLURM_PROCID"})})
    EXPECT_THAT(resolve_in(variables).notes, IsEmpty());
}

// A process of its own, as a launcher says, is no reason to overlook the one inside of it.
TEST(PartialEnvironment, InsideOfALauncherOfOneProcessIsSeen) {
  const Variables lone = kSlurm + Variables{{"SLURM_PROCID", "0"},
                                            {"SLURM_NODEID", "0"},
                                            {"SLURM_NTASKS", "1"},
                                            {"SLURM_NPROCS", "1"},
                                            {"SLURM_STEP_NUM_TASKS", "1"},
                                            {"SLURM_STEP_NODELIST", "node01"},
                                            {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  EXPECT_FALSE(resolve_in(lone).distributed());
  EXPECT_THAT(refusal_in(lone + Variables{{"RANK", "1"}, {"WORLD_SIZE", "2"}}).message(),
              HasSubstr("MASTER_ADDR is not there"));
  // One outside of it may have started many such.
  const Variables sweep = without(kSlurm, {"SLURM_PROCID"}) +
                          Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"}};
  EXPECT_THAT(resolve_in(sweep).notes, IsEmpty());
}

TEST(PartialEnvironment, ThatWasChosenSaysWhatLacks) {
  for (const auto& [word, variables, lacks] :
       {std::tuple{"slurm", kSlurmShell, "SLURM_STEP_ID"},
        std::tuple{"rank", without(kPyTorchJob, {"MASTER_ADDR"}), "MASTER_ADDR"},
        std::tuple{"kubernetes", without(kIndexedJob, {"WORLD_SIZE"}), "WORLD_SIZE"}})
    EXPECT_THAT(refusal_in(variables + Variables{{"MUSTER_CLUSTER", word}}).message(),
                AllOf(HasSubstr(std::string("MUSTER_CLUSTER is '") + word), HasSubstr(lacks)));
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
