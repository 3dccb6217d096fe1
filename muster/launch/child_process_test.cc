#include "muster/launch/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::launch {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class ChildProcessTest : public testing::Test {
 protected:
  // A child that runs the script, with both outputs in one file.
  ChildSpec shell(const std::string& script) {
    out_ = open((folder_ / "output").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    return {.argv = {"sh", "-c", script}, .out = out_, .err = out_};
  }
  void TearDown() override {
    if (out_ >= 0) close(out_);
  }
  std::string output() {
    std::ifstream file(folder_ / "output");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TempDirectory folder_;
  int out_ = -1;
};

TEST_F(ChildProcessTest, ItsOutputsEnvironmentAndEndAreAsAsked) {
  setenv("MUSTER_TEST_TAKEN", "here", 1);
  ChildSpec spec =
      shell("cat; echo \"$MUSTER_TEST_GIVEN,$MUSTER_TEST_TAKEN\"; echo err >&2; exit 7");
  spec.environment = {{"MUSTER_TEST_GIVEN", "given"}};
  spec.without = {"MUSTER_TEST_TAKEN"};
  ChildProcess child(spec);
  EXPECT_EQ(child.wait_for(30s), ExitStatus{.code = 7});
  EXPECT_EQ(child.status(), ExitStatus{.code = 7}) << "asked again";
  EXPECT_EQ(output(), "given,\nerr\n");
}

TEST_F(ChildProcessTest, SignalsArriveAndWaitsAreBounded) {
  ChildProcess child(shell("exec sleep 100"));
  EXPECT_EQ(child.wait_for(20ms), std::nullopt);
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait_for(30s), ExitStatus{.signal = SIGTERM});
}

TEST_F(ChildProcessTest, ItDoesNotOutliveItsOwner) {
  pid_t pid = -1;
  {
    ChildProcess child(shell("exec sleep 100"));
    ChildProcess moved(std::move(child));
    pid = moved.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(ChildProcessTest, AGroupOfItsOwn) {
  for (const auto group :
       {ChildSpec::Group::kOurs, ChildSpec::Group::kOwn, ChildSpec::Group::kOwnSession}) {
    ChildSpec spec = shell("exec sleep 100");
    spec.group = group;
    ChildProcess child(spec);
    EXPECT_EQ(getpgid(child.pid()) == child.pid(), group != ChildSpec::Group::kOurs);
    EXPECT_EQ(getsid(child.pid()) == child.pid(), group == ChildSpec::Group::kOwnSession);
    TearDown();
    out_ = -1;
  }
}

TEST_F(ChildProcessTest, AProgramThatIsNotThereIsNamed) {
  const Error error =
      error_of([] { ChildProcess({.name = "worker 0", .argv = {"/nowhere/at/all"}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("cannot start '/nowhere/at/all' for worker 0"));
  EXPECT_EQ(error.hint(), "check that it exists and is executable");
}

// A limit that is reached in the child is not a fault of the program.
TEST_F(ChildProcessTest, TooManyOpenFilesAreToldFromAProgramThatIsNotThere) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::array<int, 2> free{};  // the pipe takes these, and the child has none left
  ASSERT_EQ(pipe(free.data()), 0);
  close(free[0]);
  close(free[1]);
  const rlimit tight{.rlim_cur = static_cast<rlim_t>(std::max(free[0], free[1])) + 1,
                     .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const Error error = error_of([] { ChildProcess({.name = "worker 0", .argv = {"true"}}); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(error.hint(), "raise the limit of open files: ulimit -n");
}

}  // namespace
}  // namespace muster::inline v0_1::launch
