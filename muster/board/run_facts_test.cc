#include "muster/board/run_facts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::board {
namespace {

TEST(RunFacts, CheckpointsExportsAndTheEnd) {
  const TempDirectory folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string path = folder / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    local_file_system().write_atomically(path, text).value();
  };
  write("checkpoint", "model_checkpoint_path: \"model.ckpt-20\"\n");
  write("model.ckpt-3.safetensors", "12345");
  write("model.ckpt-20.index", "123");
  write("model.ckpt-20.data-00000-of-00001", "1234");
  write("model.ckpt-x", "");
  write("run_end.json", R"({"reason": "max_steps", "global_step": 20})");
  write("evaluations.jsonl", "{\"name\": \"eval\", \"metrics\": {\"loss\": 1}}\ndamaged\n");
  write("report/report.md", "# people");
  write("report/metrics.csv", "a,b\n");
  write("export/best/7/signatures.json", "{}");
  write("export/best/12/signatures.json", "{}");
  write("export/last/1/saved_model.pb", "");
  const nlohmann::json facts = run_facts(local_file_system(), folder.path());
  ASSERT_EQ(facts["checkpoints"].size(), 2U);
  EXPECT_EQ(facts["checkpoints"][0]["name"], "model.ckpt-20");
  EXPECT_EQ(facts["checkpoints"][0]["bytes"], 7);
  EXPECT_EQ(facts["checkpoints"][0]["newest"], true);
  EXPECT_EQ(facts["checkpoints"][1]["newest"], false);
  EXPECT_EQ(facts["end"]["reason"], "max_steps");
  EXPECT_EQ(facts["report"]["text"], "# people");
  EXPECT_EQ(facts["report"]["tables"], nlohmann::json({{"metrics", "a,b\n"}}));
  ASSERT_EQ(facts["evaluations"].size(), 1U);
  ASSERT_EQ(facts["exports"].size(), 2U);
  EXPECT_EQ(facts["exports"][0]["versions"], 2);
  EXPECT_EQ(facts["exports"][0]["commands"][0], "muster serve " + folder.path() + "/export/best");
  EXPECT_EQ(facts["exports"][0]["newest"], folder / "export/best/12");
  EXPECT_TRUE(facts["exports"][1]["commands"].empty()) << "not an export of Muster";
  EXPECT_EQ(facts["commands"].size(), 2U);
}

TEST(RunFacts, AFolderThatIsGoneHasNone) {
  const nlohmann::json facts = run_facts(local_file_system(), "/nonexistent");
  EXPECT_TRUE(facts["checkpoints"].empty());
  EXPECT_TRUE(facts["end"].is_null());
}

TEST(RunFacts, WordsOfAShell) {
  EXPECT_EQ(shell_word("s3://bucket/run_1"), "s3://bucket/run_1");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("$(x)'y"), "'$(x)'\\''y'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace muster::inline v0_1::board
