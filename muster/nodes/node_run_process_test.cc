// `muster run --nodes` with real launchers on this host, which are killed, as are their tasks.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/file_system.h"
#include "muster/base/free_ports.h"
#include "muster/base/temp_directory.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::nodes {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NodeRunProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    // The tests start the command: only CTest says where it is, and some builds do not contain it.
    const char* const folder = std::getenv("MUSTER_BIN_DIR");
    // Outside of CTest there is no command to start.
    if (folder == nullptr) GTEST_SKIP() << "MUSTER_BIN_DIR is not set";
    const std::string program = std::string(folder) + "/muster";
    if (!std::filesystem::exists(program)) GTEST_SKIP() << program << " is not built";
  }

  // A launcher of machine `node`, whose tasks run the script with the folder in $D.
  void start(int node, int nodes, const std::string& script, std::vector<std::string> flags = {},
             std::vector<std::pair<std::string, std::string>> environment = {}) {
    std::vector<std::string> argv{std::string(std::getenv("MUSTER_BIN_DIR")) + "/muster", "run",
                                  fmt::format("--nodes={}/{}", node, nodes),
                                  fmt::format("--rendezvous={}:{}", rendezvous_, port_)};
    for (std::string& flag : flags) argv.push_back(std::move(flag));
    for (const char* word : {"--survivor-time=1", "--", "/bin/sh", "-c"}) argv.push_back(word);
    argv.push_back(script);
    environment.emplace_back("D", folder_.path());
    const FileDescriptor out(
        ::open(path(node).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    launchers_[node] = std::make_unique<launch::ChildProcess>(
        launch::ChildSpec{.argv = argv,
                          .environment = environment,
                          .out = out.get(),
                          .err = out.get(),
                          .group = launch::ChildSpec::Group::kOwn,
                          .dies_with_parent = true});
  }
  void start_all(int nodes, const std::string& script, const std::vector<std::string>& flags = {}) {
    for (int node = 0; node < nodes; ++node) start(node, nodes, script, flags);
  }
  int exit_code(int node) {
    std::optional<launch::ExitStatus> status;
    EXPECT_TRUE(comes_true([&] { return (status = launchers_[node]->status()).has_value(); }))
        << "node " << node << " runs on:\n"
        << output(node);
    return status ? status->shell_code() : -1;
  }
  void kill(int node, int signal) { launchers_[node]->signal(signal); }
  std::string path(int node) const { return folder_ / fmt::format("out{}", node); }
  std::string output(int node) const {
    return local_file_system().read_file(path(node)).value_or("");
  }
  void await_output(int node, const std::string& text) {
    await([&] { return output(node).find(text) != std::string::npos; });
  }
  bool is_there(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  const int port_ = free_port();
  std::string rendezvous_ = "127.0.0.1";
  TempDirectory folder_;
  std::unique_ptr<launch::ChildProcess> launchers_[3];
};

// Waits for the end by a signal, as a task whose peer was lost may do.
const std::string kWait = "sleep 100 & wait";
// The index of the task in its TF_CONFIG.
const std::string kIndex = R"(i=$(echo "$TF_CONFIG" | sed 's/.*"index":\([0-9]*\).*/\1/'); )";

TEST_F(NodeRunProcess, ARendezvousElsewhereIsAWarningOfTheMachineThatServesIt) {
  const std::string why = ". This machine is node 0 and serves the rendezvous";
  rendezvous_ = "192.0.2.1";  // kept for documents (RFC 5737)
  start(0, 2, "true", {"--join-time=1"}, {{"MUSTER_INSECURE", "1"}});
  EXPECT_EQ(exit_code(0), 138);
  EXPECT_THAT(output(0), HasSubstr("192.0.2.1 is not an address of this machine" + why));
  rendezvous_ = "no-such-host.invalid";
  start(0, 2, "true", {"--join-time=1"}, {{"MUSTER_INSECURE", "1"}});
  EXPECT_EQ(exit_code(0), 138);
  EXPECT_THAT(output(0), HasSubstr("'no-such-host.invalid' has no address here ("));
}

TEST_F(NodeRunProcess, TheTasksOfAllMachinesAreOneCluster) {
  start_all(3, kIndex + "echo task=$i; echo $TF_CONFIG >$D/config$i", {"--workers=2"});
  for (int node = 0; node < 3; ++node) {
    EXPECT_EQ(exit_code(node), 0) << output(node);
    EXPECT_THAT(output(node), HasSubstr(fmt::format("task={}", 2 * node)));
    EXPECT_THAT(output(node), HasSubstr(fmt::format("task={}", 2 * node + 1)));
  }
  const auto cluster = [&](int index) {
    const auto text = local_file_system().read_file(folder_ / fmt::format("config{}", index));
    return text.value_or("").substr(0, text.value_or("").find("\"task\""));
  };
  for (int index = 0; index < 6; ++index) {
    EXPECT_THAT(cluster(index), HasSubstr("\"worker\":["));
    EXPECT_EQ(cluster(index), cluster(0));
  }
}

TEST_F(NodeRunProcess, AKilledWorkerMakesAllStartAgainAsOneRun) {
  const std::string script = kIndex +
                             "echo start >>$D/starts$i; "
                             "if [ $i = 1 ] && [ ! -e $D/killed ]; then touch $D/killed; "
                             "kill -9 $$; fi; [ $(wc -l <$D/starts$i) = 2 ] || { " +
                             kWait + "; }";
  start_all(2, script, {"--restart=1"});
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(exit_code(node), 0) << output(node);
    EXPECT_THAT(output(node), HasSubstr("stopped because worker 1 failed: killed by SIGKILL"));
    EXPECT_THAT(output(node), HasSubstr("starting all tasks again (1 of 1)"));
  }
}

TEST_F(NodeRunProcess, ABudgetThatIsUsedUpEndsAllWithTheCause) {
  start_all(2, kIndex + "if [ $i = 1 ]; then kill -9 $$; fi; " + kWait, {"--restart=1"});
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(exit_code(node), 137) << output(node);
    EXPECT_THAT(output(node), HasSubstr("--restart=1 allows no more restarts within 3600 s"));
  }
}

