#include "muster/train/internal/run_settings.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace muster::inline v0_1 {
namespace {

template <typename Number>
std::string text_of(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "unset";
}

}  // namespace

distribute::Settings settings_of(const TrainerOptions& options, uint64_t seed) {
  return {{"seed", std::to_string(seed)},
          {"steps", text_of(options.steps)},
          {"max_steps", text_of(options.max_steps)},
          {"accumulate_steps", std::to_string(options.accumulate_steps)},
          {"save_checkpoints_steps", text_of(options.save_checkpoints_steps)},
          {"save_checkpoints_secs", text_of(options.save_checkpoints_secs)},
          {"asynchronous_saves", options.asynchronous_saves ? "set" : "unset"},
          {"metrics_every_steps", std::to_string(options.metrics_every_steps)},
          {"summary_every_steps", std::to_string(options.summary_every_steps)},
          {"non_finite", std::string(to_string(options.non_finite))},
          {"non_finite_limit", std::to_string(options.non_finite_limit)},
          // Workers of an elastic run have it until they have trained.
          {"restart_input", options.restart_input && !options.start.elastic ? "set" : "unset"},
          {"audit", options.audit ? "set" : "unset"},
          {"params", options.params->dump()}};
}

RunSavesOptions saves_of(const TrainerOptions& options) {
  return {.model_dir = options.model_dir,
          .manager = {.fs = options.fs,
                      .clock = options.clock,
                      .keep_checkpoint_max = options.keep_checkpoint_max,
                      .keep_checkpoint_every_n_hours = options.keep_checkpoint_every_n_hours,
                      .keep = options.keep_checkpoint},
          .every_steps = options.save_checkpoints_steps,
          .every_seconds = options.save_checkpoints_secs,
          .max_failed_saves = options.max_failed_saves,
          .asynchronous = options.asynchronous_saves,
          .cancelled = options.start.cancelled};
}

}  // namespace muster::inline v0_1
