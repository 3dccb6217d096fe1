// An evaluator next to a run: it works while others train, ends with them, and loses nothing when
// it, or the chief, is killed and started again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "muster/base/file_system.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Far more steps than any test waits for, and checkpoints that are evaluated.
const Words kEndless = {"--max_steps=1000000", "--save_checkpoints_steps=20"};

Words steps(int64_t max_steps) {
  return {"--max_steps=" + std::to_string(max_steps), "--save_checkpoints_steps=20"};
}

// The task next to a chief that trains alone.
Variables evaluator() {
  return {{"TF_CONFIG",
           R"({"cluster":{"chief":["127.0.0.1:2222"]},"task":{"type":"evaluator","index":0}})"}};
}

std::vector<nlohmann::json> journal_of(const std::string& model_dir) {
  std::istringstream lines(read_file(model_dir + "/evaluations.jsonl"));
  std::vector<nlohmann::json> entries;
  for (std::string line; std::getline(lines, line);) entries.push_back(nlohmann::json::parse(line));
  return entries;
}

// No checkpoint was evaluated twice, and the one of `last` as the final one, once. Returns how many
// there were.
size_t expect_each_once(const std::string& model_dir, int64_t last) {
  std::map<std::string, std::vector<nlohmann::json>> of_checkpoint;
  int finals = 0;
  for (const nlohmann::json& entry : journal_of(model_dir)) {
    std::vector<nlohmann::json>& before = of_checkpoint[entry["checkpoint"]];
    const bool is_final = entry.value("final", false);
    // The same evaluation once more, when it turned out to be the final one.
    if (!before.empty()) {
      EXPECT_TRUE(is_final) << entry;
      EXPECT_EQ(entry["metrics"], before.back()["metrics"]) << entry;
    }
    before.push_back(entry);
    finals += is_final;
    if (is_final) {
      EXPECT_EQ(entry["metrics"]["global_step"], last);
    }
  }
  EXPECT_EQ(finals, 1);
  EXPECT_TRUE(of_checkpoint.contains("model.ckpt-" + std::to_string(last)));
  return of_checkpoint.size();
}

// Waits until more than `before` evaluations are noted. The journal is a file of another process:
// all there is to do is to look. Fails the test after a minute, far more than they take.
void wait_for_evaluations(const std::string& model_dir, size_t before) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (journal_of(model_dir).size() <= before && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(5ms);
  ASSERT_GT(journal_of(model_dir).size(), before);
}

// Whether TensorBoard finds a point of `step` in the folder of the evaluations.
void expect_event(const std::string& model_dir, int64_t step, const std::string& tag) {
  const Ran ran = run({binary("muster"), "inspect", "events", model_dir + "/eval", "--tag", tag});
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr(std::to_string(step) + "  "));
}

TEST(EvaluatorRun, EndsWithTheRunAndHasTheLastWord) {
  const TempDirectory directory;
  for (const Words& tasks : {Words{"--workers=2", "--evaluator"}, Words{"--evaluator"}}) {
    const std::string model_dir = directory / std::to_string(tasks.size());
    const Words command = muster_run(tasks, mnist(model_dir, steps(200)));
    const Ran ran = run(command);
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_THAT(ran.output, AllOf(HasSubstr("[evaluator] I "), HasSubstr(" evaluated step 200:"),
                                  Not(HasSubstr("] E ")), Not(HasSubstr("] W "))));
    expect_each_once(model_dir, 200);
    expect_event(model_dir, 200, "accuracy");
    EXPECT_EQ(nlohmann::json::parse(result_of(ran))["global_step"], 200);
    // Again: nothing is trained, and what there is is evaluated.
    const Ran again = run(command);
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_EQ(result_of(again), result_of(ran));
    EXPECT_THAT(again.output, HasSubstr("nothing to train"));
  }
}

TEST(EvaluatorRun, WorksWhileOthersTrainAndStopsWithThem) {
  const TempDirectory directory;
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program(muster_run({"--workers=2", "--evaluator"}, mnist(directory / "m", kEndless)));
    program.wait_for("[evaluator] I ");
    program.wait_for("evaluates the checkpoints, so this task does not");
    // By now the chief evaluates nothing.
    const size_t before = journal_of(directory / "m").size();
    wait_for_evaluations(directory / "m", before + 2);
    program.signal(signal);
    EXPECT_EQ(program.wait(), 128 + signal) << program.output();
    EXPECT_THAT(program.output(), Not(HasSubstr("] E ")));
    const auto entries = journal_of(directory / "m");
    for (size_t i = before + 1; i < entries.size(); ++i)
      EXPECT_EQ(entries[i]["task"], "evaluator:0") << entries[i];
    expect_event(directory / "m", entries.back()["metrics"]["global_step"], "evaluator/lag_steps");
  }
}

