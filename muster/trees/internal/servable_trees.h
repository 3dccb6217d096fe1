// Trees as a function of tensors, which TorchScript holds. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "muster/export/write_servable.h"
#include "muster/trees/ensemble.h"
#include "muster/trees/internal/read_features.h"

namespace muster::inline v0_1::trees {

// The source for write_servable(). Every example goes down all trees at once, a layer a step.
// Throws InvalidArgument for a receiver that does not have the features of the ensemble.
ServableSource servable_of(const Ensemble& ensemble, const InputForm& form,
                           const ServingInputReceiver& receiver, int64_t global_step,
                           const std::string& checkpoint);

}  // namespace muster::inline v0_1::trees
