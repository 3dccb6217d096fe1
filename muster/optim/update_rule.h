// The formula of an optimizer over flat memory. Thread safety: an UpdateRule is immutable; update()
// may run on several threads at once, on segments that do not overlap.
//
// Scalars are computed in double. Arithmetic on elements uses the weights' type, without fused
// operations on the CPU, so the bits depend neither on the vector width of the machine nor on where
// a segment begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"
#include "muster/optim/name_pattern.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
struct VariableSpec;
}

namespace muster::inline v0_1::optim {

// State that an optimizer keeps for every weight, saved as "<optimizer>/<slot>/<variable>".
struct SlotSpec {
  std::string name{};  // "momentum"; "m", "v"; "accumulator"
  double initial_value = 0;
  // Whether it begins as the initial values of the weights, not as initial_value.
  bool begins_as_weights = false;
  // Unset: the variable's shape, one number for each weight.
  std::optional<Shape> shape = std::nullopt;
};

// One contiguous run of parameters: one-dimensional contiguous tensors with the device, length and
// dtype of the weights. A slot with its own shape has the length of that shape. The update uses
// gradient * gradient_scale.
struct Segment {
  Tensor weights{};
  Tensor gradient{};
  std::vector<Tensor> slots{};  // in the order of UpdateRule::slots(), or slots_of()
  double gradient_scale = 1.0;
  double learning_rate_multiplier = 1.0;  // multiplies the rule's learning rate
  // The variable of these parameters: all of it, or, for a row-sparse variable, the rows used in
  // this step. nullptr if the segment may hold several variables; see UpdateRule::per_variable().
  const VariableSpec* variable = nullptr;
};

// Which variables a rule reduces by its own weight decay.
enum class WeightDecay { kNone, kSome, kAll };

// Implement it to make your own optimizer. A rule may wrap another one: it adds slots to those of
// the inner rule and works before or after it.
class MUSTER_EXPORT UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string name() const = 0;  // "SGD", "Adam", "Adagrad"
  virtual std::vector<SlotSpec> slots() const = 0;
  // Whether variables have different slots, given by slots_of(); the rule is then per_variable().
  virtual bool slots_differ() const { return false; }
  // Returns the slots of one variable. Those of a row-sparse variable have its shape.
  virtual std::vector<SlotSpec> slots_of(const VariableSpec& variable) const;
  // Returns the learning rate of the first update.
  virtual double learning_rate() const = 0;
  // Returns the learning rate of all updates. Default: constant.
  virtual LearningRate schedule() const { return learning_rate(); }
  // Whether every segment must be one variable, which it names: for a rule that needs norms of
  // variables or treats them by name. False lets neighbours share a segment, which is faster.
  virtual bool per_variable() const { return false; }
  // Returns the regular expressions that choose variables, including those of a wrapped rule.
  // Training warns of one that matches no variable's name.
  virtual std::vector<NamePattern> name_patterns() const { return {}; }
  // Which variables this rule, or a wrapped rule, decays: a second decay of all of them is refused.
  virtual WeightDecay weight_decay() const { return WeightDecay::kNone; }
  // "Adam(learning_rate=0.001, ...)": one line, equal for rules that compute the same. The default
  // has name and learning rate; add further options.
  virtual std::string describe() const;
  // Updates weights and slots in place, in one pass over memory. `iterations` is the number of
  // earlier updates. Throws InvalidArgument when the tensors of the segment do not fit together
  // (the error shows both).
  virtual void update(const Segment& segment, int64_t iterations) const = 0;
};

}  // namespace muster::inline v0_1::optim
