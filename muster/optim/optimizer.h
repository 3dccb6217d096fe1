// An Optimizer: an update rule under a name, and what is done to the gradients before. The
// ready-made ones, with Keras's formulas, defaults and slot names, are included. Thread safety: an
// Optimizer is an immutable value.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/optim/adagrad.h"
#include "muster/optim/adam.h"
#include "muster/optim/clip.h"
#include "muster/optim/gradient_transformation.h"
#include "muster/optim/sgd.h"
#include "muster/optim/update_rule.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
struct VariableSpec;
}

namespace muster::inline v0_1::optim {

struct TrainOp;  // "muster/optim/train_op.h"

// A model function gets it from ModelContext::optimizer().
class Optimizer {
 public:
  // `name` prefixes the slots; empty means the rule's name.
  explicit Optimizer(std::shared_ptr<const UpdateRule> rule, std::string name = {});

  const std::string& name() const { return name_; }
  // Gives the same optimizer under another name: two optimizers of one model need two names.
  Optimizer named(std::string name) const;
  const UpdateRule& rule() const { return *rule_; }

  // Gives the same optimizer, whose gradients also go through `transformation`, behind those it
  // has. Throws InvalidArgument when there is none.
  Optimizer with(std::shared_ptr<const GradientTransformation> transformation) const;
  const std::vector<std::shared_ptr<const GradientTransformation>>& transformations() const {
    return transformations_;
  }
  // Applies them one after another. Throws what they throw.
  void transform(StepGradients& step) const;
  // Gives the least bound that clip_by_global_norm() set, and infinity without one.
  double max_global_norm() const;

  // "Adam: Adam(learning_rate=0.001, ...), clip_by_global_norm(1)": one line, which must be equal
  // on all replicas.
  std::string describe() const;

  // Describes the training of every trainable variable that `filter` accepts (all, without one).
  // Nothing runs here: the strategy executes the description. Throws InvalidArgument when the loss
  // is not a scalar.
  TrainOp minimize(const Tensor& loss, std::function<bool(const VariableSpec&)> filter = {}) const;

 private:
  std::shared_ptr<const UpdateRule> rule_;
  std::string name_;
  std::vector<std::shared_ptr<const GradientTransformation>> transformations_;
};

}  // namespace muster::inline v0_1::optim
