// Executes the steps of a loop written by hand: it receives the descriptions of minimize(). Thread
// safety: belongs to the thread that made it.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1::optim {

// While a Recording lives, it collects the descriptions of minimize() on this thread. If there are
// several, the innermost one collects.
class MUSTER_PART_EXPORT Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Returns all that was described since it was made, as one.
  TrainOp train_op() const;

 private:
  friend class Optimizer;
  static void add(const TrainOp& train_op);

  std::vector<TrainOp> parts_;
  Recording* outer_;
};

}  // namespace muster::inline v0_1::optim
