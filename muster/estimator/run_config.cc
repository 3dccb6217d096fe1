#include "muster/estimator/run_config.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

template <typename T>
void require(bool holds, const char* field, const T& value, const char* rule) {
  if (!holds)
    throw invalid_argument(fmt::format("RunConfig.{} is {}; it must be {}", field, value, rule));
}

}  // namespace

void RunConfig::validate() const {
  require(accumulate_steps >= 1, "accumulate_steps", accumulate_steps, "1 or more");
  require(save_summary_steps >= 0, "save_summary_steps", save_summary_steps, "0 or more");
  if (save_checkpoints_steps) {
    require(*save_checkpoints_steps >= 0, "save_checkpoints_steps", *save_checkpoints_steps,
            "0 or more");
  }
  if (save_checkpoints_secs) {
    require(save_checkpoints_secs->count() >= 0, "save_checkpoints_secs",
            save_checkpoints_secs->count(), "0 or more");
  }
  if (save_checkpoints_steps && save_checkpoints_secs) {
    throw invalid_argument(
        fmt::format(
            "RunConfig sets both save_checkpoints_steps ({}) and save_checkpoints_secs ({})",
            *save_checkpoints_steps, save_checkpoints_secs->count()),
        "set one of the two; in a copy of another RunConfig, set the other to std::nullopt");
  }
  require(keep_checkpoint_max >= 0, "keep_checkpoint_max", keep_checkpoint_max,
          "0 (keep all) or more");
  require(keep_checkpoint_every_n_hours.count() > 0, "keep_checkpoint_every_n_hours",
          keep_checkpoint_every_n_hours.count(), "more than 0");
  if (keep_best) {
    require(keep_best->count >= 1, "keep_best.count", keep_best->count, "1 or more");
    require(!keep_best->metric.empty(), "keep_best.metric", "\"\"", "the name of a metric");
    (void)keep_best->higher();
  }
  require(log_step_count_steps > 0, "log_step_count_steps", log_step_count_steps, "more than 0");
  require(join_timeout.count() > 0, "join_timeout", join_timeout.count(), "more than 0");
  require(min_workers >= 0, "min_workers", min_workers, "0 (not elastic) or more");
  require(evaluator_timeout.count() > 0, "evaluator_timeout", evaluator_timeout.count(),
          "more than 0");
  require(watchdog == Seconds(0) || watchdog >= Seconds(1), "watchdog", watchdog.count(),
          "0 (off), or 1 or more");
  require(max_failed_saves.value_or(0) >= 0, "max_failed_saves", max_failed_saves.value_or(0),
          "0 or more");
  require(non_finite_limit >= 0, "non_finite_limit", non_finite_limit, "0 or more");
  if (non_finite == NonFinitePolicy::kRollBack &&
      (save_checkpoints_steps == 0 || save_checkpoints_secs == Seconds(0))) {
    throw invalid_argument(
        "RunConfig.non_finite is kRollBack, and there are no checkpoints to go back to",
        "set save_checkpoints_steps or save_checkpoints_secs to more than 0, or choose kSkip");
  }
  if (warm_start_from) warm_start_from->settings().validate();
  if (eval_distribute && eval_distribute->multi_worker() && train_distribute &&
      !train_distribute->multi_worker()) {
    throw invalid_argument(
        fmt::format("not supported: RunConfig.eval_distribute = {} with train_distribute = {}",
                    eval_distribute->name(), train_distribute->name()),
        "set both to distribute::multi_worker_mirrored(), or leave eval_distribute unset");
  }
}

}  // namespace muster::inline v0_1
