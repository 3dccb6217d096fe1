// The recipes of docs/jobs.md that need no tool of ours, unchanged, with stand-ins for the commands
// that connect machines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "apps/muster/run_muster.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// `ssh -tt HOST COMMAND`: when the connection ends, the shell at its other end gets SIGHUP, as the
// terminal's first process.
class SshRecipeTest : public ::testing::Test {
 protected:
  // The first block of shell after these words of docs/jobs.md.
  static std::string recipe(const std::string& words) {
    const char* root = std::getenv("MUSTER_SOURCE_DIR");
    if (root == nullptr) return "echo 'run this test through ctest'; exit 1";
    const std::string text =
        local_file_system().read_file(join_path(root, "docs/jobs.md")).value_or("");
    const std::string fence = "```bash\n";
    const size_t begin = text.find(fence, text.find(words)) + fence.size();
    return text.substr(begin, text.find("```", begin) - begin);
  }
  void script(const std::string& name, const std::string& lines) const {
    std::ofstream(directory_ / name) << lines;
    std::filesystem::permissions(directory_ / name, std::filesystem::perms::owner_all);
  }
  app::ShellOutput bash(const std::string& lines) const {
    return app::run_shell("cd " + directory_.path() + "; PATH=$PWD:$PATH bash " + lines);
  }
  SshRecipeTest() {
    script("ssh",
           "#!/bin/bash\n[ \"$1\" = -tt ] || exit 255\n"
           "trap 'kill -HUP $(jobs -p); exit 255' TERM; HOST=$2 bash -c \"$3\" & wait $!\n");
    script("recipe", recipe("Three machines by ssh"));
    // Bash puts off a trap until the program that it waits for has ended.
    script("train",
           "#!/bin/bash\ntrap 'echo saved $HOST >> log; exit 143' TERM\n"
           "[ $HOST = node$((RANK + 1)) ] && [ $(stat -c %a $MUSTER_JOB_TOKEN_FILE) = 600 ] || "
           "exit 2\n"
           "[ $(wc -c < $MUSTER_JOB_TOKEN_FILE) = 65 ] || exit 2\n"
           "echo began $HOST of $WORLD_SIZE >> log\n"
           // At most 60 s, in case it is not ended.
           "for i in {1..1200}; do [ -e done ] && exit $(cat done); sleep 0.05; done\n");
  }

  const TempDirectory directory_;
};

TEST_F(SshRecipeTest, ThreeMachinesEndWithCtrlC) {
  // Jobs of a shell with job control can be interrupted, as by a terminal, also if the test itself
  // was started so that it cannot. Waits are of 60 s.
  script(
      "interrupt",
      "set -m\nenv --default-signal=INT ./recipe & recipe=$!\n"
      "many() { for i in {1..1200}; do [ $(grep -c $1 log) = 3 ] && return; sleep 0.05; done; }\n"
      "touch log; many began; kill -INT -$recipe; wait $recipe; echo code $?; many saved\n"
      "ls -A; cat log\n");
  const app::ShellOutput ran = bash("interrupt");
  EXPECT_THAT(ran.text, HasSubstr("code 130\n"));
  for (const char* host : {"node1", "node2", "node3"}) {
    EXPECT_THAT(ran.text, HasSubstr(std::string("began ") + host + " of 3\n"));
    EXPECT_THAT(ran.text, HasSubstr(std::string("saved ") + host + "\n"));
  }
  EXPECT_THAT(ran.text, Not(HasSubstr(".token")));
}

TEST_F(SshRecipeTest, ThreeMachinesEndAsTheirTasksDo) {
  for (const int code : {0, 3}) {
    std::ofstream(directory_ / "done") << code;
    EXPECT_EQ(bash("recipe").code, code);
    EXPECT_THAT(bash("-c 'ls -A'").text, Not(HasSubstr(".token")));
  }
}

}  // namespace
}  // namespace muster
