#include "muster/launch/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Environment environment(std::map<std::string, std::string> variables = {}) {
  return Environment(std::move(variables));
}

std::string value(const ProcessSpec& spec, const std::string& name) {
  for (const auto& [key, text] : spec.environment) {
    if (key == name) return text;
  }
  return "(unset)";
}

Machine cores(int n) {
  Machine machine;
  for (int i = 0; i < n; ++i) machine.cores.push_back(i);
  machine.usable = n;
  return machine;
}

TEST(PlanRun, MoreTasksThanAMachineBearsAreRefused) {
  const auto plan = [](int workers) {
    std::vector<int> ports(static_cast<size_t>(workers));
    std::iota(ports.begin(), ports.end(), 1001);
    return plan_run({.workers = workers, .command = {"/bin/true"}}, cores(2), ports, environment());
  };
  EXPECT_EQ(plan(64).processes.size(), 64u);
  const Error error = error_of([&] { plan(65); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(),
            "65 tasks and 2 cores: at most 32 tasks a core can share this machine");
}

TEST(PlanRun, WorkersGetOneClusterAndTheirOwnTask) {
  const RunPlan plan = plan_run({.workers = 3, .command = {"/bin/true", "--a=b"}}, cores(8),
                                {1001, 1002, 1003}, environment());
  ASSERT_EQ(plan.processes.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const ProcessSpec& spec = plan.processes[i];
    EXPECT_EQ(spec.name, "worker " + std::to_string(i));
    EXPECT_THAT(spec.argv, ElementsAre("/bin/true", "--a=b"));
    const auto expected = nlohmann::json::parse(
        R"({"cluster":{"worker":["127.0.0.1:1001","127.0.0.1:1002","127.0.0.1:1003"]},
            "task":{"type":"worker","index":)" +
        std::to_string(i) + "}}");
    EXPECT_EQ(nlohmann::json::parse(value(spec, "TF_CONFIG")), expected);
    EXPECT_EQ(value(spec, "OMP_NUM_THREADS"), "2");
    EXPECT_EQ(value(spec, "MUSTER_THREADS"), "2");
  }
  EXPECT_THAT(plan.processes[0].cores, ElementsAre(0, 1));
  EXPECT_THAT(plan.processes[1].cores, ElementsAre(2, 3));
  EXPECT_THAT(plan.processes[2].cores, ElementsAre(4, 5));
}

TEST(PlanRun, ChiefComesBesideTheWorkers) {
  const RunPlan plan = plan_run({.workers = 2, .chief = true, .command = {"/bin/true"}}, cores(3),
                                {1, 2, 3}, environment());
  ASSERT_EQ(plan.processes.size(), 3u);
  EXPECT_EQ(plan.processes[0].name, "chief 0");
  EXPECT_EQ(nlohmann::json::parse(value(plan.processes[2], "TF_CONFIG")),
            nlohmann::json::parse(R"({"cluster":{"chief":["127.0.0.1:1"],
              "worker":["127.0.0.1:2","127.0.0.1:3"]},"task":{"type":"worker","index":1}})"));
}

TEST(PlanRun, OnTheOtherMachinesOfAnElasticRunEachWorkerMayBeLost) {
  RunOptions options{.workers = 1, .min_workers = 1, .restart = 2, .command = {"/bin/true"}};
  options.place = RunPlace{.node = 0, .addresses = {{"a:1"}, {"b:1"}}};
  const RunPlan first = plan_run(options, cores(2), {}, environment());
  EXPECT_FALSE(first.processes[0].may_be_lost || first.processes[0].newcomer);
  options.place->node = 1;
  options.place->joins = true;
  const RunPlan second = plan_run(options, cores(2), {}, environment());
  EXPECT_EQ(second.processes[0].name, "worker 1");
  EXPECT_TRUE(second.processes[0].may_be_lost && second.processes[0].spared);
  EXPECT_TRUE(second.processes[0].newcomer);
  EXPECT_EQ(second.processes[0].restarts, 2);
  EXPECT_EQ(value(second.processes[0], "MUSTER_MIN_WORKERS"), "1");
}

