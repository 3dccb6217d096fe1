// The optimizer of a canned estimator: one of tf.estimator's names, or an optimizer.
// Thread safety: an immutable value.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "muster/base/export.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT OptimizerChoice {
 public:
  // "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD".
  OptimizerChoice(std::string name)
      : choice_(std::move(name)) {}  // NOLINT(google-explicit-constructor)
  OptimizerChoice(const char* name)  // NOLINT(google-explicit-constructor)
      : OptimizerChoice(std::string(name)) {}
  OptimizerChoice(optim::Optimizer optimizer)  // NOLINT(google-explicit-constructor)
      : choice_(std::move(optimizer)) {}

  bool is_name() const { return std::holds_alternative<std::string>(choice_); }
  // Returns the optimizer. One chosen by name has this learning rate, or its own default if unset,
  // and otherwise Keras's defaults. Throws InvalidArgument, which begins with `owner`, for an
  // unknown name; the error lists all names.
  optim::Optimizer make(const std::string& owner, std::optional<double> learning_rate = {}) const;

 private:
  std::variant<std::string, optim::Optimizer> choice_;
};

}  // namespace muster::inline v0_1
