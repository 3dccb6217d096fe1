#include "muster/command/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "muster/base/error.h"

namespace muster::inline v0_1::command {
namespace {

using ::testing::HasSubstr;

// A program with one flag of each type.
struct Program {
  Program() : app("Does things.", "prog") {
    add_flag(app, {"name", &name, "What it is called"});
    add_flag(app, {"fast", &fast, "Hurry"});
    add_flag(app, {"tasks", &tasks, "How many", {.at_least = 1, .at_most = 64}});
    add_flag(app, {"rows", &rows, "Rows of a batch", {.more_than = 0}});
    add_flag(app, {"seed", &seed, "Decides"});
    add_flag(app, {"rate", &rate, "How quick", {.more_than = 0}});
    add_flag(app, {"limit", &limit, "Where to end", {.more_than = 0}});
    add_flag(app, {"time", &time, "Seconds", {.at_least = 0, .at_most = 86400}, "SECONDS"});
  }

  CLI::App app;
  std::string name = "it";
  bool fast = false;
  int tasks = 2;
  int64_t rows = 64;
  uint64_t seed = 0;
  double rate = 0.5, time = 15;
  std::optional<int64_t> limit;
};

// "message | hint" of what parse() throws, or "" when it throws nothing.
std::string complaint(CLI::App& app, const std::vector<std::string>& words,
                      const SurplusHint& hint = {}) {
  try {
    EXPECT_TRUE(parse(app, words, hint));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message() + " | " + error.hint();
  }
}

std::string complaint(const std::vector<std::string>& words) {
  Program program;
  return complaint(program.app, words);
}

TEST(CommandLineTest, DashesAndUnderscoresOfANameAreTheSame) {
  CLI::App app("Does things.", "prog");
  std::string log_format, dry_run;
  add_flag(app, {"log_format", &log_format, "How lines look"});
  add_flag(app, {"dry-run", &dry_run, "What is not done"});
  ASSERT_TRUE(parse(app, {"--log-format=json", "--dry_run", "all"}));
  EXPECT_EQ(log_format, "json");
  EXPECT_EQ(dry_run, "all");
  EXPECT_THAT(complaint(app, {"--log-frmat=json"}), HasSubstr("--log_format"));
}

TEST(CommandLineTest, FlagsSetTheirVariables) {
  Program program;
  ASSERT_TRUE(parse(program.app,
                    {"--name", "x y", "--fast", "--tasks=3", "--rows", "7",
                     "--seed=18446744073709551615", "--rate=1e-3", "--limit=9", "--time=0.5"}));
  EXPECT_EQ(program.name, "x y");
  EXPECT_TRUE(program.fast);
  EXPECT_EQ(program.tasks, 3);
  EXPECT_EQ(program.rows, 7);
  EXPECT_EQ(program.seed, 18446744073709551615u);
  EXPECT_EQ(program.rate, 1e-3);
  EXPECT_EQ(program.limit, 9);
  EXPECT_EQ(program.time, 0.5);

  Program untouched;
  ASSERT_TRUE(parse(untouched.app, {"--fast=false"}));
  EXPECT_EQ(untouched.rows, 64);
  EXPECT_EQ(untouched.limit, std::nullopt);
  EXPECT_FALSE(untouched.fast);
}

TEST(CommandLineTest, AWrongValueIsNamedWithWhatIsAllowed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--rows=abc",
       "--rows is 'abc'; it must be a whole number more than 0 | --rows: Rows of a batch; default "
       "64"},
      {"--rows=1.5", "--rows is '1.5'; it must be a whole number more than 0"},
      {"--rows=1e9", "--rows is '1e9'; it must be a whole number more than 0"},
      {"--rows=7x", "--rows is '7x'; it must be"},
      {"--rows= 7", "--rows is ' 7'; it must be"},
      {"--rows=0", "--rows is 0; it must be a whole number more than 0"},
      {"--rows=99999999999999999999",
       "--rows is 99999999999999999999; it must be a whole number more than 0 and at most "
       "9223372036854775807"},
      {"--tasks=0", "--tasks is 0; it must be a whole number from 1 to 64"},
      {"--tasks=65", "--tasks is 65; it must be a whole number from 1 to 64"},
      {"--tasks=99999999999", "--tasks is 99999999999; it must be a whole number from 1 to 64"},
      {"--seed=-1", "--seed is -1; it must be a whole number from 0 to 18446744073709551615"},
      {"--seed=x", "--seed is 'x'; it must be a whole number of 0 or more"},
      {"--rate=nan", "--rate is 'nan'; it must be a number more than 0"},
      {"--rate=inf", "--rate is 'inf'; it must be a number more than 0"},
      {"--rate=-0.1", "--rate is -0.1; it must be a number more than 0"},
      {"--time=86401",
       "--time is 86401; it must be a number from 0 to 86400 | --time: Seconds; default 15"},
      {"--limit=0", "--limit is 0; it must be a whole number more than 0 | --limit: Where to end"},
      {"--fast=maybe", "--fast is 'maybe'; it must be true or false | --fast: Hurry"},
  };
  for (const auto& [word, said] : wrong) EXPECT_THAT(complaint({word}), HasSubstr(said)) << word;
}

