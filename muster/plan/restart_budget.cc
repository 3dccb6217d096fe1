#include "muster/plan/restart_budget.h"

#include <algorithm>
#include <cmath>

#include "muster/base/random.h"

namespace muster::inline v0_1::plan {

int RestartBudget::used(double now) const {
  return static_cast<int>(
      std::ranges::count_if(taken_, [&](double then) { return now - then < rules_.window; }));
}

std::optional<double> RestartBudget::take(double now) {
  while (!taken_.empty() && now - taken_.front() >= rules_.window) taken_.pop_front();
  const int used = static_cast<int>(taken_.size());
  if (used >= rules_.restarts) return std::nullopt;
  taken_.push_back(now);
  Random random(derive_key(rules_.seed, {id_of("restart"), all_++}));
  soon_ = used == 0 || now - started_ >= rules_.calm ? 0 : soon_ + 1;
  const double jitter = 0.5 + random.uniform();
  const double pause =
      soon_ == 0
          ? 0
          : std::min(rules_.longest_pause, rules_.first_pause * std::exp2(soon_ - 1)) * jitter;
  started_ = now + pause;
  return pause;
}

}  // namespace muster::inline v0_1::plan
