// Moves the rows of a variable from the places one vocabulary gave them to those of another.
// Thread safety: a free function.
#pragma once

#include <cstdint>

#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/checkpoint/vocab_info.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// A value with the words it is made for.
struct Remapped {
  Tensor value{};
  int64_t words_found = 0;  // in the old vocabulary
  int64_t words = 0;
};

// Gives a value for the variable `spec` from `old`, the checkpoint's. `key` is what
// backup_initializer draws with. Throws InvalidArgument naming both shapes where they and the
// vocabularies do not go together, and for vocabularies that are too short or name a word twice;
// NotFound for a file that is not there.
Remapped remap_vocabulary(FileSystem& fs, const VocabInfo& info, const VariableSpec& spec,
                          const Tensor& old, RandomKey key);

}  // namespace muster::inline v0_1::internal
