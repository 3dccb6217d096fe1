// One update by Adafactor of one variable: by kernels on the CPU, by LibTorch's operations
// anywhere. Thread safety: as UpdateRule::update().
#pragma once

#include <cstdint>

#include "muster/optim/update_rule.h"

namespace muster::inline v0_1::optim::internal {

// The numbers of one update; see adafactor.h.
struct AdafactorUpdate {
  double rho = 0;
  double part = 0;       // 1 - b
  double epsilon_1 = 0;  // of the squares
  double epsilon_2 = 0;  // the least root mean square of the weights
  double clip_threshold = 0;
  bool scale_parameter = true;
  // The last two axes of a variable with the slots vr and vc; 0 for one with the slot v.
  int64_t rows = 0, columns = 0;
};

// The segment was checked, and holds a weight.
void adafactor_on_cpu(const Segment& segment, const AdafactorUpdate& update);
void adafactor_on_tensors(const Segment& segment, const AdafactorUpdate& update);

}  // namespace muster::inline v0_1::optim::internal
