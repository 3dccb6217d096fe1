// The weights of a checkpoint as a state dict of PyTorch, under the names and in the layouts that
// modules of PyTorch have.
// Thread safety: a free function.
//
// - What optimizers keep, global_step, and the values that each replica has of its own
//   ("<variable>/replicas") are left out.
// - Where the names of all variables begin with the same part ("net/"), it is taken away; the other
//   '/' become '.': "net/fc/weight" is "fc.weight".
// - Layers of Muster have Keras's names and layouts. `kernel`, [..., in, out], becomes `weight`,
//   [out, in, ...], which is that of Linear, Conv and ConvTranspose (where Keras has [..., out, in]
//   and PyTorch [in, out, ...]); `embeddings` and `gamma` become `weight`, `beta` `bias`,
//   `moving_mean` `running_mean`, and `moving_variance` `running_var`.
// - A kernel with a recurrent_kernel beside it, and those of attention (query, key, value,
//   attention_output), have no counterpart of the same layout: they keep name and layout. So does
//   every other name, also that of a module of LibTorch, which is PyTorch's already.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// A tensor that was exported.
struct TorchExported {
  std::string name{};            // in the checkpoint
  std::string torch_name{};      // in the state dict
  std::vector<int64_t> shape{};  // as exported
  bool transposed = false;       // the layout is another one than in the checkpoint
};

// Writes the variables of the checkpoint in `file`, a .safetensors file, to `path`, replacing what
// was there at once, and returns them in the order of their names. Returns NotFound and Corrupt for
// a file that is missing or damaged; InvalidArgument when it holds no variable, when two would get
// the same name, and what write_torch_state_dict() returns.
MUSTER_EXPORT Result<std::vector<TorchExported>> export_torch(FileSystem& files,
                                                              const std::string& file,
                                                              const std::string& path);

}  // namespace muster::inline v0_1::formats
