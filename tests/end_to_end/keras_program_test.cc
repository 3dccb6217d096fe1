// A program with a Keras model, as a user runs it: on workers, stopped and started again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Words program(const std::string& model_dir, int epochs) {
  return {binary("keras_mnist"), "--data_dir=" + digits(), "--model_dir=" + model_dir,
          "--epochs=" + std::to_string(epochs)};
}

json result(const Ran& ran) { return json::parse(result_of(ran)); }

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

TEST(KerasProgram, WorkersTrainOneModelAndTheChiefSavesIt) {
  const TempDirectory directory;
  const Ran ran = run(muster_run({"--workers=2"}, program(directory / "model", 2)));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_GT(result(ran).at("accuracy").get<double>(), 0.8) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr("[worker 0] I "), HasSubstr("epoch 2/2"),
                                Not(HasSubstr("[worker 1] result: "))));
  EXPECT_EQ(names_in(directory / "model"),
            (std::set<std::string>{"digits.safetensors", "export", "history.svg", "logs"}));
}

// With dropout two workers draw other numbers than one; a run that was stopped draws the same.
TEST(KerasProgram, WhatCtrlCStoppedGoesOnWithTheSameBits) {
  const TempDirectory directory;
  const Ran whole = run(muster_run({"--workers=2"}, program(directory / "whole", 8)));
  {
    Program stopped(muster_run({"--workers=2"}, program(directory / "stopped", 8)));
    stopped.wait_for("epoch 1/8");
    stopped.signal(SIGINT);
    EXPECT_EQ(stopped.wait(), 130) << stopped.output();
    EXPECT_THAT(stopped.output(), HasSubstr("stopped by Ctrl-C after saving step"));
  }
  const Ran again = run(muster_run({"--workers=2"}, program(directory / "stopped", 8)));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("fit goes on at"));
  EXPECT_EQ(result(again), result(whole)) << again.output << whole.output;
}

}  // namespace
}  // namespace muster::testing
