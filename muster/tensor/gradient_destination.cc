#include "muster/tensor/gradient_destination.h"

#include <utility>

namespace muster::inline v0_1 {
namespace {

thread_local GradientDestinations* in_force = nullptr;

}  // namespace

GradientDestinations::Scope::Scope(GradientDestinations& destinations)
    : outer_(std::exchange(in_force, &destinations)) {}

GradientDestinations::Scope::~Scope() { in_force = outer_; }

Tensor take_gradient_destination(const Tensor& parameter) {
  return in_force == nullptr ? Tensor() : in_force->take(parameter);
}

}  // namespace muster::inline v0_1