TEST(EvaluatorRun, AKilledEvaluatorStopsNobodyAndTheChiefEvaluatesThen) {
  until_in_time([] {
    const TempDirectory directory;
    Program program(muster_run({"--workers=2", "--evaluator"}, mnist(directory / "m", steps(400))));
    program.wait_for("evaluates the checkpoints, so this task does not");
    if (has_checkpoint(directory / "m", 400)) return false;
    if (!program.signal_task("evaluator", 0, SIGKILL)) return false;
    EXPECT_EQ(program.wait(), 137) << program.output();
    EXPECT_THAT(program.output(),
                AllOf(HasSubstr("is dead: this task evaluates until there is another evaluator"),
                      HasSubstr("[worker 0] I "), HasSubstr("training is over at step 400"),
                      HasSubstr("the others ended well, but evaluator failed: killed by SIGKILL"),
                      HasSubstr("[worker 0] result: {\"global_step\":400")));
    expect_each_once(directory / "m", 400);
    return true;
  });
}

TEST(EvaluatorRun, IsStoppedWhereAWorkerIsLost) {
  const TempDirectory directory;
  Program program(muster_run({"--workers=2", "--evaluator"}, mnist(directory / "m", kEndless)));
  program.wait_for("evaluates the checkpoints, so this task does not");
  program.wait_for("step 1/");
  ASSERT_EQ(::kill(program.task("worker", 1), SIGKILL), 0);
  EXPECT_EQ(program.wait(), 137) << program.output();
  EXPECT_THAT(program.output(),
              AllOf(HasSubstr("stopped because worker 1 failed: killed by SIGKILL"),
                    HasSubstr("evaluator is the only task left: sending SIGTERM")));
}

TEST(EvaluatorRun, EvaluatesTheLastCheckpointOfOneThatFails) {
  const TempDirectory directory;
  // The loss is not a number at step 2, after the checkpoint of step 0.
  const Ran ran = run(muster_run(
      {"--evaluator"}, mnist(directory / "m", {"--max_steps=20", "--learning_rate=1e30"})));
  EXPECT_EQ(ran.code, 1) << ran.output;
  EXPECT_THAT(ran.output,
              AllOf(HasSubstr("stopped because worker 0 failed: exit code 1"),
                    HasSubstr("[evaluator] W "), HasSubstr(" evaluated step 0:"),
                    HasSubstr("training failed, and its last checkpoint is evaluated: the loss")));
}

// Started by hand, as a scheduler does that starts a task again.
TEST(EvaluatorProgram, KilledAndStartedAgainItEvaluatesNothingTwice) {
  const TempDirectory directory;
  const std::string model_dir = directory / "m";
  const auto start = [&] {
    return std::make_unique<Program>(mnist(model_dir, kEndless), evaluator());
  };
  std::unique_ptr<Program> beside = start();
  beside->wait_for("waiting for the first checkpoint");
  Program chief(mnist(model_dir, kEndless));
  for (int round = 0; round < 3; ++round) {
    beside->wait_for("evaluated step ");
    beside->signal(SIGKILL);
    EXPECT_EQ(beside->wait(), -SIGKILL);
    beside = start();
  }
  beside->wait_for("evaluated step ");
  chief.signal(SIGTERM);
  EXPECT_EQ(chief.wait(), 143) << chief.output();
  // A stopped run may be started again; its last checkpoint is evaluated before that is awaited.
  const double last = number_behind(chief.output(), "stopped by SIGTERM after saving step ");
  beside->wait_for(fmt::format("evaluated step {:.0f}:", last));
  EXPECT_TRUE(beside->running());
  beside->signal(SIGTERM);
  EXPECT_EQ(beside->wait(), 143) << beside->output();
  EXPECT_THAT(beside->output(),
              AllOf(HasSubstr("stopped by SIGTERM while it waited for"), Not(HasSubstr("E "))));
  std::set<std::string> seen;
  for (const nlohmann::json& entry : journal_of(model_dir))
    EXPECT_TRUE(seen.insert(entry["checkpoint"]).second) << entry;
  EXPECT_GE(seen.size(), 4u);
}

TEST(EvaluatorProgram, WaitsForAChiefThatIsKilledAndStartedAgain) {
  until_in_time([] {
    const TempDirectory directory;
    const std::string model_dir = directory / "m";
    Program beside(mnist(model_dir, steps(1000)), evaluator());
    beside.wait_for("waiting for the first checkpoint");
    for (int round = 0; round < 2; ++round) {
      Program chief(mnist(model_dir, steps(1000)));
      chief.wait_for("evaluates the checkpoints, so this task does not");
      const size_t before = journal_of(model_dir).size();
      // Behind the last one there are no more.
      if (has_checkpoint(model_dir, 1000)) return false;
      wait_for_evaluations(model_dir, before);
      chief.signal(SIGKILL);
      const int code = chief.wait();
      if (has_checkpoint(model_dir, 1000)) return false;
      EXPECT_EQ(code, -SIGKILL) << chief.output();
      EXPECT_TRUE(beside.running());
    }
    const Ran chief = run(mnist(model_dir, steps(1000)));
    EXPECT_EQ(chief.code, 0) << chief.output;
    EXPECT_THAT(chief.output, AllOf(HasSubstr("the last step, 1000"),
                                    Not(HasSubstr("evaluated step")), Not(HasSubstr("result: "))));
    EXPECT_EQ(beside.wait(), 0) << beside.output();
    EXPECT_THAT(beside.output(), AllOf(HasSubstr("evaluated step 1000:"), HasSubstr("result: ")));
    expect_each_once(model_dir, 1000);
    return true;
  });
}

}  // namespace
}  // namespace muster::testing
