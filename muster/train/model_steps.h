// The use of a model function's context by its drivers: they announce each step, and look at the
// models that the function named. Thread safety: as the context.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

// Called before every call of the model function. `batch` is its place among the batches of one
// update.
void begin_step(ModelContext& context, int64_t global_step, int64_t replica, int64_t batch = 0);

// The models that were called so far, by name, in no order.
const std::unordered_map<std::string, NamedModel>& models_of(const ModelContext& context);

}  // namespace muster::inline v0_1::internal
