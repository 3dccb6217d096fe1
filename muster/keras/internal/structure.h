// Which values of a batch are the inputs of a model, and which belong to which of its outputs.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/layers/layer_values.h"
#include "muster/tensor/features.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::keras::internal {

// The inputs of the names `names`, in their order: entries of a dict, parts of a tuple in the order
// of the names, or, of one input, the only tensor. Throws InvalidArgument that lists the model's
// inputs and the data's.
LayerInputs inputs_of(const Features& features, const std::vector<std::string>& names);

// The tensor of output `index` of the outputs `names`: labels, or weights (`what` says which). For
// several outputs it is an entry of a dict, or a part of a tuple; for one output the only tensor.
// With `shared` a single tensor serves every output, and an undefined view gives an undefined
// tensor. Throws InvalidArgument as inputs_of() does.
Tensor part_of(const ElementView& view, const std::vector<std::string>& names, size_t index,
               const char* what, bool shared = false);

}  // namespace muster::inline v0_1::keras::internal
