// LossScales holds the factors of the losses of a run's optimizers. Thread safety: it belongs to
// the training thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/optim/optimizer.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute {

class LossScales {
 public:
  // The next optimizer, in their order; with or without loss scaling.
  void add(const optim::Optimizer& optimizer);

  // The scale of an optimizer by index: 1 without loss scaling.
  double scale(size_t optimizer) const;
  bool dynamic(size_t optimizer) const;
  // Whether all gradients of this step were finite. Throws NonFinite when they were not, and a
  // smaller scale cannot be the remedy; nothing has changed then.
  void check(size_t optimizer, bool finite) const;
  // Makes the scale of the next step.
  void update(size_t optimizer, bool finite);

  // Dynamic scales by checkpoint name: "Adam/loss_scale" (float64) and "Adam/good_steps" (int64),
  // both scalars. They are views: writing them sets the scale.
  std::map<std::string, Tensor> tensors() const;
  // The same, each [1].
  std::vector<Tensor> pieces() const;

 private:
  struct Scale {
    std::string optimizer{};
    std::optional<optim::LossScalingOptions> options{};
    Tensor scale{}, good_steps{};  // if it is dynamic
  };
  optim::LossScale now(const Scale& scale) const;

  std::vector<Scale> scales_;  // [optimizer]
};

}  // namespace muster::inline v0_1::distribute