TEST(CommandLineTest, AMissingValueIsSaid) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--name"}, {"--name="}, {"--name", ""}}) {
    EXPECT_EQ(complaint(words).substr(0, 20), "--name needs a value");
  }
  EXPECT_THAT(complaint({"--rows"}), HasSubstr("--rows needs a value | --rows: Rows of a batch"));
  EXPECT_THAT(complaint({"--name", "--seed=3"}),
              HasSubstr("--name needs a value, and is followed by --seed=3"));
  EXPECT_THAT(complaint({"--rows=1", "--name=", "--fast"}), HasSubstr("--name needs a value | "));
  EXPECT_THAT(complaint({"--name", "--rows", "--help"}),
              HasSubstr("--name needs a value, and is followed by --rows"));
}

TEST(CommandLineTest, AValueGivenWithAnEqualSignMayBeginWithDashes) {
  Program program;
  ASSERT_TRUE(parse(program.app, {"--name=--seed=3", "--rows=7"}));
  EXPECT_EQ(program.name, "--seed=3");
  EXPECT_EQ(program.seed, 0u);
  EXPECT_EQ(program.rows, 7);
  EXPECT_THAT(complaint({"--rows=--7"}), HasSubstr("--rows is '--7'; it must be a whole number"));
}

TEST(CommandLineTest, AFlagGivenTwiceIsRefused) {
  EXPECT_EQ(complaint({"--rows=1", "--seed=2", "--rows=3"}),
            "--rows is given twice: '1', '3' | give it once");
  EXPECT_EQ(complaint({"--fast", "--fast"}), "--fast is given twice | give it once");
  EXPECT_EQ(complaint({"--name", "", "--name=b"}), "--name is given twice: '', 'b' | give it once");
  // No value is not a value, whatever comes after.
  EXPECT_THAT(complaint({"--name=", "--name=b"}), HasSubstr("--name needs a value"));
  EXPECT_THAT(complaint({"--name=b", "--name="}), HasSubstr("--name needs a value"));
}

TEST(CommandLineTest, AnUnknownFlagNamesTheNearest) {
  EXPECT_EQ(complaint({"--row=4"}),
            "--row is not a flag of prog | did you mean --rows? prog --help lists all flags");
  EXPECT_EQ(complaint({"--unheard_of"}),
            "--unheard_of is not a flag of prog | prog --help lists all flags");
  EXPECT_THAT(complaint({"-r", "4"}), HasSubstr("-r is not a flag of prog"));
}

TEST(CommandLineTest, AWordTooManyIsNamed) {
  EXPECT_EQ(
      complaint({"--fast", "stray"}),
      "prog takes no argument 'stray' | flags begin with two dashes; prog --help lists all flags");
  EXPECT_THAT(complaint({"--", "stray"}), HasSubstr("prog takes no argument 'stray'"));
  Program program;
  EXPECT_EQ(complaint(program.app, {"stray"},
                      [](const std::string& command, const std::string& word) {
                        return command + " and " + word;
                      }),
            "prog takes no argument 'stray' | prog and stray");
}

