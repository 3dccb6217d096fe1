// Moves the rows of a variable from their places in one vocabulary to their places in another.
// Thread safety: a free function.
#pragma once

#include <cstdint>

#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/checkpoint/vocab_info.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// A value, and how many of its tokens were found.
struct Remapped {
  Tensor value{};
  int64_t words_found = 0;  // in the old vocabulary
  int64_t words = 0;
};

// Returns a value for the variable `spec` from `old`, the checkpoint's. backup_initializer draws
// with `key`. Throws InvalidArgument naming both shapes if they do not fit the vocabularies, and
// for vocabularies that are too short or name a word twice; NotFound for a missing file.
Remapped remap_vocabulary(FileSystem& fs, const VocabInfo& info, const VariableSpec& spec,
                          const Tensor& old, RandomKey key);

}  // namespace muster::inline v0_1::internal
