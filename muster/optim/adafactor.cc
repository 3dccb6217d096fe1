#include "muster/optim/adafactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/optim/internal/adafactor_update.h"
#include "muster/optim/internal/scheduled_rule.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

class Adafactor final : public internal::ScheduledRule {
 public:
  explicit Adafactor(const AdafactorOptions& options)
      : ScheduledRule("adafactor", "Adafactor", options.learning_rate), options_(options) {
    if (!(options.beta_2_decay >= -1 && options.beta_2_decay < 0))
      throw internal::bad_option("adafactor", "beta_2_decay", options.beta_2_decay,
                                 "at least -1 and below 0");
    internal::check_positive("adafactor", "epsilon_1", options.epsilon_1);
    internal::check_positive("adafactor", "epsilon_2", options.epsilon_2);
    internal::check_positive("adafactor", "clip_threshold", options.clip_threshold);
  }

  std::vector<SlotSpec> slots() const override { return {{"v", 0.0}}; }
  bool slots_differ() const override { return true; }
  std::vector<SlotSpec> slots_of(const VariableSpec& variable) const override {
    if (!factored(variable)) return slots();
    Shape rows = variable.shape, columns = variable.shape;
    rows.pop_back();
    columns.erase(columns.end() - 2);
    return {{.name = "vr", .shape = rows}, {.name = "vc", .shape = columns}};
  }
  bool per_variable() const override { return true; }
  std::string describe() const override {
    return fmt::format(
        "Adafactor(learning_rate={}, beta_2_decay={}, epsilon_1={}, epsilon_2={}, "
        "clip_threshold={}, relative_step={}, scale_parameter={})",
        schedule().describe(), options_.beta_2_decay, options_.epsilon_1, options_.epsilon_2,
        options_.clip_threshold, options_.relative_step, options_.scale_parameter);
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    if (segment.weights.numel() == 0) return;
    const double t = static_cast<double>(iterations) + 1;
    double rho = schedule().at(iterations);
    if (options_.relative_step) rho = std::min(rho, 1 / std::sqrt(t));
    internal::AdafactorUpdate update{.rho = rho * segment.learning_rate_multiplier,
                                     .part = std::pow(t, options_.beta_2_decay),
                                     .epsilon_1 = options_.epsilon_1,
                                     .epsilon_2 = options_.epsilon_2,
                                     .clip_threshold = options_.clip_threshold,
                                     .scale_parameter = options_.scale_parameter};
    if (segment.variable != nullptr && factored(*segment.variable)) {
      const Shape& shape = segment.variable->shape;
      update.rows = shape.end()[-2];
      update.columns = shape.back();
    }
    if (segment.weights.is_cpu()) {
      internal::adafactor_on_cpu(segment, update);
    } else {
      internal::adafactor_on_tensors(segment, update);
    }
  }

 private:
  static bool factored(const VariableSpec& variable) {
    return variable.shape.size() >= 2 && !variable.row_sparse;
  }

  const AdafactorOptions options_;
};

}  // namespace

Optimizer adafactor(const AdafactorOptions& options) {
  return Optimizer(std::make_shared<Adafactor>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
