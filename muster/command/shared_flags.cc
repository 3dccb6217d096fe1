#include "muster/command/shared_flags.h"

namespace muster::inline v0_1::command {

std::vector<Flag> shared_flags(Flags& flags) {
  const FlagLimits positive{.more_than = 0};
  return {
      {"data_dir", &flags.data_dir, "Folder of the data set: a path or a URI", {}, "DIR"},
      {"model_dir",
       &flags.model_dir,
       "Folder for checkpoints and TensorBoard events; a run continues from the newest checkpoint "
       "in it",
       {},
       "DIR"},
      // The numbers are bounded so that programs can multiply them.
      {"epochs",
       &flags.epochs,
       "Number of passes over the training data",
       {.more_than = 0, .at_most = 1e9}},
      {"max_steps", &flags.max_steps, "Train until this global step; overrides --epochs", positive},
      {"batch_size",
       &flags.batch_size,
       "Number of examples in one step, over all replicas",
       {.more_than = 0, .at_most = 2147483647}},
      {"learning_rate", &flags.learning_rate, "Learning rate of the optimizer", positive},
      {"seed", &flags.seed,
       "Seed of a new run's initial values, shuffles and dropout; the same seed gives the same "
       "bits"},
      {"save_checkpoints_steps",
       &flags.save_checkpoints_steps,
       "Steps between two saves, each followed by an evaluation; 0: no saves",
       {.at_least = 0}},
      {"trace", &flags.trace, "Print the time of each part of a step when training ends"},
  };
}

Flag log_format_flag(std::string& log_format) {
  return {.name = "log_format",
          .value = &log_format,
          .help = "Format of the log: text, or json (one JSON object per line, for programs)",
          .choices = {"text", "json"}};
}

}  // namespace muster::inline v0_1::command
