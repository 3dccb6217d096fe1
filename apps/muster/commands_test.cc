// The `muster` binary as a user meets it: words in, text and exit code out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/muster/run_muster.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/safetensors.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ShellOutput muster(const std::string& arguments) { return run_muster(arguments); }

TEST(Command, HelpAndVersion) {
  for (const char* command : {"",
                              "run ",
                              "data ",
                              "data digits ",
                              "inspect ",
                              "inspect checkpoint ",
                              "inspect events ",
                              "inspect records ",
                              "export ",
                              "export torch ",
                              "new ",
                              "completion ",
                              "completion bash ",
                              "doctor ",
                              "serve ",
                              "train ",
                              "board ",
                              "sim ",
                              "top ",
                              "ls ",
                              "cp ",
                              "cat ",
                              "image ",
                              "submit ",
                              "jobs ",
                              "job ",
                              "job init "}) {
    const ShellOutput ran = muster(std::string(command) + "--help");
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_THAT(ran.text, HasSubstr("Example")) << command;
  }
  EXPECT_THAT(muster("run --help").text,
              HasSubstr("Usage: muster run [OPTIONS] -- PROGRAM [ARGUMENTS]\n"));
  EXPECT_THAT(muster("--version").text, ::testing::MatchesRegex("muster [0-9.]+\n"));
}

