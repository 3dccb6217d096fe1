#include "muster/board/live_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/clock.h"
#include "muster/base/temp_directory.h"
#include "muster/board/board_api.h"
#include "muster/board/run_facts.h"
#include "muster/board/run_store.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"
#include "muster/summary/live_status.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;
using plan::Activity;
using summary::LiveStatus;

LiveStatus worker(int64_t process, float compute) {
  const double now = system_clock().wall_seconds();
  LiveStatus status{.task = "worker " + std::to_string(process),
                    .process = process,
                    .processes = 3,
                    .command = {"./train", "--steps=9"},
                    .version = "0.1",
                    .started = now - 5,
                    .written = now,
                    .every = 3600,
                    .earlier_starts = process,
                    .last_step = 9,
                    .saving = 2,
                    .memory = 1 << 20,
                    .log = {{.time = now, .level = "info", .text = "<b>hello</b>"}}};
  plan::ActivityNow& replica = status.replicas.emplace_back(
      plan::ActivityNow{.task = status.task, .activity = Activity::kCompute, .step = 4});
  for (int64_t s = 1; s <= 4; ++s) {
    replica.last.push_back({.step = s});
    replica.last.back().seconds[static_cast<size_t>(Activity::kCompute)] = compute;
  }
  replica.whole.seconds[static_cast<size_t>(Activity::kEvaluating)] = 20;
  return status;
}

TEST(LiveJson, TheBoardNamesTheSlowTask) {
  const TempDirectory dir;
  FileSystem& files = file_systems();
  const std::string model_dir = dir / "a/model";
  files.make_directories(model_dir).value();
  RunStore store({dir.path()}, files);
  BoardApi api(store, files);
  store.read_all();
  EXPECT_EQ(api.answer("/api/live", "").body, "[]");
  ASSERT_TRUE(write_live_status(files, model_dir, worker(0, .01F)).ok());
  ASSERT_TRUE(write_live_status(files, model_dir, worker(1, .05F)).ok());
  // What is no status is left out.
  ASSERT_TRUE(
      files.write_atomically(summary::live_path(model_dir, "worker 2"), R"({"format": 1})").ok());
  const uint64_t before = store.version();
  store.read_all();
  EXPECT_GT(store.version(), before);
  EXPECT_EQ(json::parse(api.answer("/api/state", "").body)["live_runs"], 1);
  const json runs = json::parse(api.answer("/api/live", "").body);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0]["directory"], model_dir);
  EXPECT_EQ(runs[0]["missing"], 1);
  EXPECT_EQ(runs[0]["straggler"]["name"], "worker 1");
  EXPECT_EQ(runs[0]["straggler"]["where"], "compute");
  EXPECT_NEAR(runs[0]["straggler"]["slowdown"].get<double>(), 5, 1e-3);
  const json& task = runs[0]["tasks"][1];
  EXPECT_EQ(task["task"], "worker 1");
  EXPECT_EQ(task["state"], "running");
  EXPECT_EQ(task["saving"], 2);
  EXPECT_EQ(task["log"][0]["text"], "<b>hello</b>");
  EXPECT_EQ(task["replicas"][0]["activity"], "compute");
  EXPECT_EQ(task["replicas"][0]["steps"].size(), 4u);
  EXPECT_NEAR(task["replicas"][0]["mean"]["compute"].get<double>(), .05, 1e-6);
  EXPECT_EQ(task["replicas"][0]["whole"], json({{"evaluating", 20}}));
  EXPECT_EQ(task["earlier_starts"], 1);
}

// Each look at a bucket costs money: pages that ask every second share a look of five seconds.
TEST(LiveJson, ARunInABucketIsLookedAtSeldom) {
  MemoryStore store;
  ASSERT_TRUE(write_live_status(store, "s3://bucket/run", worker(0, .01F)).ok());
  RunStore runs({"s3://bucket/run"}, store);
  BoardApi api(runs, store);
  runs.read_all();
  store.set_plan({.writes_only = false});
  const std::string first = api.answer("/api/live", "").body;
  EXPECT_EQ(json::parse(first)[0]["tasks"][0]["task"], "worker 0");
  const int64_t requests = store.requests();
  EXPECT_GT(requests, 0);
  for (int page = 0; page < 10; ++page) EXPECT_EQ(api.answer("/api/live", "").body, first);
  EXPECT_EQ(store.requests(), requests);
}

TEST(LiveJson, FactsSayHowARunWasStartedAndEnded) {
  const TempDirectory dir;
  FileSystem& files = file_systems();
  EXPECT_EQ(run_facts(files, dir.path())["starts"], json::array());
  EXPECT_TRUE(live_json(files, dir.path(), 0).is_null());
  LiveStatus status = worker(0, .01F);
  status.end = "failed";
  status.error = "the loss is not a number";
  status.exit_code = 1;
  ASSERT_TRUE(write_live_status(files, dir.path(), status).ok());
  ASSERT_TRUE(files
                  .write_atomically(dir / "best_checkpoints.json",
                                    R"({"best": [{"global_step": 7, "value": 0.5}, 3]})")
                  .ok());
  for (const char* name : {"model.ckpt-7.safetensors", "model.ckpt-9.safetensors"})
    ASSERT_TRUE(files.write_atomically(dir / name, "x").ok());
  const json facts = run_facts(files, dir.path());
  EXPECT_EQ(facts["starts"][0]["command"], json({"./train", "--steps=9"}));
  EXPECT_EQ(facts["starts"][0]["version"], "0.1");
  EXPECT_EQ(facts["starts"][0]["error"], "the loss is not a number");
  EXPECT_EQ(facts["starts"][0]["exit_code"], 1);
  ASSERT_EQ(facts["checkpoints"].size(), 2u);
  EXPECT_FALSE(facts["checkpoints"][0].contains("best"));
  EXPECT_EQ(facts["checkpoints"][1]["best"], 0.5);
}

}  // namespace
}  // namespace muster::inline v0_1::board
