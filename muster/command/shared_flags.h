// The flags that Muster's programs share: run_main() parses them, and `muster completion` completes
// them. Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/command/flag.h"

namespace muster::inline v0_1 {

// The values of these flags. ProgramOptions sets a program's own defaults. Numbers except the seed
// must be more than 0.
struct Flags {
  std::string data_dir{};
  std::string model_dir{};
  int64_t epochs = 1;                  // passes over the training data; at most 1e9
  std::optional<int64_t> max_steps{};  // instead of epochs
  int64_t batch_size = 64;             // examples per step, over all workers; at most 2^31 - 1
  double learning_rate = 0.01;
  uint64_t seed = 0;
  std::optional<int64_t> save_checkpoints_steps{};
  bool trace = false;  // print where a step's time goes
};

}  // namespace muster::inline v0_1

namespace muster::inline v0_1::command {

// Returns a Flag for each field of `flags`, which must outlive them. A program uses the flags that
// it names in ProgramOptions::uses, or all.
MUSTER_EXPORT std::vector<Flag> shared_flags(Flags& flags);
// Returns the flag --log_format, which every program takes.
MUSTER_EXPORT Flag log_format_flag(std::string& log_format);

}  // namespace muster::inline v0_1::command
