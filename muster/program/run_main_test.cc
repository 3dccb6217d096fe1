#include "muster/program/run_main.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/command/job_dir.h"
#include "muster/train/late_error.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = -1;
  std::string out, err;
  bool called = false;
  Flags flags{};
};

Outcome run(
    std::vector<std::string> arguments,
    const std::function<void(const Flags&)>& program = [](const Flags&) {},
    const ProgramOptions& options = {}) {
  arguments.insert(arguments.begin(), "program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Outcome outcome;
  log::flush();
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  outcome.code = run_main(
      static_cast<int>(arguments.size()), argv.data(),
      [&](const Flags& flags) {
        outcome.called = true;
        outcome.flags = flags;
        program(flags);
      },
      options);
  log::flush();
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(RunMainTest, EveryKindOfErrorHasItsExitCode) {
  const std::pair<ErrorKind, int> codes[] = {
      {ErrorKind::kInvalidArgument, 2}, {ErrorKind::kNotFound, 2},
      {ErrorKind::kCorrupt, 1},         {ErrorKind::kNonFinite, 1},
      {ErrorKind::kInternal, 1},        {ErrorKind::kPeerLost, 138},
      {ErrorKind::kTimeout, 138},       {ErrorKind::kUnavailable, 138},
      {ErrorKind::kCancelled, 143},
  };
  for (const auto& [kind, code] : codes) {
    const Outcome outcome =
        run({}, [kind = kind](const Flags&) { throw Error(kind, "what went wrong", "do this"); });
    EXPECT_EQ(outcome.code, code) << to_string(kind);
    EXPECT_THAT(outcome.err, HasSubstr("what went wrong"));
    EXPECT_THAT(outcome.err, HasSubstr("do this"));
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(run({}).code, 0);
}

TEST(RunMainTest, ARequiredFlagThatIsMissingEndsTheProgramWithItsName) {
  std::string tokens;
  int64_t units = 3;
  const ProgramOptions options{
      .uses = {"data_dir", "model_dir", "seed"},
      .required = {"data_dir", "model_dir"},
      .flags = {
          {.name = "tokens", .value = &tokens, .help = "The list of tokens", .required = true},
          {.name = "units", .value = &units, .help = "Units", .required = true}}};
  const auto given = [&](std::vector<std::string> words) {
    return run(
        std::move(words), [](const Flags&) {}, options);
  };
  const Outcome without_data = given({"--tokens=t", "--units=4", "--model_dir=m"});
  EXPECT_EQ(without_data.code, 2);
  EXPECT_FALSE(without_data.called);
  EXPECT_THAT(without_data.err, HasSubstr("needs --data_dir=DIR"));
  EXPECT_THAT(without_data.err, HasSubstr("Folder of the data set"));
  const Outcome without_tokens = given({"--data_dir=d", "--units=4", "--model_dir=m"});
  EXPECT_EQ(without_tokens.code, 2);
  EXPECT_THAT(without_tokens.err, HasSubstr("needs --tokens=TEXT"));
  // A number that must be given has no default to show.
  const Outcome without_units = given({"--data_dir=d", "--tokens=t", "--model_dir=m"});
  EXPECT_EQ(without_units.code, 2);
  EXPECT_THAT(without_units.err, HasSubstr("needs --units=INT"));
  EXPECT_THAT(without_units.err, Not(HasSubstr("default")));
  const Outcome all = given({"--data_dir=d", "--tokens=t", "--units=4", "--model_dir=m"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(units, 4);
  // The clusters' name of the model's directory works too; an empty value counts as none.
  EXPECT_EQ(given({"--data_dir=d", "--tokens=t", "--units=4", "--job-dir=j"}).flags.model_dir, "j");
  EXPECT_EQ(given({"--data_dir=", "--tokens=t", "--units=4", "--model_dir=m"}).code, 2);
  EXPECT_THAT(given({"--help"}).out, HasSubstr("REQUIRED"));
}

TEST(RunMainTest, ARequiredFlagIsOneThatTheProgramHas) {
  const Outcome unused = run({}, [](const Flags&) {}, {.uses = {"seed"}, .required = {"data_dir"}});
  EXPECT_EQ(unused.code, 2);
  EXPECT_THAT(unused.err, HasSubstr("ProgramOptions::required has data_dir"));
}

// As at the end of a scope, which cannot throw.
TEST(RunMainTest, AFailureWhereNothingCanBeThrownHasItsExitCode) {
  const Outcome outcome =
      run({}, [](const Flags&) { note_late_error(invalid_argument("steps are lost", "do this")); });
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("steps are lost"));
  EXPECT_EQ(run({}).code, 0);
}

TEST(RunMainTest, WordsWithoutFlagsAndANameOfItsOwn) {
  std::string table;
  int64_t trees = 1;
  const ProgramOptions options{.shared_flags = false,
                               .name = "muster train",
                               .arguments = {{"CSV", &table, "The table"}},
                               .flags = {{"trees", &trees, "How many"}}};
  EXPECT_EQ(run(
                {"a.csv", "--trees=3"}, [](const Flags&) {}, options)
                .code,
            0);
  EXPECT_EQ(table, "a.csv");
  EXPECT_EQ(trees, 3);
  const Outcome help = run(
      {"--help"}, [](const Flags&) {}, options);
  EXPECT_THAT(help.out, HasSubstr("muster train"));
  EXPECT_THAT(help.out, Not(HasSubstr("--model_dir")));
  EXPECT_EQ(run(
                {"a.csv", "b.csv"}, [](const Flags&) {}, options)
                .code,
            2);
}

TEST(RunMainTest, AStopHasTheCodeOfItsSignal) {
  for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130},
                                     std::pair{SIGUSR1, 138}, std::pair{SIGHUP, 143}}) {
    const Outcome outcome = run({}, [signal = signal](const Flags&) {
      std::raise(signal);
      throw Error(ErrorKind::kCancelled, "stopped after saving");
    });
    clear_stop_signal();
    EXPECT_EQ(outcome.code, code);
  }
}

TEST(RunMainTest, NoExceptionEscapes) {
  const Outcome standard = run({}, [](const Flags&) { throw std::runtime_error("mine"); });
  EXPECT_EQ(standard.code, 1);
  EXPECT_THAT(standard.err, HasSubstr("std::runtime_error was thrown: mine"));
  EXPECT_THAT(standard.err, Not(HasSubstr("Internal")));
  const Outcome torch = run({}, [](const Flags&) { TORCH_CHECK(false, "sizes differ"); });
  EXPECT_EQ(torch.code, 1);
  EXPECT_THAT(torch.err, HasSubstr("sizes differ"));
  EXPECT_THAT(torch.err, ::testing::Not(HasSubstr("frame #")));
  const Outcome memory = run({}, [](const Flags&) { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code, 1);
  EXPECT_THAT(memory.err, HasSubstr("out of memory"));
  EXPECT_EQ(run({}, [](const Flags&) { throw 7; }).code, 1);
}

// Throws where the exception cannot be caught.
template <typename E>
void throw_uncaught(const E& error) {
  std::thread([&] { throw error; }).join();
}

TEST(GuardMainDeathTest, AnUncaughtErrorIsPrintedAndHasItsExitCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        guard_main();
        throw_uncaught(not_found("there is no model in m", "train first"));
      },
      ::testing::ExitedWithCode(2), "NotFound: there is no model in m\n  hint: train first\n$");
  EXPECT_EXIT(
      {
        guard_main();
        guard_main();
        throw_uncaught(std::runtime_error("mine"));
      },
      ::testing::ExitedWithCode(1), "E [0-9:]+ std::runtime_error was thrown: mine\n$");
  EXPECT_EXIT(
      {
        guard_main();
        std::terminate();
      },
      ::testing::KilledBySignal(SIGABRT), "the process was aborted \\(SIGABRT\\)");
  EXPECT_EXIT(throw_uncaught(not_found("no guard")), ::testing::KilledBySignal(SIGABRT),
              "NotFound: no guard");
}

