// Who looks at a run of two workers sees which one makes the other wait, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "muster/base/await.h"
#include "muster/base/clock.h"
#include "muster/board/board_api.h"
#include "muster/files/file_systems.h"
#include "muster/summary/live_run.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

TEST(LiveRunOfWorkers, TheSlowOneIsNamed) {
  const TempDirectory directory;
  const std::string model_dir = directory / "model";
  Program workers(muster_run({"--workers=2"}, {binary("slow_worker"), "--model_dir=" + model_dir,
                                               "--max_steps=1000000"}),
                  {{"SLOW_MS", "20"}, {"MUSTER_LIVE_SECONDS", "0.1"}});
  const Words top = {binary("muster"), "top", "--once", model_dir};
  Ran seen;
  await([&] {
    seen = run(top);
    return seen.output.find("worker 1 takes") != std::string::npos;
  });
  EXPECT_EQ(seen.code, 0);
  EXPECT_THAT(seen.output, HasSubstr("times as long as the others: input is"));
  EXPECT_THAT(seen.output, HasSubstr("worker 0"));
  // The board says the same.
  board::RunStore store({directory.path()}, file_systems());
  board::BoardApi api(store, file_systems());
  store.read_all();
  const auto runs = nlohmann::json::parse(api.answer("/api/live", "").body);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["straggler"]["name"], "worker 1") << runs[0].dump(1);
  EXPECT_EQ(runs[0]["straggler"]["where"], "input");
  ASSERT_EQ(runs[0]["tasks"].size(), 2u);
  // The quick one waits for the slow one in the reduction.
  const auto& quick = runs[0]["tasks"][0]["replicas"][0]["mean"];
  EXPECT_GT(quick["communication"].get<double>(), 2 * quick["input"].get<double>());
  // What it was started with, and how it ended.
  workers.signal(SIGTERM);
  EXPECT_EQ(workers.wait(), 143);
  const Ran end = run(top);
  EXPECT_THAT(end.output, HasSubstr("stopped"));
  const auto facts = nlohmann::json::parse(api.answer("/api/live", "").body);
  for (const auto& task : facts[0]["tasks"]) {
    EXPECT_EQ(task["state"], "stopped");
    EXPECT_EQ(task["command"].back(), "--max_steps=1000000");
  }
}

// A parameter server and a task that evaluates are shown with what they measure, and delay nobody.
TEST(LiveRunOfServers, EachKindOfTaskIsSeen) {
  const TempDirectory directory;
  const std::string model_dir = directory / "model";
  Program tasks(muster_run({"--chief", "--workers=1", "--ps=1", "--evaluator"},
                           {binary("slow_worker"), "--model_dir=" + model_dir,
                            "--max_steps=1000000", "--save_checkpoints_steps=500"}),
                {{"STRATEGY", "parameter_server"},
                 {"EVALUATES", "1"},
                 {"COMPUTE_MS", "2"},
                 {"MUSTER_LIVE_SECONDS", "0.1"}});
  summary::LiveRun seen;
  const auto find = [&](const std::string& name) -> const summary::LiveReplica* {
    for (const summary::LiveReplica& replica : seen.replicas)
      if (replica.now.task == name) return &replica;
    return nullptr;
  };
  await([&] {
    seen = summary::live_run(summary::read_live_statuses(file_systems(), model_dir),
                             system_clock().wall_seconds());
    const auto *server = find("ps 0"), *evaluator = find("evaluator 0");
    return find("chief") != nullptr && find("worker 0") != nullptr && server != nullptr &&
           server->now.step > 0 && evaluator != nullptr && evaluator->rate > 0;
  });
  EXPECT_EQ(seen.missing, 0);
  const auto& server = seen.tasks[find("ps 0")->task].status;
  EXPECT_EQ(find("ps 0")->now.activity, plan::Activity::kServing);
  EXPECT_GE(server.measures.at("connections"), 2);
  EXPECT_TRUE(server.measures.contains("received MB/s"));
  const auto& evaluator = seen.tasks[find("evaluator 0")->task].status;
  EXPECT_GT(find("evaluator 0")->now.step, 0);
  EXPECT_TRUE(evaluator.measures.contains("lag in steps"));
  EXPECT_FALSE(server.trains() || evaluator.trains());
  const Ran top = run({binary("muster"), "top", "--once", model_dir});
  EXPECT_THAT(top.output, HasSubstr("ps 0: connections "));
  EXPECT_THAT(top.output, HasSubstr(" batches"));
  tasks.signal(SIGTERM);
  EXPECT_EQ(tasks.wait(), 143);
}

}  // namespace
}  // namespace muster::testing