TEST(Command, WrongWordsEndWithTwoAndAHint) {
  for (const char* arguments :
       {"", "fly", "run --workers=x -- true", "run --worker=2 -- true", "run true", "data digits",
        "run --workers=2", "run -- no_such_program_anywhere", "run --ps=1 -- true",
        "run --evaluator", "run --workers=0 -- true", "inspect events /nowhere/at/all",
        "run --grace=-1 -- true", "new", "new a/9b", "completion", "run --workers=1 --workers=2"}) {
    const ShellOutput ran = muster(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ": " << ran.text;
    EXPECT_TRUE(ran.text.starts_with("error: ")) << arguments << ": " << ran.text;
  }
  EXPECT_EQ(muster("run --log-format=jsn -- true").text,
            "error: --log-format is 'jsn'; it must be one of: text, json\n"
            "hint: did you mean json? --log-format: Format of the output: text, or json (one "
            "object per line with its task, including the tasks' own log); default text\n");
  // One line says what is wrong, one what to do.
  EXPECT_EQ(muster("run --worker=2 -- true").text,
            "error: --worker is not a flag of muster run\n"
            "hint: did you mean --workers? muster run --help lists all flags\n");
  EXPECT_EQ(muster("rnu").text,
            "error: there is no command 'rnu' in muster\n"
            "hint: did you mean muster run? muster --help lists all flags\n");
  EXPECT_EQ(muster("run --workers=2 mnist --epochs=3").text,
            "error: muster run takes no argument 'mnist'\n"
            "hint: write two dashes before the program: muster run --workers=2 -- mnist ...\n");
  // The program, not a value or the command that is the same word; ready to be pasted.
  EXPECT_THAT(muster("run --workers 2 2").text, HasSubstr(": muster run --workers 2 -- 2 ...\n"));
  EXPECT_THAT(muster("run run").text, HasSubstr(": muster run -- run ...\n"));
  EXPECT_THAT(muster("run ./train --epochs=5").text, HasSubstr(": muster run -- ./train ...\n"));
  EXPECT_EQ(muster("submit --job-dir=x ./train --epochs=5").text,
            "error: --epochs is not a flag of muster submit\n"
            "hint: write two dashes before the program's arguments: muster submit --job-dir=x "
            "./train -- --epochs=5 ...\n");
  EXPECT_THAT(muster("submit ./train --job-dr=x").text,
              HasSubstr("did you mean --job-dir? if not, write two dashes before"));
  EXPECT_THAT(muster("submit ./train data.csv").text,
              HasSubstr(": muster submit ./train -- data.csv ...\n"));
  EXPECT_THAT(muster("submit --config=c.yaml --epochs=5").text,
              HasSubstr(": muster submit --config=c.yaml -- --epochs=5 ...\n"));
  // In front of the program a flag is not the program's.
  EXPECT_THAT(muster("submit --epochs=5 ./train").text,
              HasSubstr("hint: muster submit --help lists all flags\n"));
  EXPECT_THAT(muster("run --workers=2 'my train'").text,
              HasSubstr(": muster run --workers=2 -- 'my train' ...\n"));
  EXPECT_THAT(muster("run --survivor-time=86401 -- true").text,
              HasSubstr("--survivor-time is 86401; it must be a number from 0 to 86400"));
  EXPECT_THAT(muster("run --idle-time=0 -- true").text,
              HasSubstr("--idle-time is 0; it must be a number from 1 to 86400"));
  EXPECT_THAT(muster("run --ps=1 -- true").text, HasSubstr("there is no --chief"));
  EXPECT_EQ(muster("run --chief --workers=0 --ps=1 --dry-run -- true").code, 0);
  EXPECT_THAT(muster("run --workers=0 -- true").text, HasSubstr("at least 1"));
}

TEST(Command, ContradictoryBoundsOfWorkersAreNamed) {
  EXPECT_THAT(muster("run --workers=4:2 -- true").text,
              HasSubstr("--workers is '4:2': the minimum is larger than the maximum"));
  EXPECT_THAT(muster("run --workers=0:3 -- true").text,
              HasSubstr("--workers is '0:3': the minimum is 0, but the chief must be left"));
}

TEST(Command, ServeSaysWhatIsWrongBeforeLibTorchIsLoaded) {
  for (const char* arguments : {"serve", "serve model --port=65536", "serve model --name=a/b",
                                "serve model --max-batch-size=0", "serve model --drain-time=-1"}) {
    const ShellOutput ran = muster(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ": " << ran.text;
    EXPECT_TRUE(ran.text.starts_with("error: ")) << arguments << ": " << ran.text;
  }
  EXPECT_THAT(muster("serve model --name=a/b").text, HasSubstr("the model's name is 'a/b'"));
  EXPECT_THAT(muster("serve --prot=1 model").text, HasSubstr("did you mean --port?"));
}

TEST(Command, TrainSaysWhatIsWrongBeforeLibTorchIsLoaded) {
  for (const char* arguments :
       {"train", "train people.csv", "train people.csv --label=x --eval-fraction=1",
        "train people.csv --label=x --model=forest", "train people.csv --label=x --trees=0",
        "train people.csv --label=x --delimiter=::", "train people.csv --label=x --out=p.csv",
        "train --predict=new.csv"}) {
    const ShellOutput ran = muster(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << ": " << ran.text;
    EXPECT_TRUE(ran.text.starts_with("error: ")) << arguments << ": " << ran.text;
  }
  EXPECT_THAT(muster("train people.csv").text, HasSubstr("hint: name a column: --label=COLUMN"));
  EXPECT_THAT(muster("train people.csv --lable=x").text, HasSubstr("did you mean --label?"));
}

TEST(Command, VariablesThatAreWrongAreNamedBeforeAnythingStarts) {
  const TempDirectory folder;
  const std::string run = muster_line("run -- touch " + folder / "started");
  const ShellOutput threads = run_shell("MUSTER_THREADS=x " + run);
  EXPECT_EQ(threads.code, 2);
  EXPECT_THAT(
      threads.text,
      ::testing::StartsWith("error: MUSTER_THREADS is 'x', not a positive whole number\nhint: "));
  const ShellOutput format = run_shell("MUSTER_LOG_FORMAT=jsn " + run);
  EXPECT_EQ(format.code, 2);
  EXPECT_THAT(format.text, HasSubstr("MUSTER_LOG_FORMAT is 'jsn'"));
  EXPECT_FALSE(std::filesystem::exists(folder / "started"));
  EXPECT_EQ(run_shell("MUSTER_LOG_FORMAT= " + run).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "started"));
}

TEST(Command, RunPassesOutputAndCodesOn) {
  const ShellOutput good = muster("run --workers=2 -- sh -c 'echo \"$TF_CONFIG\"' x --help");
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.text, HasSubstr("[worker 0] {\"cluster\":{\"worker\":[\"127.0.0.1:"));
  EXPECT_THAT(good.text, HasSubstr("\"task\":{\"index\":1,\"type\":\"worker\"}}"));
  const ShellOutput killed = muster("run --workers=1 -- sh -c 'kill -9 $$'");
  EXPECT_EQ(killed.code, 137);
  EXPECT_THAT(killed.text, HasSubstr("worker 0 failed: killed by SIGKILL"));
  EXPECT_EQ(muster("run --workers=2 -- sh -c 'exit 138'").code, 138);
}

TEST(Command, RunSpeaksJsonWhereAsked) {
  const ShellOutput ran = muster("run --log-format=json -- /bin/sh -c 'echo hello'");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.text, "{\"task\":\"worker 0\",\"stream\":\"stdout\",\"message\":\"hello\"}\n");
  EXPECT_EQ(muster("run --log-format=xml -- /bin/true").code, 2);
}