TEST_F(NodeRunProcess, ACodeThatWillRepeatEndsAll) {
  start_all(2, kIndex + "if [ $i = 1 ]; then exit 2; fi; " + kWait, {"--restart=5"});
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(exit_code(node), 2) << output(node);
    EXPECT_THAT(output(node), HasSubstr("stopped because worker 1 failed: exit code 2"));
    EXPECT_THAT(output(node), Not(HasSubstr("starting all tasks again")));
  }
}

TEST_F(NodeRunProcess, AKilledLauncherComesAgain) {
  const std::string script = kIndex +
                             "echo start >>$D/starts$i; "
                             "[ -e $D/again ] || { " +
                             kWait + "; }";
  start_all(2, script, {"--restart=1"});
  await([&] { return is_there("starts0") && is_there("starts1"); });
  kill(1, SIGKILL);
  await_output(0, "was lost");
  ASSERT_TRUE(local_file_system().write_atomically(folder_ / "again", std::string_view()).ok());
  start(1, 2, script, {"--restart=1"});
  for (int node = 0; node < 2; ++node) EXPECT_EQ(exit_code(node), 0) << output(node);
  EXPECT_THAT(output(0), HasSubstr("starting all tasks again (1 of 1)"));
}

TEST_F(NodeRunProcess, TheRendezvousEndsTheRunWithItself) {
  start_all(2, kIndex + "touch $D/starts$i; " + kWait, {"--restart=1"});
  await([&] { return is_there("starts0") && is_there("starts1"); });
  kill(0, SIGKILL);
  EXPECT_EQ(exit_code(1), 138) << output(1);
  EXPECT_THAT(output(1), HasSubstr(fmt::format("the rendezvous at 127.0.0.1:{} is lost", port_)));
  EXPECT_THAT(output(1), HasSubstr("the launcher of node 0 serves it, and without it the run ends "
                                   "on all machines"));
}

TEST_F(NodeRunProcess, ASignalToOneLauncherStopsTheRunOnAll) {
  // Between fork and exec the shell's child still has the shell's handler, and loses the signal.
  start_all(2, kIndex + "trap 'touch $D/saved$i; kill -9 $!; exit 143' TERM; touch $D/starts$i; " +
                   kWait);
  await([&] { return is_there("starts0") && is_there("starts1"); });
  kill(1, SIGTERM);
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(exit_code(node), 143) << output(node);
    EXPECT_TRUE(is_there(fmt::format("saved{}", node)));
  }
}

// As on one machine.
TEST_F(NodeRunProcess, ASecondCtrlCAtOneLauncherKillsTheTasksOfAll) {
  start_all(2, kIndex + "trap '' INT; touch $D/starts$i; " + kWait, {"--stop-time=1000"});
  await([&] { return is_there("starts0") && is_there("starts1"); });
  kill(1, SIGINT);
  await_output(0, "SIGINT: stopping worker 0");
  kill(1, SIGINT);
  for (int node = 0; node < 2; ++node) {
    EXPECT_EQ(exit_code(node), 130) << output(node);
    EXPECT_THAT(output(node), HasSubstr(") got Ctrl-C again: killing the tasks of all machines"));
  }
}

TEST_F(NodeRunProcess, ContradictionsAreNamedOnBothSides) {
  start(0, 2, "exit 0");
  start(1, 3, "exit 0");
  EXPECT_EQ(exit_code(1), 2);
  for (int node = 0; node < 2; ++node) {
    await_output(node, "with --nodes=1/3, and node 0");
    EXPECT_THAT(output(node), HasSubstr("with --nodes=0/2"));
  }
  start(2, 3, "exit 0", {}, {{"MUSTER_JOB_ID", "other"}});
  EXPECT_EQ(exit_code(2), 2);
  // The command differs, and then it does not: the first launcher waits on.
  start(1, 2, "exit 1");
  EXPECT_EQ(exit_code(1), 2);
  EXPECT_THAT(output(1), HasSubstr("was started with its argument 2 'exit 1'"));
  start(1, 2, "exit 0");
  EXPECT_EQ(exit_code(1), 0);
  EXPECT_EQ(exit_code(0), 0);
}

TEST_F(NodeRunProcess, AnotherTokenIsRefused) {
  start(0, 2, "exit 0", {}, {{"MUSTER_JOB_TOKEN", "the token of this job, all right"}});
  start(1, 2, "exit 0", {}, {{"MUSTER_JOB_TOKEN", "the token of some other job"}});
  EXPECT_EQ(exit_code(1), 2);
  EXPECT_THAT(output(1), HasSubstr("token"));
  await_output(0, "refused a connection from");
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
