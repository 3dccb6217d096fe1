// The completion script as bash runs it; the package bash-completion is not needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/muster/run_muster.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/files/regular_expression.h"

namespace muster::app {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// The completions that bash offers in `folder` for the last word of a line, after it has run
// `before`.
std::vector<std::string> offered(const std::vector<std::string>& words,
                                 const std::string& folder = "/", const std::string& before = "") {
  const char* bin = std::getenv("MUSTER_BIN_DIR");
  if (bin == nullptr) return {"MUSTER_BIN_DIR is not set: run this test through ctest"};
  std::string line = "COMP_WORDS=(muster";
  for (const std::string& word : words) line += " '" + word + "'";
  line = "cd '" + folder + "'; source <(" + bin + "/muster completion bash)\n" + before + "\n" +
         line + "); COMP_CWORD=" + std::to_string(words.size()) +
         "; _muster; printf \"%s\\n\" \"${COMPREPLY[@]}\"";
  const TempDirectory dir;
  local_file_system().write_atomically(dir / "line", line).value();
  const ShellOutput ran = run_shell("bash --norc " + dir / "line");
  if (ran.code != 0) return {"exit code " + std::to_string(ran.code) + ": " + ran.text};
  std::vector<std::string> found;
  for (const std::string& reply : split(ran.text, '\n')) {
    if (!reply.empty()) found.push_back(reply);
  }
  return found;
}

// Matches of the group of `pattern` in the lines of `muster ... --help`.
std::vector<std::string> in_help(const std::string& command, const std::string& pattern) {
  const std::string help = run_muster(command + " --help").text;
  std::vector<std::string> found;
  const RegularExpression expression(pattern);
  RegularExpression::Groups match;
  for (const std::string& line : split(help, '\n')) {
    if (expression.search(line, &match)) found.push_back(match[1]);
  }
  return found;
}

std::vector<std::string> subcommands(const std::string& command) {
  const std::string help = run_muster(command + " --help").text;
  const size_t at = help.find("\nSubcommands:\n");
  std::vector<std::string> found;
  if (at == std::string::npos) return found;
  for (const std::string& line : split(help.substr(at + 14), '\n')) {
    if (!line.starts_with("  ")) break;
    if (line[2] != ' ') found.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return found;
}

// Checks `words` and the commands below it; counts what it has seen.
void check_all(std::vector<std::string> words, int& commands, int& flags) {
  const std::string command = join(words, " ");
  ++commands;
  std::vector<std::string> replies;
  words.push_back("--");
  for (std::string reply : offered(words)) replies.push_back(reply.substr(0, reply.find('=')));
  for (const std::string& flag : in_help(command, "^  (?:-\\w,)?(--[a-z-]+)")) {
    EXPECT_THAT(replies, Contains(flag)) << command;
    ++flags;
  }
  words.back() = "";
  const std::vector<std::string> below = subcommands(command);
  if (!below.empty()) {
    EXPECT_THAT(offered(words), ::testing::UnorderedElementsAreArray(below));
  }
  for (const std::string& name : below) {
    words.back() = name;
    check_all(words, commands, flags);
  }
}

TEST(Completion, KnowsEveryCommandAndFlagOfTheHelp) {
  int commands = 0, flags = 0;
  check_all({}, commands, flags);
  EXPECT_GE(commands, 10);
  EXPECT_GE(flags, 25);
}

TEST(Completion, BeginningsAreCompleted) {
  EXPECT_THAT(offered({"ru"}), ElementsAre("run"));
  EXPECT_THAT(offered({"inspect", "ch"}), ElementsAre("checkpoint"));
  EXPECT_THAT(offered({"run", "--work"}), ElementsAre("--workers="));
  EXPECT_THAT(offered({"run", "--dry"}), ElementsAre("--dry-run"));
  EXPECT_THAT(offered({"run", ""}), ElementsAre("--"));
  EXPECT_THAT(offered({"fly", "hi"}), IsEmpty());
  // A number is for the user to say.
  EXPECT_THAT(offered({"run", "--workers", "=", ""}), IsEmpty());
  EXPECT_THAT(offered({"run", "--workers", ""}), IsEmpty());
  // Flags continue after a value.
  EXPECT_THAT(offered({"run", "--workers", "=", "2", "--dry"}), ElementsAre("--dry-run"));
}

TEST(Completion, FilesAndFoldersStandWhereTheyBelong) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  files.make_directories(dir / "model one").value();
  files.make_directories(dir / "models").value();
  files.write_atomically(dir / "model.safetensors", std::string_view("x")).value();
  EXPECT_THAT(offered({"inspect", "checkpoint", "mod"}, dir.path()),
              UnorderedElementsAre("model one", "models", "model.safetensors"));
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"data", "digits", "--out", "mod"}, {"data", "digits", "--out", "=", "mod"}}) {
    EXPECT_THAT(offered(words, dir.path()), UnorderedElementsAre("model one", "models"));
  }
  EXPECT_THAT(offered({"data", "digits", "--out", "="}, dir.path()),
              UnorderedElementsAre("model one", "models"));
  EXPECT_THAT(offered({"inspect", "events", "--tag", ""}, dir.path()), IsEmpty());
}

