// The use of a model function's context by its drivers: they announce each step, and look at the
// models that the function named. Thread safety: as the context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

// Called before every call of the model function. `batch` is its place among the batches of one
// update.
void begin_step(ModelContext& context, int64_t global_step, int64_t replica, int64_t batch = 0);

// The models that were called so far, by name, in no order.
const std::unordered_map<std::string, NamedModel>& models_of(const ModelContext& context);

// How many phases ModelContext::phase() was called with; 0: it was not called.
size_t phases_of(const ModelContext& context);
// Until the next call of it, phase() returns this one, whatever the step is; nothing: it follows
// the step again.
void build_phase(ModelContext& context, std::optional<size_t> phase);

}  // namespace muster::inline v0_1::internal
