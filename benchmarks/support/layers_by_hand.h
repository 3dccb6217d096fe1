// A model of Muster's layers as a loop written by hand trains it, without an Estimator: the
// comparison shows everything that an Estimator does around the layers. Freed memory stays with the
// program, as it does with an Estimator's. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/distribute/variable_table.h"
#include "muster/layers/layer.h"
#include "muster/layers/step_context.h"
#include "muster/optim/optimizer.h"

namespace muster::bench {

class LayersByHand {
 public:
  // Makes the variables, by a call on `input`. `name` and `seed` decide their values, like those of
  // ModelContext::model() and of an Estimator.
  LayersByHand(std::string name, Layer model, const Tensor& input, uint64_t seed);

  // The output for the batch of the next step, in training.
  Tensor call(const Tensor& input);
  // The parameters that train.
  const std::vector<Tensor>& parameters() const { return parameters_; }
  const Tensor& value(const std::string& variable) const;

 private:
  distribute::VariableTable table_;
  StepContext context_;
  std::string name_;
  Layer model_;
  std::vector<Tensor> parameters_;
  int64_t steps_ = 0;
};

// Updates by an Estimator's own rule, parameter by parameter, in place.
class UpdatesByHand {
 public:
  // The slots of the rule begin with zeros, and are as large as their parameter.
  UpdatesByHand(std::vector<Tensor> parameters, optim::Optimizer optimizer);
  // Uses the gradients, and releases them.
  void operator()();

 private:
  std::vector<Tensor> parameters_;
  optim::Optimizer optimizer_;
  std::vector<optim::Segment> segments_;  // [parameter]
  int64_t steps_ = 0;
};

}  // namespace muster::bench
