// Finds the lengths that a model takes on the axes that a request chooses the length of, by calling
// the model. Thread safety: values; plan_lengths() calls the model on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/export/internal/description.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// The lengths of the groups of axes.
using GroupLengths = std::vector<int64_t>;

// Axes that have one length together, because the model takes no others, form a group.
struct LengthPlan {
  size_t axes = 0;                      // of all groups
  std::vector<std::vector<size_t>> of;  // by group: the places of its axes in free_axes()
  std::vector<LengthRange> ranges{};    // by group
  GroupLengths base{};                  // the first length that the model is traced with
  GroupLengths other{}, third{};        // two others; the third is `other` if there are no more
  GroupLengths far{};                   // the greatest length on which the export is compared

  // Returns the length of each axis, in the order of free_axes().
  std::vector<int64_t> by_axis(const GroupLengths& lengths) const;
  // Returns `axis 1 of the feature "x"`, with all axes of the group.
  std::string name_of(size_t group) const;
};

// Calls the model on a batch, and returns its outputs.
using ModelCall = std::function<std::vector<Tensor>(const std::map<std::string, Tensor>& features)>;

// Without free axes the plan is empty and `call` is not called. A length at which an output has NaN
// or infinity, and had none at the first length, is not taken. Throws the model's error if it
// takes none of the lengths of first_lengths(), and InvalidArgument, naming the axis, if it takes
// only one length.
LengthPlan plan_lengths(const ServingInputReceiver& receiver, const ModelCall& call);

}  // namespace muster::inline v0_1::internal