// As under a small `ulimit -v`, where a thread of a library throws it.
TEST(GuardMainDeathTest, ShortMemoryIsALineAndAnExitCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        guard_main();
        throw_uncaught(std::bad_alloc());
      },
      ::testing::ExitedWithCode(1), "Internal: out of memory\n  hint: use a smaller batch");
  EXPECT_EXIT(run({}, [](const Flags&) { std::thread([] { throw std::bad_alloc(); }).join(); }),
              ::testing::ExitedWithCode(1), "");
}

// Lines of the program appear among the lines of its log, though standard output is not a terminal.
TEST(GuardMainTest, EachLineThatAProgramPrintsIsWrittenAtOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    guard_main();
    std::printf("step 1\n");
    _exit(0);  // bytes in a buffer are lost
  }
  close(ends[1]);
  char text[16] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text - 1), 7);
  EXPECT_STREQ(text, "step 1\n");
  close(ends[0]);
  waitpid(child, nullptr, 0);
}

TEST(GuardMainDeathTest, CtrlCIsARequestToStop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        guard_main();
        std::raise(SIGINT);
        if (stop_signal() != SIGINT) std::exit(1);
        throw_uncaught(Error(ErrorKind::kCancelled, "stopped by Ctrl-C after saving step 3"));
      },
      ::testing::ExitedWithCode(130), "stopped by Ctrl-C after saving step 3");
}

