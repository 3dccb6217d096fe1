// Batches to run a model on: from a file, or random ones. Thread safety: free functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/file_system.h"
#include "muster/export/servable.h"

namespace muster::app {

// What a batch of random numbers is made of.
struct RandomBatch {
  uint64_t seed = 1;
  int64_t rows = 8;
};

// Returns a batch for all inputs of a signature: floats from 0 to 1, integers 0 and 1, and true and
// false. An axis that requests choose has the length 7, 33 or 129, or the least that the model
// takes: the first with which `models` compute. Throws the error of the last length if none of them
// does.
Servable::Tensors random_batch(const std::vector<const Servable*>& models,
                               const std::string& signature, const RandomBatch& wanted);

// Reads the arrays of a file by their names: .npz, or a .safetensors that Muster wrote. Throws
// InvalidArgument ("not supported: ...") for another kind of file and for texts, and what reading
// throws.
Servable::Tensors read_batch(FileSystem& files, const std::string& path);

}  // namespace muster::app
