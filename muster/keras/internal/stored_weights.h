// The weights of a file or checkpoint, of any format that the program reads, by the names that a
// model has for them. Thread safety: a free function.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/formats/graph_def.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::keras::internal {

struct StoredWeights {
  std::string file{};                       // how messages call it
  std::vector<std::string> names{};         // of all that it holds, sorted
  std::map<std::string, Tensor> tensors{};  // what the model has a variable for
};

// Reads `path`: a .safetensors file, a checkpoint's prefix, a model_dir, of which it is the newest
// one, or a file of a registered format. A file that knows layers by their class alone
// (kLayersByClass) gives its weights to the layers of `graph` of this class in turn; one that
// numbers the weights of a layer ("mine/0"), to the layer's variables in the order in which they
// were made. Throws NotFound, Corrupt, and what the format throws.
StoredWeights read_stored_weights(FileSystem& files, const std::string& path,
                                  const std::vector<VariableSpec>& variables,
                                  const std::optional<formats::GraphDef>& graph);

}  // namespace muster::inline v0_1::keras::internal