TEST(RunMainTest, FlagsAreReadOverTheProgramsDefaults) {
  const Outcome given =
      run({"--data_dir=d", "--model_dir", "m", "--epochs=3", "--max_steps=10", "--batch_size=8",
           "--learning_rate=0.5", "--seed=42", "--save_checkpoints_steps=5", "--trace"});
  ASSERT_EQ(given.code, 0) << given.err;
  EXPECT_EQ(given.flags.data_dir, "d");
  EXPECT_EQ(given.flags.model_dir, "m");
  EXPECT_EQ(given.flags.epochs, 3);
  EXPECT_EQ(given.flags.max_steps, 10);
  EXPECT_EQ(given.flags.batch_size, 8);
  EXPECT_EQ(given.flags.learning_rate, 0.5);
  EXPECT_EQ(given.flags.seed, 42u);
  EXPECT_EQ(given.flags.save_checkpoints_steps, 5);
  EXPECT_TRUE(given.flags.trace);
  const Outcome defaults =
      run({"--epochs=2"}, [](const Flags&) {}, {.defaults = {.model_dir = "here", .epochs = 7}});
  EXPECT_EQ(defaults.flags.model_dir, "here");
  EXPECT_EQ(defaults.flags.epochs, 2);
  EXPECT_FALSE(defaults.flags.max_steps);
}

TEST(RunMainTest, TheFolderThatAClusterGivesIsTheModelsWhereTheProgramHasNoOther) {
  EXPECT_EQ(run({"--job-dir", "gs://b/j"}).flags.model_dir, "gs://b/j");
  EXPECT_EQ(run({"--job-dir=j", "--model_dir=m"}).flags.model_dir, "m");
  std::string own;
  const ProgramOptions options{.flags = {{"job-dir", &own, "Its own"}}};
  EXPECT_EQ(run(
                {"--job-dir=j"}, [](const Flags&) {}, options)
                .flags.model_dir,
            Flags().model_dir);
  EXPECT_EQ(own, "j");
  // Code that needs a folder of the job finds it, whatever the flag was called.
  EXPECT_EQ(command::job_dir(), "j");
  run({"--model_dir=m"});
  EXPECT_EQ(command::job_dir(), "m");
  run({}, [](const Flags&) {}, {.shared_flags = false});
  EXPECT_EQ(command::job_dir(), "");
  EXPECT_EQ(run({"--job-dir=j"}, [](const Flags&) {}, {.uses = {"seed"}}).code, 2);
}

TEST(RunMainTest, WrongFlagsEndWithTwoBeforeTheProgramRuns) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--no_such_flag", "--no_such_flag is not a flag of program"},
      {"--bach_size=8", "hint: did you mean --batch_size?"},
      {"--epochs=many", "--epochs is 'many'; it must be a whole number more than 0"},
      {"--epochs", "--epochs needs a value"},
      {"--model_dir=", "--model_dir needs a value"},
      {"--seed=-1", "--seed is -1; it must be a whole number from 0 to"},
      {"stray", "program takes no argument 'stray'"},
      {"--epochs=0", "--epochs is 0; it must be a whole number more than 0"},
      {"--epochs=1000000001", "and at most 1000000000"},
      {"--batch_size=-4", "--batch_size is -4"},
      {"--batch_size=9223372036854775807",
       "--batch_size is 9223372036854775807; it must be a whole number more than 0 and at most "
       "2147483647"},
      {"--learning_rate=0", "--learning_rate is 0; it must be a number more than 0"},
      {"--learning_rate=nan", "--learning_rate is 'nan'"},
      {"--max_steps=0", "--max_steps is 0"},
      {"--save_checkpoints_steps=-1", "--save_checkpoints_steps is -1"},
  };
  for (const auto& [flag, message] : wrong) {
    const Outcome outcome = run({flag});
    EXPECT_EQ(outcome.code, 2) << flag;
    EXPECT_FALSE(outcome.called) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    // One line for the error and one for the hint.
    EXPECT_THAT(outcome.err, ::testing::MatchesRegex("[^\n]*InvalidArgument: [^\n]+\n"
                                                     "  hint: [^\n]+\n"));
    EXPECT_EQ(outcome.out, "") << flag;
  }
}

TEST(RunMainTest, AVariableThatIsNoNumberEndsItBeforeAnythingStarts) {
  for (const std::string name :
       {"MUSTER_THREADS", "MUSTER_MIN_WORKERS", "MUSTER_WATCHDOG_SECONDS", "MUSTER_LIVE_SECONDS"}) {
    const char* before = std::getenv(name.c_str());
    const std::string kept = before == nullptr ? "" : before;
    ::setenv(name.c_str(), "x", 1);
    const Outcome outcome = run({});
    ::setenv(name.c_str(), kept.c_str(), 1);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(outcome.called);
    EXPECT_THAT(outcome.err, HasSubstr(name + " is 'x'"));
  }
}

