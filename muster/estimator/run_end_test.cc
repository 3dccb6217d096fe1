#include "muster/estimator/run_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

// Ends the run after a step, and notes whether the end of the run before can still be read.
class LooksForAnEnd : public Hook {
 public:
  LooksForAnEnd(std::string model_dir, int64_t stop_at, bool fail)
      : model_dir_(std::move(model_dir)), stop_at_(stop_at), fail_(fail) {}
  void after_step(const StepInfo& info) override {
    found |= read_run_end(model_dir_).has_value();
    if (info.global_step < stop_at_) return;
    if (fail_) throw invalid_argument("this hook fails");
    info.control.request_stop();
  }
  bool found = false;

 private:
  std::string model_dir_;
  int64_t stop_at_;
  bool fail_;
};

TEST(RunEndTest, SaysWhyAndWhereTheLastRunEnded) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  EXPECT_FALSE(read_run_end(model_dir));
  Estimator estimator(two_layers, quiet_config(model_dir));
  estimator.train(shuffled_batches(64, 8), {.steps = 3});
  EXPECT_EQ(read_run_end(model_dir), (RunEnd{EndReason::kSteps, 3}));
  estimator.train(shuffled_batches(64, 8), {.max_steps = 5});
  EXPECT_EQ(read_run_end(model_dir), (RunEnd{EndReason::kMaxSteps, 5}));
  estimator.train(shuffled_batches(64, 8), {.max_steps = 4});
  EXPECT_EQ(read_run_end(model_dir), (RunEnd{EndReason::kMaxSteps, 5}));
  const auto stops = std::make_shared<LooksForAnEnd>(model_dir, 7, false);
  estimator.train(shuffled_batches(64, 8), {.max_steps = 20, .hooks = {stops}});
  EXPECT_EQ(read_run_end(model_dir), (RunEnd{EndReason::kHook, 7}));
  EXPECT_FALSE(stops->found) << "while a run goes on there is no end";
  RunConfig config = quiet_config(model_dir);
  config.restart_input = true;
  Estimator(two_layers, config).train(shuffled_batches(16, 8, 1), {.max_steps = 20});
  EXPECT_EQ(read_run_end(model_dir), (RunEnd{EndReason::kEndOfInput, 9}));
}

TEST(RunEndTest, ARunThatFailsLeavesNone) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Estimator estimator(two_layers, quiet_config(model_dir));
  estimator.train(shuffled_batches(64, 8), {.steps = 3});
  const auto fails = std::make_shared<LooksForAnEnd>(model_dir, 5, true);
  EXPECT_THAT(
      error_of([&] { estimator.train(shuffled_batches(64, 8), {.hooks = {fails}}); }).what(),
      HasSubstr("this hook fails"));
  EXPECT_FALSE(read_run_end(model_dir));
}

TEST(RunEndTest, TextThatIsNoEndIsRefused) {
  TempDirectory directory;
  for (const char* text :
       {"{\"reason\": ", "[]", "{\"reason\": \"max_steps\"}", "{\"reason\": 3, \"global_step\": 3}",
        "{\"reason\": \"max_steps\", \"global_step\": 1.5}",
        "{\"reason\": \"tired\", \"global_step\": 3}",
        "{\"reason\": \"hook\", \"global_step\": 3, \"run\": 4}"}) {
    const std::string path = directory / "run_end.json";
    local_file_system().write_atomically(path, std::string_view(text)).value();
    const Error error = error_of([&] { (void)read_run_end(directory.path()); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << text;
    EXPECT_THAT(error.message(), HasSubstr(path)) << text;
  }
  write_run_end(directory.path(), {EndReason::kEndOfInput, 12});
  EXPECT_EQ(read_run_end(directory.path()), (RunEnd{EndReason::kEndOfInput, 12}));
  EXPECT_EQ(local_file_system().read_file(directory / "run_end.json").value(),
            "{\"global_step\":12,\"reason\":\"end_of_input\"}\n");
  write_run_end(directory.path(), {EndReason::kSteps, 3, "this start"});
  EXPECT_EQ(read_run_end(directory.path()), (RunEnd{EndReason::kSteps, 3, "this start"}));
  remove_run_end(directory.path());
  EXPECT_FALSE(read_run_end(directory.path()));
  remove_run_end(directory.path());
}

}  // namespace
}  // namespace muster::inline v0_1
