#include "muster/program/leave_reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const Error kError = invalid_argument("the rate is -1", "make it more than 0");

TEST(LeaveReason, AsTorchrunReadsIt) {
  const TempDirectory directory;
  const std::string file = directory / "error.json";
  leave_reason(kError, Environment({{"TORCHELASTIC_ERROR_FILE", file}}));
  const auto message = nlohmann::json::parse(text_of(file)).at("message");
  EXPECT_EQ(message.at("message"), "the rate is -1");
  EXPECT_THAT(message.at("extraInfo").at("py_callstack").get<std::string>(),
              HasSubstr("make it more than 0"));
  EXPECT_GT(std::stoll(message.at("extraInfo").at("timestamp").get<std::string>()), 0);
}

TEST(LeaveReason, AsSageMakerShowsIt) {
  const TempDirectory directory;
  leave_reason(kError, Environment({{"SM_OUTPUT_DIR", directory.path()}}));
  EXPECT_FALSE(std::filesystem::exists(directory / "failure"));
  leave_reason(kError,
               Environment({{"SM_OUTPUT_DIR", directory.path()}, {"TRAINING_JOB_NAME", "j"}}));
  EXPECT_THAT(text_of(directory / "failure"), HasSubstr("the rate is -1"));
}

TEST(LeaveReason, IsSilentWhereNothingCanBeWritten) {
  leave_reason(kError, Environment());
  leave_reason(kError, Environment({{"TORCHELASTIC_ERROR_FILE", "/nowhere/at/all"}}));
}

}  // namespace
}  // namespace muster::inline v0_1
