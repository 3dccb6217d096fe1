#include "muster/launch/run_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::launch {
namespace {

using nlohmann::json;

TEST(RunRecord, HasEachStartOfEachTask) {
  const TempDirectory folder;
  // Of a chief, a server and a worker the worker ends with 138 the first time.
  const std::string marker = folder / "marker";
  const std::string script = "case $TF_CONFIG in *'\"type\":\"worker\"'*) [ -e " + marker +
                             " ] || { touch " + marker +
                             "; echo 'error: lost' >&2; exit 138; };; esac";
  RunOptions options{
      .workers = 1, .chief = true, .ps = 1, .restart = 2, .command = {"/bin/sh", "-c", script}};
  int calls = 0;
  options.supervise.on_exit = [&](size_t, const ExitStatus&) { ++calls; };
  RunRecord record({"muster", "run"});
  record.watch(options);
  const int code = run(options);
  const json read = json::parse(record.to_json(code));
  EXPECT_EQ(calls, 4) << "the callback that was there is still called";
  EXPECT_EQ(read["exit_code"], code);
  EXPECT_EQ(read["command"], json({"muster", "run"}));
  ASSERT_EQ(read["tasks"].size(), 3U);
  for (const json& task : read["tasks"]) {
    const bool worker = task["name"] == "worker 0";
    ASSERT_EQ(task["starts"].size(), worker ? 2U : 1U) << task.dump(1);
    if (worker) {
      EXPECT_EQ(task["starts"][0]["code"], 138);
    }
    EXPECT_EQ(task["starts"].back()["code"], 0) << task.dump(1);
    EXPECT_LE(read["started"], task["starts"][0]["started"]);
    EXPECT_LE(task["starts"][0]["started"], task["starts"][0]["ended"]);
  }
}

TEST(RunRecord, TheLastWordsOfATaskThatFailed) {
  RunOptions options{.command = {"/bin/sh", "-c", "echo 'error: no data' >&2; exit 2"}};
  RunRecord record({"muster", "run"});
  record.watch(options);
  EXPECT_EQ(run(options), 2);
  const json read = json::parse(record.to_json(2));
  ASSERT_EQ(read["tasks"].size(), 1U);
  EXPECT_EQ(read["tasks"][0]["starts"][0]["error"], "error: no data");
  EXPECT_EQ(read["tasks"][0]["starts"][0]["code"], 2);
}

}  // namespace
}  // namespace muster::inline v0_1::launch
