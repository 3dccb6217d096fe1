// The optimizers' tensors in a checkpoint, found by name. Thread safety: pure functions of their
// arguments.
#pragma once

#include <optional>
#include <string>

#include "muster/checkpoint/checkpoint.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns "Adam" for the tensor "Adam/iterations", in which that optimizer counts its updates; and
// nothing for another tensor.
std::optional<std::string> optimizer_of_counter(const std::string& name, const Tensor& tensor);

// Puts the moving averages that optimizers keep of weights in the place of these weights; other
// variables stay as they are. `source` is how messages call the checkpoint. Throws InvalidArgument
// when it holds no average.
void use_moving_averages(Checkpoint& checkpoint, const std::string& source);

}  // namespace muster::inline v0_1
