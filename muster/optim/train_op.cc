#include "muster/optim/train_op.h"

#include <iterator>
#include <utility>

namespace muster::inline v0_1::optim {

TrainOp group(std::vector<TrainOp> parts) {
  TrainOp all;
  for (TrainOp& part : parts) {
    std::move(part.entries.begin(), part.entries.end(), std::back_inserter(all.entries));
    std::move(part.updates.begin(), part.updates.end(), std::back_inserter(all.updates));
  }
  return all;
}

}  // namespace muster::inline v0_1::optim
