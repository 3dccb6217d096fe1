#include "muster/optim/recording.h"

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

}  // namespace muster::inline v0_1::optim
