// A state dict in PyTorch's file format, as torch.save() writes one: a zip archive with a pickle
// (protocol 2) of a dict and an entry for the bytes of each tensor. torch.load() in Python and
// torch::pickle_load() in C++ read it. Thread safety: a pure function except for the sink.
#pragma once

#include <span>

#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/formats/safetensors.h"

namespace muster::inline v0_1::formats {

// Writes the tensors in this order. Returns InvalidArgument for a dtype that PyTorch has no storage
// for, a name given twice or that is not UTF-8, data that do not fill the shape, and for 4 GiB or
// more; the file is then not complete.
Status write_torch_state_dict(ByteSink& sink, std::span<const TensorView> tensors);

}  // namespace muster::inline v0_1::formats
