#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::quiet_config;
using testing::two_layers;

TEST(RunConfigTest, NamesTheFieldTheValueAndTheRule) {
  const std::pair<std::function<void(RunConfig&)>, const char*> cases[] = {
      {[](RunConfig& c) { c.save_summary_steps = -1; },
       "RunConfig.save_summary_steps is -1; it must be 0 or more"},
      {[](RunConfig& c) { c.save_checkpoints_steps = -5; },
       "RunConfig.save_checkpoints_steps is -5; it must be 0 or more"},
      {[](RunConfig& c) {
         c.save_checkpoints_steps = std::nullopt;
         c.save_checkpoints_secs = Seconds(-0.5);
       },
       "RunConfig.save_checkpoints_secs is -0.5; it must be 0 or more"},
      {[](RunConfig& c) { c.save_checkpoints_secs = std::chrono::minutes(1); },
       "RunConfig sets both save_checkpoints_steps (10) and save_checkpoints_secs (60)"},
      {[](RunConfig& c) { c.watchdog = Seconds(0.5); },
       "RunConfig.watchdog is 0.5; it must be 0 (off), or 1 or more"},
      {[](RunConfig& c) { c.max_failed_saves = -1; },
       "RunConfig.max_failed_saves is -1; it must be 0 or more"},
      {[](RunConfig& c) { c.keep_checkpoint_max = -1; },
       "RunConfig.keep_checkpoint_max is -1; it must be 0 (keep all) or more"},
      {[](RunConfig& c) { c.keep_checkpoint_every_n_hours = Seconds(0); },
       "RunConfig.keep_checkpoint_every_n_hours is 0; it must be more than 0"},
      {[](RunConfig& c) { c.keep_best = KeepBest{.count = 0}; },
       "RunConfig.keep_best.count is 0; it must be 1 or more"},
      {[](RunConfig& c) { c.keep_best = KeepBest{.metric = ""}; },
       "RunConfig.keep_best.metric is \"\"; it must be the name of a metric"},
      {[](RunConfig& c) { c.keep_best = KeepBest{.metric = "quality"}; },
       "RunConfig.keep_best.metric is \"quality\"; its name does not show whether higher or lower "
       "values are better"},
      {[](RunConfig& c) { c.accumulate_steps = 0; },
       "RunConfig.accumulate_steps is 0; it must be 1 or more"},
      {[](RunConfig& c) { c.warm_start_from = WarmStartSettings{}; }, "ckpt_to_initialize_from"},
      {[](RunConfig& c) { c.log_step_count_steps = 0; },
       "RunConfig.log_step_count_steps is 0; it must be more than 0"},
      {[](RunConfig& c) { c.join_timeout = Seconds(std::nan("")); },
       "RunConfig.join_timeout is nan; it must be more than 0"},
      {[](RunConfig& c) { c.evaluator_timeout = Seconds(0); },
       "RunConfig.evaluator_timeout is 0; it must be more than 0"},
      {[](RunConfig& c) {
         c.train_distribute = distribute::mirrored();
         c.eval_distribute = distribute::multi_worker_mirrored();
       },
       "not supported: RunConfig.eval_distribute = MultiWorkerMirrored with train_distribute = "
       "Mirrored"},
  };
  for (const auto& [change, message] : cases) {
    RunConfig config = quiet_config("m");
    change(config);
    const Error error = error_of([&] { Estimator estimator(two_layers, config); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(message));
  }
  EXPECT_THAT(error_of([] { Estimator estimator(nullptr, {}); }).message(),
              HasSubstr("needs a model function"));
  EXPECT_THAT(error_of([] { Estimator estimator(two_layers, {}, json::array()); }).message(),
              HasSubstr("JSON object"));
}

}  // namespace
}  // namespace muster::inline v0_1
