// Plateaus holds how far the learning rates of a run's optimizers are reduced. Thread safety: it
// belongs to the training thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute {

class MUSTER_PART_EXPORT Plateaus {
 public:
  // The next optimizer, in their order; with or without reduction on a plateau.
  void add(const optim::Optimizer& optimizer);

  // Whether the rate of an optimizer, by index, may be reduced.
  bool reduces(size_t optimizer) const { return plateaus_[optimizer].options.has_value(); }
  // That rate after the reduction: itself without reduction.
  double rate(size_t optimizer, double rate) const;
  // Its factor, before the limit; 1 without reduction. set_factor() takes a factor that was decided
  // elsewhere.
  double factor(size_t optimizer) const;
  void set_factor(size_t optimizer, double factor);
  size_t size() const { return plateaus_.size(); }
  // Takes the loss of an update that this optimizer has made.
  void update(size_t optimizer, double loss);

  // By checkpoint name: "Adam/plateau". They are views: writing them sets the state.
  std::map<std::string, Tensor> tensors() const;

 private:
  struct State {
    std::string optimizer{};
    std::optional<optim::ReduceOnPlateauOptions> options{};
    Tensor numbers{};  // the numbers of an optim::Plateau
  };
  std::vector<State> plateaus_;  // [optimizer]
};

}  // namespace muster::inline v0_1::distribute