TEST(RunMainTest, OnlyTheSharedFlagsAProgramUsesAreItsFlags) {
  const ProgramOptions options{.uses = {"model_dir", "seed"}};
  const auto nothing = [](const Flags&) {};
  EXPECT_EQ(run({"--model_dir=m", "--seed=3"}, nothing, options).flags.seed, 3u);
  const Outcome unused = run({"--learning_rate=0.1"}, nothing, options);
  EXPECT_EQ(unused.code, 2);
  EXPECT_THAT(unused.err, HasSubstr("--learning_rate is not a flag of program"));
  const std::string help = run({"--help"}, nothing, options).out;
  EXPECT_THAT(help, HasSubstr("--model_dir"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--learning_rate")));
  const Outcome wrong = run({}, nothing, {.uses = {"model_dir", "modeldir"}});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_FALSE(wrong.called);
  EXPECT_THAT(wrong.err, HasSubstr("has modeldir, which is not a shared flag"));
}

TEST(RunMainTest, AProgramAddsFlagsOfItsOwn) {
  int64_t hidden_units = 64;
  double dropout = 0.5;
  std::string activation = "relu";
  bool wide = false;
  const ProgramOptions options{
      .flags = {{"hidden_units", &hidden_units, "Width of the layer", {.more_than = 0}},
                {"dropout", &dropout, "Share that is dropped"},
                {"activation", &activation, "Of the layer"},
                {"wide", &wide, "Wider"}}};
  // The program finds them set.
  const auto program = [&](const Flags& flags) {
    EXPECT_EQ(flags.epochs, 2);
    EXPECT_EQ(hidden_units, 128);
  };
  const Outcome given =
      run({"--hidden_units=128", "--dropout", "0.1", "--activation=tanh", "--wide", "--epochs=2"},
          program, options);
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_TRUE(given.called);
  EXPECT_EQ(dropout, 0.1);
  EXPECT_EQ(activation, "tanh");
  EXPECT_TRUE(wide);
  const Outcome wrong = run({"--hidden_units=none"}, program, options);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--hidden_units is 'none'; it must be a whole number"));
  EXPECT_THAT(run({"--help"}, program, options).out, HasSubstr("Width of the layer"));

  const Outcome twice = run({}, program, {.flags = {{"seed", &hidden_units, "Mine"}}});
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("two flags of the name --seed"));
}

TEST(RunMainTest, TheLogSpeaksJsonWhereAsked) {
  const Outcome outcome =
      run({"--log_format=json"}, [](const Flags&) { log::warning("take care"); });
  log::set_format(log::Format::kText);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("\"level\":\"warning\",\"message\":\"take care\"}\n"));
  const Outcome wrong = run({"--log_format=xml"}, [](const Flags&) {}, {.uses = {"seed"}});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_FALSE(wrong.called);
  EXPECT_THAT(wrong.err, HasSubstr("--log_format is 'xml'; it must be one of: text, json"));
}

TEST(RunMainTest, HelpShowsDescriptionDefaultsAndExamples) {
  const Outcome help = run({"--help"}, [](const Flags&) {},
                           {.description = "Counts sheep.",
                            .examples = "  program --epochs=9",
                            .defaults = {.batch_size = 77}});
  EXPECT_EQ(help.code, 0);
  EXPECT_FALSE(help.called);
  for (const char* text : {"Counts sheep.", "program --epochs=9", "77", "--model_dir"})
    EXPECT_THAT(help.out, HasSubstr(text));
}

// A script must not take an empty file for success; a script that stops reading does so on purpose.
TEST(PrintResultDeathTest, SaysThatItCannotBeWritten) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto print_to = [](const char* path) {
    const Outcome outcome = run({}, [path](const Flags&) {
      dup2(open(path, O_WRONLY), STDOUT_FILENO);
      print_result({{"loss", 1}});
    });
    std::fputs(outcome.err.c_str(), stderr);
    _exit(outcome.code);
  };
  EXPECT_EXIT(print_to("/dev/null"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(print_to("/dev/full"), ::testing::ExitedWithCode(2),
              "cannot write the result to standard output: No space left on device");
}

TEST(PrintResultTest, IsOneLineOfJsonWithStepAndLossFirst) {
  ::testing::internal::CaptureStdout();
  print_result({{"accuracy", 0.9812}, {"global_step", 1406}, {"loss", 0.0604}});
  print_result({{"mine", 1.5}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "result: {\"global_step\":1406,\"loss\":0.0604,\"accuracy\":0.9812}\n"
            "result: {\"mine\":1.5}\n");
}

}  // namespace
}  // namespace muster::inline v0_1