TEST(PlanRun, ServersAreTasksOfTheCluster) {
  const RunPlan plan =
      plan_run({.workers = 1, .chief = true, .ps = 2, .restart = 3, .command = {"/bin/true"}},
               cores(2), {1, 2, 3, 4}, environment());
  ASSERT_EQ(plan.processes.size(), 4u);
  EXPECT_EQ(plan.processes[3].name, "ps 1");
  EXPECT_EQ(nlohmann::json::parse(value(plan.processes[3], "TF_CONFIG")),
            nlohmann::json::parse(R"({"cluster":{"chief":["127.0.0.1:1"],"worker":["127.0.0.1:2"],
              "ps":["127.0.0.1:3","127.0.0.1:4"]},"task":{"type":"ps","index":1}})"));
  EXPECT_TRUE(plan.processes[1].may_be_lost);
  EXPECT_FALSE(plan.processes[0].may_be_lost || plan.processes[2].may_be_lost);
  EXPECT_TRUE(plan.processes[2].serves);
  EXPECT_FALSE(plan.processes[0].serves || plan.processes[1].serves);
  EXPECT_EQ(plan.processes[2].restarts, 3);
  EXPECT_THAT(message_of([] {
                plan_run({.workers = 2, .ps = 1, .command = {"/bin/true"}}, cores(2), {1, 2, 3},
                         environment());
              }),
              HasSubstr("--ps is 1, and there is no --chief"));
}

TEST(PlanRun, AnEvaluatorStandsBesideTheCluster) {
  const RunPlan plan = plan_run({.workers = 2, .evaluator = true, .command = {"/bin/true"}},
                                cores(6), {1001, 1002}, environment());
  ASSERT_EQ(plan.processes.size(), 3u);
  const auto config = [&](size_t task) {
    return nlohmann::json::parse(value(plan.processes[task], "TF_CONFIG"));
  };
  const ProcessSpec& evaluator = plan.processes[2];
  EXPECT_EQ(evaluator.name, "evaluator");
  EXPECT_TRUE(evaluator.beside);
  EXPECT_TRUE(evaluator.secrets.empty()) << "it joins nobody";
  EXPECT_THAT(evaluator.cores, ElementsAre(4, 5));
  EXPECT_EQ(config(2)["task"], nlohmann::json::parse(R"({"type":"evaluator","index":0})"));
  EXPECT_EQ(config(2)["cluster"], config(0)["cluster"]);
  EXPECT_FALSE(config(0)["cluster"].contains("evaluator"));
  EXPECT_FALSE(plan.processes[0].beside);
  // All know by which start they belong together, and each start is another one.
  const std::string run = value(evaluator, "MUSTER_RUN_ID");
  EXPECT_EQ(run.size(), 16u);
  EXPECT_EQ(value(plan.processes[0], "MUSTER_RUN_ID"), run);
  const RunPlan again = plan_run({.workers = 2, .evaluator = true, .command = {"/bin/true"}},
                                 cores(6), {1001, 1002}, environment());
  EXPECT_NE(value(again.processes[0], "MUSTER_RUN_ID"), run);
}

TEST(PlanRun, ATaskThatTrainsAloneKeepsNoTfConfigBesideAnEvaluator) {
  const RunPlan plan =
      plan_run({.evaluator = true, .command = {"/bin/true"}}, cores(2), {1001}, environment());
  ASSERT_EQ(plan.processes.size(), 2u);
  EXPECT_THAT(plan.processes[0].without, ElementsAre("TF_CONFIG"));
  EXPECT_EQ(value(plan.processes[0], "MUSTER_THREADS"), "1");
  EXPECT_EQ(nlohmann::json::parse(value(plan.processes[1], "TF_CONFIG")),
            nlohmann::json::parse(R"({"cluster":{"chief":["127.0.0.1:1001"]},
                                      "task":{"type":"evaluator","index":0}})"));
}

