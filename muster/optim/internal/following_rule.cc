#include "muster/optim/internal/following_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/optim/internal/segment.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::optim::internal {
namespace {

// Weights, gradient and three slots of float32 are then less than a megabyte.
constexpr int64_t kPiece = 32 * 1024;

Segment piece_of(const Segment& segment, int64_t begin, int64_t length) {
  Segment piece = segment;
  piece.weights = segment.weights.narrow(0, begin, length);
  piece.gradient = segment.gradient.narrow(0, begin, length);
  for (Tensor& slot : piece.slots) slot = slot.narrow(0, begin, length);
  return piece;
}

}  // namespace

FollowingRule::FollowingRule(const char* function, std::shared_ptr<const UpdateRule> inner,
                             SlotSpec slot)
    : WrappedRule(std::move(inner)), slot_(std::move(slot)) {
  for (const SlotSpec& known : this->inner().slots()) {
    if (known.name != slot_.name) continue;
    throw invalid_argument(
        fmt::format("{}: the optimizer {} has a slot \"{}\" already", function, name(), known.name),
        fmt::format("use {} at most once on an optimizer", function));
  }
}

std::vector<SlotSpec> FollowingRule::slots() const {
  std::vector<SlotSpec> all = inner().slots();
  all.push_back(slot_);
  return all;
}

std::vector<SlotSpec> FollowingRule::slots_of(const VariableSpec& variable) const {
  std::vector<SlotSpec> all = inner().slots_of(variable);
  all.push_back(slot_);
  return all;
}

void FollowingRule::update(const Segment& segment, int64_t iterations) const {
  check_segment(*this, segment);
  at::NoGradGuard no_grad;
  const int64_t length = segment.weights.numel();
  if (length <= kPiece || inner().per_variable() || !segment.weights.is_cpu() ||
      !follows(iterations))
    return update_piece(segment, iterations);
  for (int64_t begin = 0; begin < length; begin += kPiece)
    update_piece(piece_of(segment, begin, std::min(kPiece, length - begin)), iterations);
}

void FollowingRule::update_piece(const Segment& piece, int64_t iterations) const {
  Segment first = piece, own = piece;
  own.slots = {piece.slots.back()};
  first.slots.pop_back();
  inner().update(first, iterations);
  if (follows(iterations)) follow(own, iterations);
}

}  // namespace muster::inline v0_1::optim::internal
