#include "muster/optim/adjustable_learning_rate.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/optim/internal/wrapped_rule.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

class AdjustableLearningRate final : public internal::WrappedRule {
 public:
  AdjustableLearningRate(std::shared_ptr<const UpdateRule> inner,
                         std::shared_ptr<const std::atomic<double>> factor)
      : WrappedRule(std::move(inner)), factor_(std::move(factor)) {}

  // The factor is not part of the rule's identity: it changes.
  std::string describe() const override { return inner().describe(); }

  void update(const Segment& segment, int64_t iterations) const override {
    Segment changed = segment;
    changed.learning_rate_multiplier *= factor_->load(std::memory_order_relaxed);
    inner().update(changed, iterations);
  }

 private:
  const std::shared_ptr<const std::atomic<double>> factor_;
};

}  // namespace

Optimizer adjustable_learning_rate(const Optimizer& optimizer,
                                   std::shared_ptr<const std::atomic<double>> factor) {
  if (factor == nullptr) {
    throw invalid_argument("adjustable_learning_rate: there is no factor",
                           "give it std::make_shared<std::atomic<double>>(1.0)");
  }
  return optimizer.around([&](std::shared_ptr<const UpdateRule> inner) {
    return std::make_shared<AdjustableLearningRate>(std::move(inner), factor);
  });
}

}  // namespace muster::inline v0_1::optim
