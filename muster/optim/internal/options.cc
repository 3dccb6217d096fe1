#include "muster/optim/internal/options.h"

#include <fmt/format.h>

#include <cmath>

namespace muster::inline v0_1::optim::internal {

Error bad_option(const char* optimizer, const char* field, double value, const char* range) {
  return invalid_argument(fmt::format("{}: {} is {}", optimizer, field, value),
                          fmt::format("{} must be {}", field, range));
}

void check_learning_rate(const char* optimizer, const LearningRate& value) {
  if (value.is_constant()) check_not_negative(optimizer, "learning_rate", value.at(0));
}

void check_positive(const char* optimizer, const char* field, double value) {
  if (!std::isfinite(value) || value <= 0)
    throw bad_option(optimizer, field, value, "finite and above 0");
}

void check_not_negative(const char* optimizer, const char* field, double value) {
  if (!std::isfinite(value) || value < 0)
    throw bad_option(optimizer, field, value, "finite and at least 0");
}

void check_decay_rate(const char* optimizer, const char* field, double value) {
  if (!(value >= 0 && value < 1))
    throw bad_option(optimizer, field, value, "at least 0 and below 1");
}

void check_at_least(const char* optimizer, const char* field, int64_t value, int64_t least) {
  if (value < least)
    throw bad_option(optimizer, field, static_cast<double>(value),
                     fmt::format("at least {}", least).c_str());
}

}  // namespace muster::inline v0_1::optim::internal
