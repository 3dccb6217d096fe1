#include "muster/optim/look_ahead.h"

#include <fmt/format.h>

#include "muster/optim/internal/following_rule.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

constexpr const char* kLookAhead = "look_ahead";

class LookAhead final : public internal::FollowingRule {
 public:
  LookAhead(std::shared_ptr<const UpdateRule> inner, const LookAheadOptions& options)
      : FollowingRule(kLookAhead, std::move(inner), {.name = "slow", .begins_as_weights = true}),
        options_(options) {}

  std::string describe() const override {
    return fmt::format("{}, {}(sync_period={}, slow_step_size={})", inner().describe(), kLookAhead,
                       options_.sync_period, options_.slow_step_size);
  }

 protected:
  bool follows(int64_t iterations) const override {
    return (iterations + 1) % options_.sync_period == 0;
  }
  void follow(const Segment& own, int64_t /*iterations*/) const override {
    internal::update_anywhere<internal::StepBack>(own, {options_.slow_step_size});
  }

 private:
  const LookAheadOptions options_;
};

}  // namespace

Optimizer look_ahead(Optimizer optimizer, const LookAheadOptions& options) {
  internal::check_at_least(kLookAhead, "sync_period", options.sync_period, 1);
  if (!(options.slow_step_size > 0 && options.slow_step_size <= 1))
    throw internal::bad_option(kLookAhead, "slow_step_size", options.slow_step_size,
                               "above 0 and at most 1");
  return optimizer.around([&](std::shared_ptr<const UpdateRule> inner) {
    return std::make_shared<LookAhead>(std::move(inner), options);
  });
}

}  // namespace muster::inline v0_1::optim
