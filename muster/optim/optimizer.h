// An Optimizer: an update rule with a name, and the transformations of its gradients. The
// ready-made ones, with Keras's formulas, defaults and slot names, are included. Thread safety: an
// Optimizer is an immutable value.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/adadelta.h"
#include "muster/optim/adafactor.h"
#include "muster/optim/adagrad.h"
#include "muster/optim/adam.h"
#include "muster/optim/adamax.h"
#include "muster/optim/adamw.h"
#include "muster/optim/centralize_gradients.h"
#include "muster/optim/clip.h"
#include "muster/optim/exponential_moving_average.h"
#include "muster/optim/freeze.h"
#include "muster/optim/ftrl.h"
#include "muster/optim/gradient_transformation.h"
#include "muster/optim/lamb.h"
#include "muster/optim/lars.h"
#include "muster/optim/learning_rate_multipliers.h"
#include "muster/optim/lion.h"
#include "muster/optim/look_ahead.h"
#include "muster/optim/loss_scaling.h"
#include "muster/optim/nadam.h"
#include "muster/optim/reduce_on_plateau.h"
#include "muster/optim/rmsprop.h"
#include "muster/optim/schedules.h"
#include "muster/optim/sgd.h"
#include "muster/optim/update_rule.h"
#include "muster/optim/weight_decay.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
struct VariableSpec;
}

namespace muster::inline v0_1::optim {

struct TrainOp;  // "muster/optim/train_op.h"

// A model function gets it from ModelContext::optimizer().
class MUSTER_EXPORT Optimizer {
 public:
  // `name` prefixes the slots; empty means the rule's name. Throws InvalidArgument for a name with
  // '/', which separates the name from the slot.
  explicit Optimizer(std::shared_ptr<const UpdateRule> rule, std::string name = {});

  const std::string& name() const { return name_; }
  // Returns the optimizer with another name: two optimizers of one model need two names. Throws
  // InvalidArgument for an empty one.
  Optimizer named(std::string name) const;
  const UpdateRule& rule() const { return *rule_; }

  // Returns the optimizer with one more gradient transformation, after the existing ones. Throws
  // InvalidArgument for a null transformation.
  Optimizer with(std::shared_ptr<const GradientTransformation> transformation) const;
  const std::vector<std::shared_ptr<const GradientTransformation>>& transformations() const {
    return transformations_;
  }
  // Applies all transformations in order. Throws their errors.
  void transform(StepGradients& step) const;

  // Returns the optimizer with another rule, which `wrap` makes around its own. Throws
  // InvalidArgument when `wrap` returns none.
  Optimizer around(
      const std::function<std::shared_ptr<const UpdateRule>(std::shared_ptr<const UpdateRule>)>&
          wrap) const;
  // Returns the optimizer with a scaled loss; see loss_scaling(). Throws InvalidArgument when it is
  // scaled already.
  Optimizer scaled(const LossScalingOptions& options) const;
  const std::optional<LossScalingOptions>& loss_scaling() const { return loss_scaling_; }
  // Returns the optimizer with a learning rate that is reduced on a plateau; see
  // reduce_on_plateau(). Throws InvalidArgument when it is reduced already.
  Optimizer reduced(const ReduceOnPlateauOptions& options) const;
  const std::optional<ReduceOnPlateauOptions>& reduction() const { return reduction_; }
  // Returns the optimizer limited to the variables that `filter` accepts, in addition to the filter
  // of minimize(). `description` is one line, equal for filters that accept the same. `patterns`
  // are the patterns that the filter uses, if any: training warns of one that matches no variable's
  // name.
  Optimizer only(std::function<bool(const VariableSpec&)> filter, std::string description,
                 std::vector<NamePattern> patterns = {}) const;
  // Returns the regular expressions that choose variables: those of its rule and of its filters.
  std::vector<NamePattern> name_patterns() const;

  // "Adam: Adam(learning_rate=0.001, ...), clip_by_global_norm(1)": one line, which must be equal
  // on all replicas.
  std::string describe() const;

  // Describes the training of every trainable variable that `filter` accepts (without a filter:
  // all). Nothing runs here: the strategy executes the description. Throws InvalidArgument when the
  // loss is not a scalar.
  TrainOp minimize(const Tensor& loss, std::function<bool(const VariableSpec&)> filter = {}) const;
  // Describes that the optimizer makes no step this time: variables, slots and iterations are
  // unchanged. Use it in place of its minimize() with the same filter, because every step of a run
  // must describe the same optimizers:
  //
  //   group({adam_d.minimize(loss_d, is_d), adam_g.no_step(is_g)})
  //
  // A loss multiplied by 0 is not the same: moments change weights even without a gradient.
  TrainOp no_step(std::function<bool(const VariableSpec&)> filter = {}) const;

 private:
  TrainOp entry(const Tensor& loss, std::function<bool(const VariableSpec&)> filter,
                bool rests) const;

  std::shared_ptr<const UpdateRule> rule_;
  std::string name_;
  std::vector<std::shared_ptr<const GradientTransformation>> transformations_;
  std::optional<LossScalingOptions> loss_scaling_;
  std::optional<ReduceOnPlateauOptions> reduction_;
  struct Only {
    std::function<bool(const VariableSpec&)> filter{};
    std::string description{};
    std::vector<NamePattern> patterns{};
  };
  std::vector<Only> only_;
};

}  // namespace muster::inline v0_1::optim
