#include "muster/layers/rescaling.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class RescalingImpl final : public UnaryLayerImpl {
 public:
  RescalingImpl(double scale, double offset, std::string name)
      : UnaryLayerImpl("rescaling", std::move(name)), scale_(scale), offset_(offset) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    return (input.is_floating_point() ? input : input.to(kFloat32)) * scale_ + offset_;
  }

  bool keeps_steps() const override { return true; }

 private:
  double scale_;
  double offset_;
};

void check_finite(const std::string& name, const char* field, double value) {
  if (std::isfinite(value)) return;
  throw invalid_argument(
      fmt::format("{}: {} is {}", internal::titled("Rescaling", name), field, value),
      fmt::format("{} must be finite", field));
}

}  // namespace

Layer Rescaling(double scale, double offset, std::string name) {
  check_finite(name, "scale", scale);
  check_finite(name, "offset", offset);
  return Layer(std::make_shared<RescalingImpl>(scale, offset, std::move(name)));
}

}  // namespace muster::inline v0_1
