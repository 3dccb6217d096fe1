#include "muster/board/epoch_axis.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/temp_directory.h"
#include "muster/board/internal/test_events.h"

namespace muster::inline v0_1::board {
namespace {

TEST(EpochAxis, TheScalarEpochSaysItOrTheStepsInAnEpoch) {
  const TempDirectory folder;
  const std::string path = folder / kTestFile;
  append_to(path, record_at(10, {{"epoch", 0.0F}}) + record_at(20, {{"epoch", 1.0F}}) +
                      record_at(30, {{"epoch", 1.0F}}) + record_at(40, {{"epoch", 3.0F}}));
  RunData run(local_file_system(), folder.path());
  run.set_file(path, std::filesystem::file_size(path));
  while (run.read()) {
  }
  const EpochAxis said(run, {});
  ASSERT_TRUE(said.is_known());
  EXPECT_EQ(said.at(0), 0);
  EXPECT_EQ(said.at(15), 0.5);
  EXPECT_EQ(said.at(20), 1);
  EXPECT_EQ(said.at(35), 2);
  EXPECT_EQ(said.at(50), 3);
  EXPECT_EQ(said.steps(1.5, 2.5), std::pair(std::optional(30.0), std::optional(40.0)));
  EXPECT_EQ(said.steps({}, 5), std::pair(std::optional<double>(), std::optional<double>()));
  const EpochAxis given(run, 5);
  EXPECT_EQ(given.at(15), 3);
  EXPECT_EQ(given.steps(1, 2), std::pair(std::optional(5.0), std::optional(10.0)));
  EXPECT_FALSE(EpochAxis(RunData(local_file_system(), "none"), {}).is_known());
}

}  // namespace
}  // namespace muster::inline v0_1::board
