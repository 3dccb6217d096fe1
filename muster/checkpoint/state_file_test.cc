#include "muster/checkpoint/internal/state_file.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::internal {
namespace {

TEST(CheckpointState, WritesTensorFlowsText) {
  const CheckpointState state{
      .latest = "model.ckpt-20",
      .all = {{"model.ckpt-10", 1700000000.25}, {"model.ckpt-20", 1700000060}},
      .last_preserved = 1700000000,
      .retired = {"model.ckpt-5"}};
  EXPECT_EQ(state.to_text(),
            "model_checkpoint_path: \"model.ckpt-20\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-10\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-20\"\n"
            "all_model_checkpoint_timestamps: 1700000000.25\n"
            "all_model_checkpoint_timestamps: 1700000060\n"
            "last_preserved_timestamp: 1700000000\n"
            "# retired: \"model.ckpt-5\"\n");
}

TEST(CheckpointState, RoundTripsAnyName) {
  CheckpointState state{
      .latest = "a \"b\" \\ \n \x01 \xc3\xa9", .all = {{"x#y: z", 0.1}}, .retired = {"\"q'"}};
  EXPECT_EQ(CheckpointState::parse(state.to_text()).value(), state);
}

TEST(CheckpointState, ReadsWhatOthersWrite) {
  const char* text =
      "# a comment\n"
      "model_checkpoint_path:   'model.ckpt-7'\r\n"
      "\n"
      "  all_model_checkpoint_paths: \"\\141/\\x62\"\n"
      "a_field_of_tomorrow: 12\n"
      "all_model_checkpoint_timestamps: 1.5e9\n"
      "last_preserved_timestamp: 3";
  const CheckpointState state = CheckpointState::parse(text).value();
  EXPECT_EQ(state.latest, "model.ckpt-7");
  ASSERT_EQ(state.all.size(), 1u);
  EXPECT_EQ(state.all[0], (CheckpointState::Entry{"a/b", 1.5e9}));
  EXPECT_EQ(state.last_preserved, 3);
}

TEST(CheckpointState, TimestampsThatDoNotPairAreUnknown) {
  const CheckpointState state =
      CheckpointState::parse(
          "model_checkpoint_path: \"b\"\nall_model_checkpoint_paths: \"a\"\n"
          "all_model_checkpoint_paths: \"b\"\nall_model_checkpoint_timestamps: 5\n")
          .value();
  EXPECT_EQ(state.all[0].timestamp, 0);
  EXPECT_EQ(state.all[1].timestamp, 0);
}

TEST(CheckpointState, DamageNamesTheLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1: no model_checkpoint_path"},
      {"all_model_checkpoint_paths: \"a\"\n", "line 2: no model_checkpoint_path"},
      {"model_checkpoint_path: \"a\"\njunk\n", "line 2: expected `field: value`: \"junk\""},
      {"model_checkpoint_path: \"a", "line 1: expected a quoted name"},
      {"model_checkpoint_path: a", "line 1: expected a quoted name"},
      {"model_checkpoint_path: \"\"", "line 1: expected a quoted name"},
      {"model_checkpoint_path: \"a\\", "line 1: expected a quoted name"},
      {"mod\x7f: \"a\"", "line 1: not a field name: \"mod\\177"},
      {"model_checkpoint_path: \"a\"\nlast_preserved_timestamp: 3x", "line 2: expected a number"},
  };
  for (const auto& [text, message] : cases) {
    auto parsed = CheckpointState::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
    EXPECT_NE(parsed.error().message().find(message), std::string::npos) << parsed.error().what();
  }
}

}  // namespace
}  // namespace muster::inline v0_1::internal