// A run inside of a task of torchrun's, or of a script's: its tasks have places of their own.
TEST(PlanRun, ThePlaceInAnotherRunIsNotThatOfTheTasks) {
  const Environment within{{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "host0"}};
  const auto plan =
      plan_run({.workers = 2, .command = {"/bin/true"}}, cores(2), {1001, 1002}, within);
  for (const ProcessSpec& process : plan.processes)
    EXPECT_THAT(process.without, ElementsAre("RANK", "WORLD_SIZE"));
  // A task alone takes part in the other run.
  const auto alone = plan_run({.workers = 1, .command = {"/bin/true"}}, cores(2), {1001}, within);
  EXPECT_THAT(alone.processes.front().without, ElementsAre("TF_CONFIG"));
}

TEST(PlanRun, ASingleTaskRunsLocally) {
  const RunPlan plan =
      plan_run({.command = {"/bin/true"}}, cores(4), {1}, environment({{"TF_CONFIG", "{}"}}));
  EXPECT_EQ(value(plan.processes[0], "TF_CONFIG"), "(unset)");
  EXPECT_THAT(plan.processes[0].without, ElementsAre("TF_CONFIG"));
  EXPECT_EQ(value(plan.processes[0], "MUSTER_THREADS"), "4");
}

TEST(PlanRun, ThreadsComeFromTheFlagThenTheEnvironmentThenTheCores) {
  const auto threads = [](RunOptions options, std::map<std::string, std::string> variables) {
    options.workers = 2;
    options.command = {"/bin/true"};
    const RunPlan plan = plan_run(options, cores(6), {1, 2}, environment(std::move(variables)));
    return std::pair(value(plan.processes[1], "OMP_NUM_THREADS"),
                     value(plan.processes[1], "MUSTER_THREADS"));
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(threads({}, {}), Pair("3", "3"));
  EXPECT_EQ(threads({.cores_per_task = 2}, {}), Pair("2", "2"));
  EXPECT_EQ(threads({}, {{"OMP_NUM_THREADS", "5"}}), Pair("5", "5"));
  EXPECT_EQ(threads({}, {{"MUSTER_THREADS", "4"}}), Pair("4", "4"));
  EXPECT_EQ(threads({}, {{"MUSTER_THREADS", "4"}, {"OMP_NUM_THREADS", "5"}}), Pair("5", "4"));
  EXPECT_EQ(threads({.threads = 7}, {{"MUSTER_THREADS", "4"}, {"OMP_NUM_THREADS", "5"}}),
            Pair("7", "7"));
  EXPECT_EQ(threads({}, {{"OMP_NUM_THREADS", "5,2"}}), Pair("5,2", "5"));
  EXPECT_EQ(threads({}, {{"OMP_NUM_THREADS", "x"}}), Pair("x", "3"));  // OpenMP's to complain of
  const Error wrong = error_of([&] { threads({}, {{"MUSTER_THREADS", "x"}}); });
  EXPECT_EQ(wrong.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "MUSTER_THREADS is 'x', not a positive whole number");
}

TEST(PlanRun, PinsOnlyWhereEveryTaskCanHaveCoresOfItsOwn) {
  const auto pinned = [](RunOptions options, const Machine& machine) {
    options.workers = 3;
    options.command = {"/bin/true"};
    const RunPlan plan = plan_run(options, machine, {1, 2, 3}, environment());
    return std::pair(plan.processes[2].cores, value(plan.processes[2], "MUSTER_THREADS"));
  };
  EXPECT_THAT(pinned({}, cores(2)).first, IsEmpty());
  EXPECT_EQ(pinned({}, cores(2)).second, "1");
  EXPECT_THAT(pinned({.pin = false}, cores(6)).first, IsEmpty());
  EXPECT_THAT(pinned({.cores_per_task = 3}, cores(6)).first, IsEmpty());
  EXPECT_THAT(pinned({.cores_per_task = 2'000'000'000}, cores(6)).first, IsEmpty());
  EXPECT_THAT(pinned({.cores_per_task = 1}, cores(6)).first, ElementsAre(2));
  Machine container = cores(64);
  container.usable = 6;  // by quota: which of the 64 cores is the kernel's affair
  EXPECT_THAT(pinned({}, container).first, IsEmpty());
  EXPECT_EQ(pinned({}, container).second, "2");
}

TEST(PlanRun, WarnsOfMoreCoresThanThereAre) {
  const auto warning = [](RunOptions options, const Machine& machine) {
    options.command = {"/bin/true"};
    return plan_run(options, machine, std::vector<int>(task_count(options), 1), environment())
        .warning;
  };
  EXPECT_THAT(warning({.workers = 2, .cores_per_task = 8}, cores(2)),
              HasSubstr("--cores-per-task=8 for 2 tasks needs 16 cores, but there are 2"));
  EXPECT_THAT(warning({.workers = 3, .chief = true, .cores_per_task = 3}, cores(8)),
              HasSubstr("an equal share is 2"));
  EXPECT_THAT(warning({.workers = 4096 / 256, .cores_per_task = 2'000'000'000}, cores(2)),
              HasSubstr("needs 32000000000 cores"));
  EXPECT_EQ(warning({.workers = 2, .cores_per_task = 4}, cores(8)), "");
  EXPECT_EQ(warning({.workers = 9}, cores(2)), "");  // a fair share is at least one
  Machine container = cores(64);
  container.usable = 6;
  EXPECT_THAT(warning({.workers = 2, .cores_per_task = 8}, container), HasSubstr("there are 6"));
}

TEST(PlanRun, RefusesWhatCannotBe) {
  const auto refused = [](const RunOptions& options, int ports = 1) {
    try {
      plan_run(options, cores(2), std::vector<int>(ports, 1), environment());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused({.workers = 0, .command = {"x"}}), HasSubstr("--workers is 0"));
  EXPECT_THAT(refused({.workers = -2, .chief = true, .command = {"x"}}),
              HasSubstr("--workers is -2"));
  EXPECT_THAT(refused({}), HasSubstr("no program to run"));
  EXPECT_THAT(refused({.threads = -1, .command = {"x"}}), HasSubstr("--threads is -1"));
  EXPECT_THAT(refused({.cores_per_task = -1, .command = {"x"}}),
              HasSubstr("--cores-per-task is -1"));
}

TEST(Describe, IsACommandAShellUnderstands) {
  const RunPlan plan = plan_run({.workers = 2, .command = {"/bin/echo", "it's", "plain"}}, cores(2),
                                {11, 12}, environment());
  EXPECT_EQ(describe(plan),
            "# worker 0\n"
            R"(env TF_CONFIG='{"cluster":{"worker":["127.0.0.1:11","127.0.0.1:12"]},)"
            R"("task":{"index":0,"type":"worker"}}' OMP_NUM_THREADS=1 MUSTER_THREADS=1)"
            " taskset -c 0 /bin/echo 'it'\\''s' plain\n"
            "# worker 1\n"
            R"(env TF_CONFIG='{"cluster":{"worker":["127.0.0.1:11","127.0.0.1:12"]},)"
            R"("task":{"index":1,"type":"worker"}}' OMP_NUM_THREADS=1 MUSTER_THREADS=1)"
            " taskset -c 1 /bin/echo 'it'\\''s' plain\n");
}

TEST(Describe, ShowsNoToken) {
  const auto planned = [] {
    return plan_run({.workers = 2, .command = {"/bin/true"}}, cores(2), {11, 12}, environment());
  };
  const auto token_of = [](const ProcessSpec& spec) {
    const auto found = std::ranges::find(spec.secrets, "MUSTER_JOB_TOKEN",
                                         &std::pair<std::string, std::string>::first);
    return found == spec.secrets.end() ? "" : found->second;
  };
  const RunPlan plan = planned();
  const std::string token = token_of(plan.processes[0]);
  EXPECT_GE(token.size(), 32u);
  EXPECT_EQ(token_of(plan.processes[1]), token) << "tasks of a run know one token";
  EXPECT_NE(token_of(planned().processes[0]), token) << "another run knows another";
  EXPECT_THAT(describe(plan), ::testing::Not(HasSubstr(token)));
  EXPECT_THAT(describe(plan), ::testing::Not(HasSubstr("MUSTER_JOB_TOKEN")));
}

TEST(ThisMachine, HasCores) {
  const Machine machine = this_machine();
  EXPECT_GE(machine.usable, 1);
  EXPECT_LE(machine.usable, static_cast<int>(machine.cores.size()));
}

class RunTest : public ::testing::Test {
 protected:
  RunTest() { out_ = fopen((folder_ + "/out").c_str(), "w+"); }
  ~RunTest() override { fclose(out_); }

  // "" if the file does not exist.
  std::string read(const std::string& name) {
    return local_file_system().read_file(folder_ + "/" + name).value_or("");
  }

  RunOptions script(int workers, const std::string& text) {
    RunOptions options{.workers = workers,
                       .command = {"/bin/sh", "-c", "cd " + folder_ + "; " + text}};
    options.supervise = {.survivor_time = std::chrono::seconds(10),
                         .grace = std::chrono::milliseconds(100),
                         .out_fd = fileno(out_),
                         .err_fd = fileno(out_)};
    return options;
  }

  const TempDirectory directory_;
  const std::string folder_ = directory_.path();
  FILE* out_ = nullptr;
};

TEST_F(RunTest, EachTaskSeesItsOwnTfConfig) {
  ASSERT_EQ(run(script(2, "echo \"$TF_CONFIG\" > config.$$; echo done")), 0);
  std::set<int> indices;
  std::set<std::string> clusters;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("config.")) continue;
    const auto config = nlohmann::json::parse(read(name));
    indices.insert(config.at("task").at("index").get<int>());
    EXPECT_EQ(config.at("task").at("type"), "worker");
    EXPECT_EQ(config.at("cluster").at("worker").size(), 2u);
    clusters.insert(config.at("cluster").dump());
  }
  EXPECT_THAT(indices, ElementsAre(0, 1));
  EXPECT_EQ(clusters.size(), 1u);
  EXPECT_THAT(read("out"), HasSubstr("[worker 0] done\n"));
  EXPECT_THAT(read("out"), HasSubstr("[worker 1] done\n"));
}

[[noreturn]] void run_with_temporary_folder(const char* folder) {
  setenv("TMPDIR", folder, 1);
  try {
    run({.workers = 2, .tls = true, .command = {"/bin/true"}});
  } catch (const Error& error) {
    fputs((error.message() + "\n" + error.hint()).c_str(), stderr);
    std::_Exit(exit_code(error.kind()));
  }
  std::_Exit(0);
}

TEST(RunDeathTest, ATemporaryFolderThatIsNotThereIsNamed) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(run_with_temporary_folder("/nonexistent"), ::testing::ExitedWithCode(2),
              "/nonexistent/muster-run-.*\n.*set TMPDIR to a folder");
}

// In a process of its own, which cannot write a byte into a file.
[[noreturn]] void run_without_room_for_certificates(const std::string& folder) {
  setenv("TMPDIR", folder.c_str(), 1);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (setrlimit(RLIMIT_FSIZE, &none) != 0) std::_Exit(1);
  try {
    run({.workers = 2, .tls = true, .command = {"/bin/true"}});
  } catch (const Error&) {
    std::_Exit(std::filesystem::is_empty(folder) ? 0 : 2);
  }
  std::_Exit(3);
}

TEST(RunDeathTest, CertificatesThatCannotBeWrittenLeaveNoFolder) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const TempDirectory directory;
  EXPECT_EXIT(run_without_room_for_certificates(directory.path()), ::testing::ExitedWithCode(0),
              "");
}

TEST_F(RunTest, TakenPortStartsAllAgainOnceOnNewPorts) {
  int asked = 0;
  const auto ports = [&](int n) {
    ++asked;
    return std::vector<int>(n, 1000 * asked);
  };
  // Worker 1 of the first group finds its port taken; worker 0 would wait for it.
  EXPECT_EQ(run(script(2,
                       "echo $TF_CONFIG >> configs; case $TF_CONFIG in *:1000*) case $TF_CONFIG in"
                       " *'\"index\":1'*) echo 'bind: Address already in use' >&2; exit 138;;"
                       " *) sleep 100;; esac;; esac"),
                ports),
            0);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(read("configs"), HasSubstr("127.0.0.1:2000"));
}

TEST_F(RunTest, TakenPortTwiceIsTheEnd) {
  int asked = 0;
  const auto ports = [&](int n) {
    ++asked;
    return std::vector<int>(n, 1);
  };
  EXPECT_EQ(run(script(2, "echo address already in use; exit 138"), ports), 138);
  EXPECT_EQ(asked, 2);
}

TEST_F(RunTest, OtherFailuresAreNotTriedAgain) {
  int asked = 0;
  const auto ports = [&](int n) {
    ++asked;
    return std::vector<int>(n, 1);
  };
  EXPECT_EQ(run(script(2, "echo address already in use; exit 2"), ports), 2);
  EXPECT_EQ(run(script(2, "exit 138"), ports), 138);
  EXPECT_EQ(asked, 2);
}

TEST_F(RunTest, AllTasksAreStartedAgainWhereOneAsksForIt) {
  int asked = 0;
  const auto ports = [&](int n) {
    ++asked;
    return std::vector<int>(n, 1);
  };
  const auto run_again = [&](const std::string& body, int restart) {
    RunOptions options = script(1, body);
    options.restart = restart;
    return run(options, ports);
  };
  EXPECT_EQ(
      run_again("[ -e third ] && exit 0; [ -e second ] && touch third; touch second; exit 138", 3),
      0);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(run_again("kill -9 $$", 1), 137);
  EXPECT_EQ(asked, 5);
  // Starting again would not mend it.
  EXPECT_EQ(run_again("exit 2", 3), 2);
  EXPECT_EQ(asked, 6);
}

// What belongs to the run is removed then: the keys of --tls, say.
TEST_F(RunTest, ASignalInThePauseBeforeARestartEndsTheRun) {
  RunOptions options = script(1, "exit 138");
  options.restart = 5;
  std::thread signals;
  int ended = 0;
  options.supervise.on_end = [&](const Outcome&) {
    if (++ended != 2) return;
    signals = std::thread([] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      // Into the pause, which is half a second at least.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      kill(getpid(), SIGTERM);
    });
  };
  EXPECT_EQ(run(options, [](int n) { return std::vector<int>(n, 1); }), 143);
  signals.join();
  EXPECT_EQ(ended, 2);
}

TEST_F(RunTest, ProgramIsFoundInPathThenBeside) {
  const auto make = [&](const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n";
    std::filesystem::permissions(folder_ + "/" + name, std::filesystem::perms::owner_all);
    return folder_ + "/" + name;
  };
  const std::string in_path = make("a/prog");
  const std::string beside = make("b/prog");
  EXPECT_EQ(find_program("prog", "/nowhere:" + folder_ + "/a", folder_ + "/b"), in_path);
  EXPECT_EQ(find_program("prog", "/nowhere", folder_ + "/b"), beside);
  EXPECT_EQ(find_program(in_path, "", ""), in_path);
  EXPECT_THROW(find_program("prog", "/nowhere"), Error);
  EXPECT_THROW(find_program(folder_ + "/a", ""), Error);  // a folder
}

TEST_F(RunTest, TheNearestProgramIsNamed) {
  for (const char* folder : {"/a", "/b"}) std::filesystem::create_directory(folder_ + folder);
  for (const char* name : {"/a/train", "/b/evaluate", "/b/trains.cc"}) {
    std::ofstream(folder_ + name) << "#!/bin/sh\n";
    std::filesystem::permissions(folder_ + name, std::filesystem::perms::owner_all);
  }
  // A file that cannot be run is not a program, however near its name is.
  std::filesystem::permissions(folder_ + "/b/trains.cc", std::filesystem::perms::owner_read);
  const auto hint = [](const std::string& program, const std::string& path = {},
                       const std::string& beside = {}) {
    return error_of([&] { find_program(program, path, beside); }).hint();
  };
  EXPECT_THAT(hint(folder_ + "/a/trian"), HasSubstr("did you mean " + folder_ + "/a/train?"));
  EXPECT_THAT(hint(folder_ + "/b/trains"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(hint(folder_ + "/nowhere/train"), Not(HasSubstr("did you mean")));
  EXPECT_EQ(hint("evalute", "/nowhere:" + folder_ + "/a", folder_ + "/b"),
            "did you mean evaluate?");
  EXPECT_EQ(hint("something_else", folder_ + "/a"), "give its path, for example ./something_else");
}

}  // namespace
}  // namespace muster::inline v0_1::launch
