// `muster run --tls` and `muster certificates`, with the real command and tasks that join over TLS.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::control {
namespace {

// The output of a shell for `line`, in which $MUSTER is the command and $MEMBER a task. The exit
// code is in the last line.
std::string output_of(const std::string& line) {
  const char* folder = std::getenv("MUSTER_BIN_DIR");
  const std::string member = std::filesystem::read_symlink("/proc/self/exe");
  const std::string shell = fmt::format(
      "export MUSTER_TEST_TLS_MEMBER=1 MUSTER={}/muster MEMBER={}\n{{ {}\n}} 2>&1 </dev/null; "
      "echo \"code $?\"",
      folder, member, line);
  FILE* pipe = popen(shell.c_str(), "r");
  std::string text;
  char bytes[4096];
  while (const size_t count = fread(bytes, 1, sizeof bytes, pipe)) text.append(bytes, count);
  pclose(pipe);
  return text;
}

class TlsRun : public ::testing::Test {
 protected:
  void SetUp() override {
    // ctest names the folder. If this program is built alone, there is no command to run.
    const char* folder = std::getenv("MUSTER_BIN_DIR");
    if (folder == nullptr || !std::filesystem::exists(std::string(folder) + "/muster"))
      GTEST_SKIP() << "the command is not there: run this test through ctest";
  }
  static void expect_met(const std::string& output) {
    for (const char* task : {"worker 0", "worker 1"})
      EXPECT_THAT(output, ::testing::HasSubstr(fmt::format("[{}] all met over TLS", task)));
    EXPECT_TRUE(output.ends_with("code 0\n")) << output;
  }
};

TEST_F(TlsRun, MakesCertificatesOfItsOwn) {
  expect_met(output_of("$MUSTER run --workers=2 --tls -- $MEMBER"));
  EXPECT_TRUE(output_of("$MUSTER run --workers=2 -- $MEMBER").ends_with("code 3\n"));
}

TEST_F(TlsRun, TakesThoseOfTheCertificatesCommand) {
  const TempDirectory directory;
  expect_met(output_of(fmt::format(
      "eval \"$($MUSTER certificates --out={}/tls 127.0.0.1)\" && $MUSTER run --workers=2 -- "
      "$MEMBER",
      directory.path())));
}

}  // namespace
}  // namespace muster::inline v0_1::control
