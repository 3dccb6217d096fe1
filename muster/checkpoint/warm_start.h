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

// What a warm start did; the log has it too.
struct WarmStartReport {
  // A variable that has a value of the checkpoint now.
  struct Taken {
    std::string name{};
    std::string previous_name{};  // in the checkpoint
    // With a VocabInfo: how many words have their row of the checkpoint, and how many there are.
    int64_t words_found = 0;
    int64_t words = 0;
  };
  std::string checkpoint{};  // the prefix the values are from
  std::vector<Taken> taken{};
  std::vector<std::string> initialised{};  // the names of those that keep their initial values
};

// Takes rows, from row `begin` on, of a table whose rows are elsewhere: Variable::is_elsewhere().
using WriteRows = std::function<void(const Variable& table, int64_t begin, const Tensor& rows)>;

// Reads what `settings` choose, writes it into `variables`, and says so in the log. `seed` is the
// run's, for what a backup_initializer draws. Rows of tables that are elsewhere go to `write_rows`,
// a few MB at a time; of a table with a vocabulary, all at once. Throws NotFound when there is no
// checkpoint, or a vocabulary file is not there; Corrupt when what is read is damaged;
// InvalidArgument for settings that validate() refuses, for names that are no variable, a pattern
// that matches none, a vocabulary that has fewer words than its size or names one twice, and,
// listing all of them with what the checkpoint holds instead, for variables that do not fit.
WarmStartReport warm_start(FileSystem& fs, const WarmStartSettings& settings,
                           VariableStore& variables, uint64_t seed,
                           const WriteRows& write_rows = {});

}  // namespace muster::inline v0_1