TEST(Command, DryRunStartsNothing) {
  TempDirectory folder;
  const std::string file = join_path(folder.path(), "started");
  const ShellOutput ran = muster("run --workers=2 --threads=3 --dry-run -- touch " + file);
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.text, HasSubstr("# worker 1\nenv TF_CONFIG="));
  EXPECT_THAT(ran.text, HasSubstr("MUSTER_THREADS=3"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Command, DigitsOnceAndAgain) {
  TempDirectory folder;
  const std::string arguments =
      "data digits --train 100 --test 50 --out " + join_path(folder.path(), "d");
  const ShellOutput first = muster(arguments);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_THAT(first.text, HasSubstr("100 training and 50 test images written"));
  EXPECT_THAT(muster(arguments).text, HasSubstr("exist already"));
  const ShellOutput other = muster(arguments + " --seed 2");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, HasSubstr("hint: pass another --out, or --force"));
}

TEST(Command, NewMakesAProjectOnce) {
  TempDirectory folder;
  const std::string arguments = "new " + join_path(folder.path(), "shapes");
  const ShellOutput first = muster(arguments);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_THAT(first.text, HasSubstr("src/model.cc\n"));
  EXPECT_THAT(first.text, HasSubstr("\nNext:\n"));
  EXPECT_TRUE(std::filesystem::exists(join_path(folder.path(), "shapes/src/main.cc")));
  const ShellOutput again = muster(arguments);
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.text, HasSubstr("shapes is not empty"));
}

TEST(Command, OutputThatDoesNotArriveIsOne) {
  TempDirectory folder;
  for (const std::string& arguments :
       {std::string("--help"), std::string("--version"), std::string("completion bash"),
        std::string("run --workers=2 --dry-run -- true"),
        std::string("run --workers=32 --dry-run -- true"),  // more than a buffer holds
        "new " + join_path(folder.path(), "shapes")}) {
    const ShellOutput ran = muster(arguments + " >/dev/full");
    EXPECT_EQ(ran.code, 1) << arguments << ": " << ran.text;
    EXPECT_THAT(ran.text, HasSubstr("error: cannot write to standard output")) << arguments;
  }
}

TEST(Command, ExportsForPyTorch) {
  TempDirectory folder;
  const std::string model = folder / "model", out = folder / "fc.pt";
  local_file_system().make_directories(model).value();
  EXPECT_EQ(muster("export torch " + model + " " + out).code, 2);
  const std::string bytes(6 * 4, 'k');
  const std::vector<formats::TensorView> tensors{{"net/fc/kernel", "F32", {3, 2}, bytes_of(bytes)},
                                                 {"net/fc/bias", "F32", {6}, bytes_of(bytes)}};
  auto file = local_file_system().open_staged(model + "/model.ckpt-7.safetensors").value();
  formats::write_safetensors(*file, tensors).value();
  file->commit().value();
  const ShellOutput ran = muster("export torch " + model + " " + out);
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.text, model + "/model.ckpt-7.safetensors\n" +
                          "  name           in PyTorch  shape\n"
                          "  net/fc/bias    fc.bias     6\n"
                          "  net/fc/kernel  fc.weight   2x3    transposed\n"
                          "wrote 2 tensors to " +
                          out + "\n");
  EXPECT_TRUE(local_file_system().exists(out).value());
  const ShellOutput missing = muster("export torch " + folder.path() + "/none " + out);
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.text, HasSubstr("error: there is no checkpoint "));
  EXPECT_EQ(muster("export torch " + model).code, 2);
}

TEST(Command, DamageIsOne) {
  TempDirectory folder;
  const std::string file = join_path(folder.path(), "bad.safetensors");
  local_file_system().write_atomically(file, std::string_view("no tensors here")).value();
  const ShellOutput ran = muster("inspect checkpoint " + file);
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(ran.text.starts_with("error: ")) << ran.text;
  EXPECT_THAT(ran.text, Not(HasSubstr("terminate")));
}

TEST(Command, CommandsForJobsSayWhereTheyAreWhenTheyAreNotInstalled) {
  const TempDirectory bin;
  const std::string muster = bin / "muster";
  ASSERT_EQ(run_shell("cp " + muster_line("") + muster).code, 0);
  EXPECT_EQ(run_shell(muster + " --version").code, 0);
  for (const std::string words : {" submit true", " jobs list", " job init", " image ."}) {
    const ShellOutput ran = run_shell(muster + words);
    EXPECT_EQ(ran.code, 2) << ran.text;
    EXPECT_THAT(ran.text,
                ::testing::AllOf(HasSubstr("muster-jobs, which has the commands for jobs"),
                                 HasSubstr("./dev build muster-jobs")));
  }
}

}  // namespace
}  // namespace muster::app