TEST(Completion, NamesOfFilesAreNoPatterns) {
  const TempDirectory dir;
  for (const char* name : {"dir[ab]", "dira", "dir*"}) {
    local_file_system().make_directories(dir / name).value();
  }
  for (const char* command : {"checkpoint", "events"}) {
    EXPECT_THAT(offered({"inspect", command, "di"}, dir.path()),
                UnorderedElementsAre("dir[ab]", "dira", "dir*"));
  }
  EXPECT_THAT(offered({"data", "digits", "--out", "=", "di"}, dir.path()),
              UnorderedElementsAre("dir[ab]", "dira", "dir*"));
}

TEST(Completion, TheProgramComesAfterTwoDashes) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  files.make_directories(dir / "build").value();
  files.write_atomically(dir / "build/train", std::string_view("#!/bin/sh\n")).value();
  ASSERT_EQ(run_shell("chmod +x " + dir / "build/train").code, 0);
  files.write_atomically(dir / "rows.csv", std::string_view("1\n")).value();
  EXPECT_THAT(offered({"run", "--", "chmo"}, dir.path()), Contains("chmod"));
  EXPECT_THAT(offered({"run", "--workers", "=", "2", "--", "bui"}, dir.path()), Contains("build"));
  EXPECT_THAT(offered({"run", "--", "build/tr"}, dir.path()), Contains("build/train"));
  // Its arguments are its own: files, and no flags of `muster run`.
  EXPECT_THAT(offered({"run", "--", "build/train", "row"}, dir.path()), ElementsAre("rows.csv"));
  EXPECT_THAT(offered({"run", "--", "build/train", "--wor"}, dir.path()), IsEmpty());
}

TEST(Completion, TheProgramHasTheFlagsThatProgramsShare) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  files.make_directories(dir / "model").value();
  files.write_atomically(dir / "model.safetensors", std::string_view("x")).value();
  // If it were run, it would leave a file behind.
  files.write_atomically(dir / "train", std::string_view("#!/bin/sh\ntouch ran\n")).value();
  ASSERT_EQ(run_shell("chmod +x " + dir / "train").code, 0);
  const auto behind = [&](std::vector<std::string> words, const std::string& before = "") {
    words.insert(words.begin(), {"run", "--workers", "=", "2", "--", "./train"});
    return offered(words, dir.path(), before);
  };
  EXPECT_THAT(behind({"--"}),
              IsSupersetOf({"--data_dir=", "--model_dir=", "--log_format=", "--trace", "--help"}));
  EXPECT_THAT(behind({"--ep"}), ElementsAre("--epochs="));
  EXPECT_THAT(behind({"--trace", "--seed", "=", "1", "--mo"}), ElementsAre("--model_dir="));
  EXPECT_THAT(behind({"--model_dir", "=", "mo"}), ElementsAre("model"));
  EXPECT_THAT(behind({"--model_dir", "mo"}), ElementsAre("model"));
  EXPECT_THAT(behind({"--epochs", "="}), IsEmpty());
  EXPECT_FALSE(files.exists(dir / "ran").value());
  // If bash-completion is loaded, a program's own completion has priority.
  const std::string own =
      "_command_offset() { COMPREPLY=(${own:-}); COMP_WORDS=() COMP_CWORD=0; };";
  EXPECT_THAT(behind({"--ep"}, own + "own=--epsilon"), ElementsAre("--epsilon"));
  EXPECT_THAT(behind({"--ep"}, own), ElementsAre("--epochs="));
  EXPECT_THAT(behind({"--model_dir", "=", "mo"}, own), ElementsAre("model"));
}

// Users do not call the commands that jobs start themselves.
TEST(Completion, OffersNoCommandsOfItsOwn) {
  EXPECT_THAT(offered({"jobs", ""}),
              UnorderedElementsAre("list", "status", "logs", "cancel", "remove"));
  const std::string script = run_muster("completion bash").text;
  for (const char* own : {"jobs keep", "jobs task"})
    EXPECT_EQ(script.find(own), std::string::npos) << own;
}

}  // namespace
}  // namespace muster::app
