// Who looks at a run of two workers sees which one makes the other wait, and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "muster/base/await.h"
#include "muster/board/board_api.h"
#include "muster/files/file_systems.h"
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

}  // namespace
}  // namespace muster::testing
