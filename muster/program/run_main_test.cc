#include "muster/program/run_main.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <new>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/stop_signal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string out, err;
  bool called = false;
  Flags flags;
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

TEST(RunMainTest, AStopHasTheCodeOfItsSignal) {
  for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}}) {
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
  EXPECT_THAT(standard.err, HasSubstr("mine"));
  const Outcome torch = run({}, [](const Flags&) { TORCH_CHECK(false, "sizes differ"); });
  EXPECT_EQ(torch.code, 1);
  EXPECT_THAT(torch.err, HasSubstr("sizes differ"));
  EXPECT_THAT(torch.err, ::testing::Not(HasSubstr("frame #")));
  const Outcome memory = run({}, [](const Flags&) { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code, 1);
  EXPECT_THAT(memory.err, HasSubstr("out of memory"));
  EXPECT_EQ(run({}, [](const Flags&) { throw 7; }).code, 1);
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

TEST(RunMainTest, WrongFlagsEndWithTwoBeforeTheProgramRuns) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--no_such_flag", "no_such_flag"},
      {"--epochs=many", "epochs"},
      {"--seed=-1", "seed"},
      {"stray", "stray"},
      {"--epochs=0", "--epochs is 0; it must be more than 0"},
      {"--batch_size=-4", "--batch_size is -4"},
      {"--learning_rate=0", "--learning_rate is 0"},
      {"--learning_rate=nan", "--learning_rate is nan"},
      {"--max_steps=0", "--max_steps is 0"},
      {"--save_checkpoints_steps=0", "--save_checkpoints_steps is 0"},
  };
  for (const auto& [flag, message] : wrong) {
    const Outcome outcome = run({flag});
    EXPECT_EQ(outcome.code, 2) << flag;
    EXPECT_FALSE(outcome.called) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
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

TEST(PrintResultTest, IsOneLineOfJsonWithStepAndLossFirst) {
  ::testing::internal::CaptureStdout();
  print_result({{"accuracy", 0.9812}, {"global_step", 1406}, {"loss", 0.0604}});
  print_result({{"mine", 1.5}});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "result: {\"global_step\":1406,\"loss\":0.0604,\"accuracy\":0.9812}\n"
            "result: {\"mine\":1.5}\n");
}

}  // namespace
}  // namespace muster
