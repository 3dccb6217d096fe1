// Stopped, killed or continued on another number of workers: the run ends as if nothing had
// happened, bit for bit where the cluster is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "muster/base/error.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Words workers(int n) { return {"--workers=" + std::to_string(n)}; }

nlohmann::json result_of(const std::string& output) {
  const size_t at = output.find("result: ");
  if (at == std::string::npos) {
    ADD_FAILURE() << "no result in:\n" << output;
    return {};
  }
  return nlohmann::json::parse(output.substr(at + 8, output.find('\n', at) - at - 8));
}

class StoppedRunTest : public ::testing::TestWithParam<int> {};

// Ctrl-C at some step in the middle of an epoch, then SIGTERM, then to the end; next to it a run
// nobody disturbs.
TEST_P(StoppedRunTest, TheSameCommandContinuesToTheSameBits) {
  const int n = GetParam();
  const Words flags = {"--max_steps=600", "--save_checkpoints_steps=1000"};
  until_in_time([&] {
    const TempDirectory directory;
    const Words command = muster_run(workers(n), mnist(directory / "parts", flags));
    for (const int signal : {SIGINT, SIGTERM}) {
      Program program(command);
      program.wait_for(signal == SIGINT ? "step 101/600" : "continuing after step");
      program.signal(signal);
      const int code = program.wait();
      if (has_checkpoint(directory / "parts", 600)) return false;
      EXPECT_EQ(code, 128 + signal) << program.output();
      const std::string output = program.output();
      EXPECT_THAT(output,
                  AllOf(HasSubstr("saved " + directory / "parts" + "/model.ckpt-"),
                        HasSubstr(signal == SIGINT ? "stopped by Ctrl-C after saving step"
                                                   : "stopped by SIGTERM after saving step"),
                        HasSubstr("run the same command again to continue"), Not(HasSubstr("] E ")),
                        Not(HasSubstr("result: "))));
    }
    const Ran rest = run(command);
    EXPECT_EQ(rest.code, 0) << rest.output;
    EXPECT_THAT(rest.output, HasSubstr("continuing after step"));
    const Ran whole = run(muster_run(workers(n), mnist(directory / "whole", flags)));
    EXPECT_EQ(whole.code, 0) << whole.output;
    EXPECT_TRUE(checkpoint_bytes(directory / "parts", 600) ==
                checkpoint_bytes(directory / "whole", 600));
    EXPECT_EQ(result_of(rest.output), result_of(whole.output));
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(Workers, StoppedRunTest, ::testing::Values(1, 2));

// Nothing is left to save then, and the others have no failure to tell: those that wait for the
// chief's evaluation (digits), and those that evaluate with it (mnist).
TEST(StopTest, WhileItEvaluatesIsNoFailureOfTheOthers) {
  const TempDirectory directory;
  const Ran data = run({binary("muster"), "data", "digits", "--out", directory / "data", "--train",
                        "500", "--test", "20000"});
  ASSERT_EQ(data.code, 0) << data.output;
  for (const std::string name : {"digits", "mnist"}) {
    Program program(muster_run(workers(2), {binary(name), "--data_dir=" + directory / "data",
                                            "--model_dir=" + directory / name,
                                            "--max_steps=1000000", "--save_checkpoints_steps=5"}));
    program.wait_for("model.ckpt-5");
    program.signal(SIGINT);
    EXPECT_EQ(program.wait(), 130) << program.output();
    EXPECT_THAT(program.output(), AllOf(HasSubstr("[worker 0] I "), HasSubstr("[worker 1] I "),
                                        HasSubstr("stopped by Ctrl-C"), Not(HasSubstr("] E ")),
                                        Not(HasSubstr("failed"))));
  }
}

TEST(Bits, TheSameSeedTwiceAndAnotherSeed) {
  const TempDirectory directory;
  const auto trained = [&](const std::string& name, const std::string& seed) {
    const Ran ran =
        run(muster_run(workers(2), mnist(directory / name, {"--max_steps=20", "--seed=" + seed})));
    EXPECT_EQ(ran.code, 0) << ran.output;
    return checkpoint_bytes(directory / name, 20);
  };
  const std::string once = trained("once", "7");
  EXPECT_TRUE(once == trained("twice", "7"));
  EXPECT_FALSE(once == trained("other", "8"));
}

TEST(Workers, OneThenTwoThenOneThenAChiefContinueWhereTheOthersStopped) {
  const TempDirectory directory;
  const std::vector<std::pair<Words, std::string>> legs = {
      {workers(1), "saved"},
      {workers(2), "continuing after step 40, at epoch 1, sample 560"},
      {workers(1), "continuing after step 80, at epoch 2, sample 1120"},
      {{"--chief", "--workers=1"}, "continuing after step 120, at epoch 3, sample 1680"}};
  int64_t step = 0;
  nlohmann::json last;
  for (const auto& [options, text] : legs) {
    step += 40;
    const Ran ran = run(
        muster_run(options, mnist(directory / "model", {"--max_steps=" + std::to_string(step)})));
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(text));
    last = result_of(ran.output);
  }
  EXPECT_EQ(last["global_step"], 160);
  // One law: the number of workers changes nothing but rounding.
  const Ran one = run(mnist(directory / "one", {"--max_steps=160"}));
  EXPECT_NEAR(last["loss"], result_of(one.output)["loss"].get<double>(), 0.02);
}

// kill -9 of a task or of everything, at random moments of a run that saves all the time.
TEST(KillNine, InALoopLosesNothing) {
  const TempDirectory directory;
  const Words flags = {"--max_steps=60", "--save_checkpoints_steps=2"};
  const Words command =
      muster_run({"--workers=2", "--survivor-time=1"}, mnist(directory / "killed", flags));
  std::mt19937 random(5);
  bool done = false;
  for (int round = 0; round < 6 && !done; ++round) {
    Program program(command);
    program.wait_for(round == 0 ? "saved" : "continuing after step");
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 250));
    const std::vector<pid_t> tasks = program.children();
    const auto kills_task = [&](int index) {
      try {
        return program.signal_task("worker", index, SIGKILL);
      } catch (const Error&) {
        return false;  // it has ended
      }
    };
    if (round % 3 != 0 || !kills_task(round / 3)) program.signal(SIGKILL);
    const int code = program.wait();
    wait_until_gone(tasks);
    EXPECT_THAT(code, ::testing::AnyOf(0, 137, 138, -SIGKILL)) << program.output();
    EXPECT_THAT(program.output(), Not(HasSubstr("damaged")));
    done = code == 0;
  }
  const Ran rest = run(command);
  EXPECT_EQ(rest.code, 0) << rest.output;
  const Ran whole = run(muster_run(workers(2), mnist(directory / "whole", flags)));
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_TRUE(checkpoint_bytes(directory / "killed", 60) ==
              checkpoint_bytes(directory / "whole", 60));
  EXPECT_EQ(result_of(rest.output), result_of(whole.output));
}

}  // namespace
}  // namespace muster::testing
