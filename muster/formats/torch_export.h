// Writes the weights of a checkpoint as a state dict of PyTorch, with the names and layouts of
// PyTorch's modules.
// Thread safety: a free function.
//
// - State of optimizers, global_step, and values of single replicas ("<variable>/replicas") are
//   left out.
// - A common first part of all variable names ("net/") is removed; every other '/' becomes '.':
//   "net/fc/weight" is "fc.weight".
// - Layers of Muster have Keras's names and layouts. `kernel`, [..., in, out], becomes `weight`,
//   [out, in, ...], which is that of Linear, Conv and ConvTranspose (where Keras has [..., out, in]
//   and PyTorch [in, out, ...]); `embeddings` and `gamma` become `weight`, `beta` `bias`,
//   `moving_mean` `running_mean`, and `moving_variance` `running_var`.
// - A kernel with a recurrent_kernel, and those of attention (query, key, value, attention_output),
//   have no counterpart with the same layout: they keep name and layout. So does every other name,
//   such as that of a LibTorch module, which is already PyTorch's.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// One exported tensor.
struct TorchExported {
  std::string name{};            // in the checkpoint
  std::string torch_name{};      // in the state dict
  std::vector<int64_t> shape{};  // as exported
  bool transposed = false;       // the layout differs from the checkpoint's
};

// Writes the variables of the checkpoint in `file`, a .safetensors file, to `path`, replacing an
// existing file in one step. Returns them in the order of their names. Returns NotFound for a
// missing and Corrupt for a damaged file; InvalidArgument when it holds no variable or two would
// get the same name; and the errors of write_torch_state_dict().
MUSTER_EXPORT Result<std::vector<TorchExported>> export_torch(FileSystem& files,
                                                              const std::string& file,
                                                              const std::string& path);

}  // namespace muster::inline v0_1::formats