TEST(CommandLineTest, CommandsAreNamedInFull) {
  std::string path;
  int rows = 1;
  const auto said = [&](const std::vector<std::string>& words) {
    CLI::App app("Many things.", "tool");
    app.require_subcommand(1);
    auto* show = app.add_subcommand("show", "Shows");
    show->require_subcommand(1);
    auto* file = show->add_subcommand("file", "A file");
    add_argument(*file, {"PATH", &path, "The file"})->required();
    add_flag(*file, {"rows", &rows, "Rows"})->required();
    app.add_subcommand("make", "Makes");
    return complaint(app, words);
  };
  EXPECT_EQ(said({"show", "file", "a.txt", "--rows=2"}), "");
  EXPECT_EQ(path, "a.txt");
  EXPECT_EQ(said({}),
            "tool needs a command | choose one of: show, make; tool --help describes them");
  EXPECT_EQ(
      said({"shwo"}),
      "there is no command 'shwo' in tool | did you mean tool show? tool --help lists all flags");
  EXPECT_EQ(said({"fly"}), "there is no command 'fly' in tool | choose one of: show, make");
  EXPECT_EQ(said({"show", "files"}),
            "there is no command 'files' in tool show | did you mean tool show file? tool show "
            "--help lists all flags");
  EXPECT_EQ(said({"show"}),
            "tool show needs a command | choose one of: file; tool show --help describes them");
  EXPECT_EQ(said({"show", "file", "--rows=2"}), "tool show file needs PATH | PATH: The file");
  EXPECT_EQ(said({"show", "file", "a"}), "tool show file needs --rows=INT | --rows: Rows");
  EXPECT_EQ(said({"show", "file", "a", "b", "--rows=2"}).substr(0, 35),
            "tool show file takes no argument 'b");
  EXPECT_EQ(said({"show", "file", "a", "--row=2"}).substr(0, 39),
            "--row is not a flag of tool show file |");
  EXPECT_EQ(
      said({"--rows=2"}),
      "--rows is not a flag of tool | it is a flag of tool show file: write it after that command");
  EXPECT_THAT(said({"make", "show"}), HasSubstr("tool make takes no argument 'show'"));
}

TEST(CommandLineTest, HelpIsPrintedAndNothingElseDone) {
  Program program;
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(parse(program.app, {"--help"}));
  const std::string help = ::testing::internal::GetCapturedStdout();
  for (const char* text : {"Does things.", "--rows INT", "64", "--rate NUMBER", "--name TEXT",
                           "--time SECONDS", "Rows of a batch"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--fast TEXT")));
}

TEST(CommandLineTest, AFlagThatCannotBeIsRefused) {
  CLI::App app("", "prog");
  int rows = 1;
  for (const char* name : {"", "--rows", "a b", "a=b"}) {
    EXPECT_THROW(add_flag(app, {name, &rows, "Rows"}), Error) << name;
  }
  EXPECT_THROW(add_flag(app, {"rows", static_cast<int*>(nullptr), "Rows"}), Error);
  add_flag(app, {"rows", &rows, "Rows"});
  try {
    add_flag(app, {"rows", &rows, "Rows"});
    ADD_FAILURE() << "a second --rows";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "prog has two flags of the name --rows");
  }
}

TEST(CommandLineTest, ManyWordsWithoutAFlag) {
  std::vector<std::string> files;
  bool json = false;
  const auto said = [&](const std::vector<std::string>& words) {
    CLI::App app("Shows files.", "show");
    files.clear();
    add_arguments(app, "FILE", &files, "Files")->required();
    add_flag(app, {"json", &json, "As JSON"});
    return complaint(app, words);
  };
  EXPECT_EQ(said({"a"}), "");
  EXPECT_EQ(files, std::vector<std::string>{"a"});
  EXPECT_EQ(said({"a", "b", "--json", "c"}), "");
  EXPECT_EQ(files, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(json);
  EXPECT_EQ(said({}), "show needs FILE | FILE: Files");
  EXPECT_EQ(said({"a", ""}), "FILE needs a value | FILE: Files");
}

}  // namespace
}  // namespace muster::inline v0_1::command
