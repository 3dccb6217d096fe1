// Gives variables of a new model the values they have in a checkpoint of another run. Optimizers,
// the step and the place in the input begin again.
// Thread safety: a free function; it writes the variables it is given.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

// The result of a warm start; the log has it too.
struct WarmStartReport {
  // A variable that has a value of the checkpoint now.
  struct Taken {
    std::string name{};
    std::string previous_name{};  // in the checkpoint
    // With a VocabInfo: how many tokens have their row of the checkpoint, and how many there are.
    int64_t words_found = 0;
    int64_t words = 0;
  };
  std::string checkpoint{};  // the prefix the values are from
  std::vector<Taken> taken{};
  std::vector<std::string> initialised{};  // the names of variables that keep their initial values
};

// Writes rows, from row `begin` on, of a table in other processes: Variable::is_elsewhere().
using WriteRows = std::function<void(const Variable& table, int64_t begin, const Tensor& rows)>;

// Reads what `settings` choose, writes it into `variables`, and says so in the log. `seed` is the
// run's, for the draws of a backup_initializer. Rows of tables in other processes go to
// `write_rows`, a few MB at a time; rows of a table with a vocabulary all at once. Throws NotFound
// if there is no checkpoint, or a vocabulary file is missing; Corrupt if the read data is damaged;
// InvalidArgument for settings that validate() refuses, for names that are not variable, a pattern
// that matches none, a vocabulary that has fewer words than its size or names one twice, and,
// listing all of them with the checkpoint's shapes, for variables that do not fit.
WarmStartReport warm_start(FileSystem& fs, const WarmStartSettings& settings,
                           VariableStore& variables, uint64_t seed,
                           const WriteRows& write_rows = {});

}  // namespace muster::inline v0_1
