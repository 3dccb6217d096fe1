// What optimizers keep in a checkpoint, found by its name.
// Thread safety: pure functions of what they are given.
#pragma once

#include <optional>
#include <string>

#include "muster/checkpoint/checkpoint.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Gives "Adam" for the tensor "Adam/iterations", in which that optimizer counts its updates; and
// nothing for another tensor.
std::optional<std::string> optimizer_of_counter(const std::string& name, const Tensor& tensor);

// Puts the moving averages that optimizers keep of weights in the place of these weights; other
// variables stay as they are. `source` is how messages call the checkpoint. Throws InvalidArgument
// when it holds no average.
void use_moving_averages(Checkpoint& checkpoint, const std::string& source);

}  // namespace muster::inline v0_1
