// The flags of `muster train`: the command checks them, and muster-train, which it becomes, reads
// them again. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/command/flag.h"

namespace muster::app {

struct TrainFlags {
  std::string csv{};
  std::string label{};
  std::string eval{};
  double eval_fraction = 0.2;
  std::string model = "auto";
  std::string task = "auto";
  std::string exclude{};
  std::string weight{};
  std::string positive{};
  std::string model_dir{};
  std::string predict{};
  std::string out{};
  std::string report{};
  std::optional<int64_t> trees{};
  std::optional<int64_t> epochs{};
  uint64_t seed = 0;
  std::string strategy = "multi_worker";
  std::string delimiter = "auto";
  bool header = true;
  bool quotes = true;
  std::string missing = "auto";
  std::string decimal = "auto";
};

// The word without a flag: the table. It may be left out with --predict.
Flag csv_argument(TrainFlags& flags);
// All flags but --log-format. `flags` must outlive them.
std::vector<Flag> train_flags(TrainFlags& flags);

// The first and the last lines of --help.
extern const char* const kTrainDescription;
extern const char* const kTrainExamples;

// Throws InvalidArgument for flags that do not go together, or lack one another.
void check_flags(const TrainFlags& flags);
// The model's directory: --model_dir, or the table's name with "_model" after it, in this folder.
std::string model_dir_of(const TrainFlags& flags);

}  // namespace muster::app
