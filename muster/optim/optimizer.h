// Optimizers: update rules over flat memory, with Keras's formulas, defaults and slot names.
// Thread safety: an Optimizer and its rule are immutable values; update() may run on several
// threads at once, on segments that do not overlap.
//
// Sources of the formulas: the documentation of tf.keras.optimizers.SGD, .Adam and .Adagrad of
// TensorFlow 2.0 (t = iterations + 1):
//   SGD            w -= lr * g
//   with momentum  u = momentum * u - lr * g;  w += u
//   nesterov       u = momentum * u - lr * g;  w += momentum * u - lr * g
//   Adam           m += (g - m) * (1 - beta_1);  v += (g * g - v) * (1 - beta_2)
//                  w -= m * (lr * sqrt(1 - beta_2^t) / (1 - beta_1^t)) / (sqrt(v) + epsilon)
//   Adagrad        a += g * g;  w -= lr * g / (sqrt(a) + epsilon)
// Scalars are computed in double; arithmetic on elements is that of the weights' type, without
// fused operations, so the bits depend neither on the vector width of the machine nor on where a
// segment begins.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
struct VariableSpec;
}

namespace muster::inline v0_1::optim {

struct TrainOp;  // "muster/optim/train_op.h"

// State an optimizer keeps for every weight, saved as "<optimizer>/<slot>/<variable>".
struct SlotSpec {
  std::string name;  // "momentum"; "m", "v"; "accumulator"
  double initial_value = 0;
};

// One contiguous run of parameters: one-dimensional contiguous tensors of the same device, length
// and dtype (float32 or float64). The update uses gradient * gradient_scale.
struct Segment {
  Tensor weights;
  Tensor gradient;
  std::vector<Tensor> slots;  // in the order of UpdateRule::slots()
  double gradient_scale = 1.0;
};

// The formula of an optimizer. Implement it to make one of your own.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string name() const = 0;  // "SGD", "Adam", "Adagrad"
  virtual std::vector<SlotSpec> slots() const = 0;
  virtual double learning_rate() const = 0;
  // Updates weights and slots in place, one pass over memory. `iterations`: the updates made before
  // this one. Throws InvalidArgument when the tensors of the segment do not fit together (both are
  // shown).
  virtual void update(const Segment& segment, int64_t iterations) const = 0;
};

// An update rule under a name; what ModelContext::optimizer() gives a model function.
class Optimizer {
 public:
  // `name` prefixes the slots; empty means the rule's name.
  explicit Optimizer(std::shared_ptr<const UpdateRule> rule, std::string name = {});

  const std::string& name() const { return name_; }
  // The same rule under another name: two optimizers of one model need two names.
  Optimizer named(std::string name) const;
  const UpdateRule& rule() const { return *rule_; }
  // What clip_by_global_norm() set; infinity without it.
  double max_global_norm() const { return max_global_norm_; }

  // Describes the training of every trainable variable that `filter` accepts (all, without one).
  // Nothing runs here: the strategy executes the description. Throws InvalidArgument when the loss
  // is not a scalar.
  TrainOp minimize(const Tensor& loss, std::function<bool(const VariableSpec&)> filter = {}) const;

 private:
  friend Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm);

  std::shared_ptr<const UpdateRule> rule_;
  std::string name_;
  double max_global_norm_ = std::numeric_limits<double>::infinity();
};

// The same optimizer, given gradients that are shortened where they are too long: with n = the
// square root of the sum of the squares of all gradients this optimizer is given in a step (after
// the mean or sum over replicas), each becomes g * max_norm / max(n, max_norm). A step whose n is
// not finite throws NonFinite and updates nothing. Throws InvalidArgument unless max_norm is finite
// and more than 0. Source: tf.clip_by_global_norm.
Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm);

// Options of sgd().
struct SgdOptions {
  double learning_rate = 0.01;  // >= 0
  double momentum = 0.0;        // in [0, 1]; 0 keeps no slot
  bool nesterov = false;        // without momentum it changes nothing, as in Keras
  std::string name = "SGD";
};
// Throws InvalidArgument naming the field, its value and the range.
Optimizer sgd(const SgdOptions& options = {});

// Options of adam().
struct AdamOptions {
  double learning_rate = 0.001;  // >= 0
  double beta_1 = 0.9;           // in [0, 1)
  double beta_2 = 0.999;         // in [0, 1)
  double epsilon = 1e-7;         // > 0; added to sqrt(v), not under the root
  std::string name = "Adam";
};
// Throws InvalidArgument naming the field, its value and the range.
Optimizer adam(const AdamOptions& options = {});

// Options of adagrad().
struct AdagradOptions {
  double learning_rate = 0.001;            // >= 0
  double initial_accumulator_value = 0.1;  // >= 0; what the squares of gradients are added to
  double epsilon = 1e-7;                   // > 0; added to sqrt(a), not under the root
  std::string name = "Adagrad";
};
// The more a weight was updated, the smaller its steps. Throws InvalidArgument naming the field,
// its value and the range.
Optimizer adagrad(const AdagradOptions& options = {});

}  // namespace muster::inline v0_1::optim
