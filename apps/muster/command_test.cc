// The `muster` binary as a user meets it: words in, text and exit code out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Ran {
  int code = -1;
  std::string text;  // both streams
};

Ran muster(const std::string& arguments) {
  const char* folder = std::getenv("MUSTER_BIN_DIR");
  if (folder == nullptr) return {-1, "MUSTER_BIN_DIR is not set: run this test through ctest"};
  const std::string line = std::string(folder) + "/muster " + arguments + " 2>&1 </dev/null";
  FILE* pipe = popen(line.c_str(), "r");
  Ran ran;
  std::array<char, 4096> bytes;
  while (const std::size_t count = fread(bytes.data(), 1, bytes.size(), pipe)) {
    ran.text.append(bytes.data(), count);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

TEST(Command, HelpAndVersion) {
  for (const char* command : {"", "run ", "data ", "data digits ", "inspect ",
                              "inspect checkpoint ", "inspect events "}) {
    const Ran ran = muster(std::string(command) + "--help");
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_THAT(ran.text, HasSubstr("Example")) << command;
  }
  EXPECT_THAT(muster("--version").text, ::testing::MatchesRegex("muster [0-9.]+\n"));
}

TEST(Command, WrongWordsEndWithTwoAndAHint) {
  for (const char* arguments :
       {"", "fly", "run --workers=x -- true", "run --worker=2 -- true", "run true", "data digits",
        "run --workers=2", "run -- no_such_program_anywhere", "run --ps=1 -- true",
        "run --evaluator -- true", "run --workers=0 -- true", "inspect events /nowhere/at/all",
        "run --grace=-1 -- true"}) {
    const Ran ran = muster(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ": " << ran.text;
    EXPECT_TRUE(ran.text.starts_with("error: ")) << arguments << ": " << ran.text;
  }
  EXPECT_THAT(muster("run --worker=2 -- true").text, HasSubstr("hint: muster run --help"));
  EXPECT_THAT(muster("run --ps=1 -- true").text, HasSubstr("not supported yet"));
}

TEST(Command, RunPassesOutputAndCodesOn) {
  const Ran good = muster("run --workers=2 -- sh -c 'echo \"$TF_CONFIG\"' x --help");
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.text, HasSubstr("[worker 0] {\"cluster\":{\"worker\":[\"127.0.0.1:"));
  EXPECT_THAT(good.text, HasSubstr("\"task\":{\"index\":1,\"type\":\"worker\"}}"));
  const Ran killed = muster("run --workers=1 -- sh -c 'kill -9 $$'");
  EXPECT_EQ(killed.code, 137);
  EXPECT_THAT(killed.text, HasSubstr("worker 0 failed: killed by SIGKILL"));
  EXPECT_EQ(muster("run --workers=2 -- sh -c 'exit 138'").code, 138);
}

TEST(Command, DryRunStartsNothing) {
  TempDirectory folder;
  const std::string file = join_path(folder.path(), "started");
  const Ran ran = muster("run --workers=2 --threads=3 --dry-run -- touch " + file);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("# worker 1\nenv TF_CONFIG="));
  EXPECT_THAT(ran.text, HasSubstr("MUSTER_THREADS=3"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Command, DigitsOnceAndAgain) {
  TempDirectory folder;
  const std::string arguments =
      "data digits --train 100 --test 50 --out " + join_path(folder.path(), "d");
  const Ran first = muster(arguments);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_THAT(first.text, HasSubstr("100 training and 50 test images written"));
  EXPECT_THAT(muster(arguments).text, HasSubstr("there already"));
  const Ran other = muster(arguments + " --seed 2");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, HasSubstr("hint: pass another --out, or --force"));
}

TEST(Command, DamageIsOne) {
  TempDirectory folder;
  const std::string file = join_path(folder.path(), "bad.safetensors");
  local_file_system().write_atomically(file, std::string_view("no tensors here")).value();
  const Ran ran = muster("inspect checkpoint " + file);
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(ran.text.starts_with("error: ")) << ran.text;
  EXPECT_THAT(ran.text, Not(HasSubstr("terminate")));
}

}  // namespace
}  // namespace muster::app
