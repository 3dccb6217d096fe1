#include "muster/optim/train_op.h"

#include <iterator>
#include <utility>

namespace muster::inline v0_1::optim {
namespace {
thread_local Recording* innermost = nullptr;
}  // namespace

Recording::Recording() : outer_(std::exchange(innermost, this)) {}
Recording::~Recording() { innermost = outer_; }
TrainOp Recording::train_op() const { return group(parts_); }
void Recording::add(const TrainOp& train_op) {
  if (innermost != nullptr) innermost->parts_.push_back(train_op);
}

TrainOp group(std::vector<TrainOp> parts) {
  TrainOp all;
  for (TrainOp& part : parts) {
    std::move(part.entries.begin(), part.entries.end(), std::back_inserter(all.entries));
    std::move(part.updates.begin(), part.updates.end(), std::back_inserter(all.updates));
  }
  return all;
}

}  // namespace muster::inline v0_1::optim
