// The formula of an optimizer over flat memory. Thread safety: an UpdateRule is immutable; update()
// may run on several threads at once, on segments that do not overlap.
//
// Scalars are computed in double; arithmetic on elements is that of the weights' type, without
// fused operations on the CPU, so the bits depend neither on the vector width of the machine nor on
// where a segment begins.
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

// State an optimizer keeps for every weight, saved as "<optimizer>/<slot>/<variable>".
struct SlotSpec {
  std::string name{};  // "momentum"; "m", "v"; "accumulator"
  double initial_value = 0;
  // It begins as the weights do, with their initial values, and not as initial_value.
  bool begins_as_weights = false;
  // Unset: that of the variable, a number for each weight.
  std::optional<Shape> shape = std::nullopt;
};

// One contiguous run of parameters: one-dimensional contiguous tensors of the same device, length
// and dtype, which is one of weights. A slot of another shape has the length of that. The update
// uses gradient * gradient_scale.
struct Segment {
  Tensor weights{};
  Tensor gradient{};
  std::vector<Tensor> slots{};  // in the order of UpdateRule::slots(), or slots_of()
  double gradient_scale = 1.0;
  double learning_rate_multiplier = 1.0;  // the rule's learning rate counts so many times
  // The variable these parameters are of, all of them or, of a row-sparse one, the rows used in
  // this step. nullptr where the segment may hold several; see UpdateRule::per_variable().
  const VariableSpec* variable = nullptr;
};

// Which variables a rule makes smaller by a weight decay of its own.
enum class WeightDecay { kNone, kSome, kAll };

// Implement it to make an optimizer of your own. A rule may stand around another one: it adds slots
// to those of the inner rule and works before or after it.
class MUSTER_EXPORT UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string name() const = 0;  // "SGD", "Adam", "Adagrad"
  virtual std::vector<SlotSpec> slots() const = 0;
  // Whether variables differ in their slots, as slots_of() tells; the rule is per_variable() then.
  virtual bool slots_differ() const { return false; }
  // The slots of one variable. Those of a row-sparse one have the shape of the variable.
  virtual std::vector<SlotSpec> slots_of(const VariableSpec& variable) const;
  // The learning rate of the first update.
  virtual double learning_rate() const = 0;
  // The learning rate of all updates. By default it stays as it is.
  virtual LearningRate schedule() const { return learning_rate(); }
  // Whether every segment must be one variable, which it names: for a rule that needs norms of
  // variables or treats them by name. The default gives neighbours together, which is quicker.
  virtual bool per_variable() const { return false; }
  // The regular expressions by which it chooses variables, those of the rule it stands around
  // included. Training warns of one that is found in no variable's name.
  virtual std::vector<NamePattern> name_patterns() const { return {}; }
  // Which variables decay by it, or by a rule inside of it: a second decay of all of them is
  // refused.
  virtual WeightDecay weight_decay() const { return WeightDecay::kNone; }
  // "Adam(learning_rate=0.001, ...)": one line, equal for rules that compute the same. The default
  // has name and learning rate; a rule with further options tells them too.
  virtual std::string describe() const;
  // Updates weights and slots in place, one pass over memory. `iterations`: the updates made before
  // this one. Throws InvalidArgument when the tensors of the segment do not fit together (both are
  // shown).
  virtual void update(const Segment& segment, int64_t iterations) const = 0;
};

}  // namespace muster::inline v0_1::optim
