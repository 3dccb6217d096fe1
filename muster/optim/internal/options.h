// Optimizers share these checks of their options, so that their messages read alike.
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "muster/base/error.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim::internal {

// Makes "sgd: momentum is 1.5 | momentum must be between 0 and 1".
Error bad_option(const char* optimizer, const char* field, double value, const char* range);

// Each throws bad_option() for a value out of range, and for NaN.
// A number is finite and at least 0; a schedule is checked when it gives its rates.
void check_learning_rate(const char* optimizer, const LearningRate& value);
void check_positive(const char* optimizer, const char* field, double value);      // finite, > 0
void check_not_negative(const char* optimizer, const char* field, double value);  // finite, >= 0
void check_decay_rate(const char* optimizer, const char* field, double value);    // in [0, 1)
void check_at_least(const char* optimizer, const char* field, int64_t value, int64_t least);

}  // namespace muster::inline v0_1::optim::internal
