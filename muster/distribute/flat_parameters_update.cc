// The half of FlatParameters that makes updates.
#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/internal/constrained.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

void FlatParameters::set_rates(const optim::TrainOp& train_op) {
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    OptimizerState& state = optimizers_[o];
    const optim::LearningRate schedule = rule_of(train_op, static_cast<int>(o)).rule().schedule();
    if (!updates_[o] || (schedule.is_constant() && !plateaus_.reduces(o))) continue;
    const double rate = schedule.at(*state.iterations.data_ptr<int64_t>());
    state.scheduled_rate = plateaus_.rate(o, rate);
    state.rate_multiplier = rate > 0 ? *state.scheduled_rate / rate : 1;
  }
}

void FlatParameters::note_loss(double loss) {
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    if (updates_[o]) plateaus_.update(o, loss);
  }
}

template <typename GradientOf>
void FlatParameters::judge_gradients(const optim::TrainOp& train_op, GradientOf gradient_of,
                                     const std::vector<RowGradient>& rows) {
  rests_.assign(optimizers_.size(), true);
  for (size_t e = 0; e < optimizer_of_entry_.size(); ++e) {
    if (!train_op.entries[e].rests) rests_[static_cast<size_t>(optimizer_of_entry_[e])] = false;
  }
  updates_.assign(optimizers_.size(), true);
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    if (rests_[o]) updates_[o] = false;
    if (rests_[o] || !loss_scales_.dynamic(o)) continue;
    bool finite = true;
    for (size_t p = 0; finite && p < parameters_.size(); ++p) {
      if (parameters_[p].optimizer == static_cast<int>(o)) finite = all_finite(gradient_of(p));
    }
    for (size_t t = 0; finite && t < rows.size(); ++t) {
      if (tables_.optimizer(t) == static_cast<int>(o)) finite = all_finite(rows[t].values);
    }
    loss_scales_.check(o, finite);
    updates_[o] = finite;
  }
}

void FlatParameters::check_some_gradient(const optim::TrainOp& train_op,
                                         const std::vector<bool>& used) const {
  std::vector<bool> steps(optimizers_.size(), false), trains(optimizers_.size(), false);
  for (size_t e = 0; e < train_op.entries.size(); ++e) {
    if (!train_op.entries[e].rests) steps[static_cast<size_t>(optimizer_of_entry_[e])] = true;
  }
  for (size_t t = 0; t < tables_.size(); ++t)
    trains[static_cast<size_t>(tables_.optimizer(t))] = true;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (used[p] || parameters_[p].variable->spec().regularizer)
      trains[static_cast<size_t>(parameters_[p].optimizer)] = true;
  }
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    if (!steps[o] || trains[o]) continue;
    std::vector<std::string> without;
    for (const Parameter& parameter : parameters_) {
      if (parameter.optimizer == static_cast<int>(o)) without.push_back(parameter.variable->name());
    }
    if (without.empty()) continue;
    throw invalid_argument(
        fmt::format("the optimizer {} would change nothing: its loss reaches none of its variables "
                    "({})",
                    optimizers_[o].name, join_quoted(without, 8)),
        "compute the loss from these variables, without detach() or a NoGradGuard between; give "
        "minimize() a filter that accepts the variables that this loss trains; an optimizer that "
        "makes no step this time is described as no_step(filter), or left out");
  }
}

void FlatParameters::check_some_gradient_in_place(const optim::TrainOp& train_op) const {
  // In most steps.
  if (std::ranges::all_of(parameters_, [](const Parameter& parameter) {
        return parameter.variable->value().grad().defined();
      }))
    return;
  std::vector<bool> used(parameters_.size());
  for (size_t p = 0; p < parameters_.size(); ++p)
    used[p] = parameters_[p].variable->value().grad().defined();
  check_some_gradient(train_op, used);
}

template <typename GradientOf>
bool FlatParameters::finite_parameters(GradientOf gradient_of) const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (loss_scales_.dynamic(static_cast<size_t>(parameters_[p].optimizer))) continue;
    if (!all_finite(gradient_of(p))) return false;
  }
  return true;
}

bool FlatParameters::finite(const std::vector<Tensor>& gradients, const std::vector<bool>& used,
                            const std::vector<RowGradient>& rows) const {
  for (size_t t = 0; t < rows.size(); ++t) {
    if (loss_scales_.dynamic(static_cast<size_t>(tables_.optimizer(t)))) continue;
    if (!all_finite(rows[t].values)) return false;
  }
  return finite_parameters(
      [&](size_t p) { return used[p] ? gradient_in(gradients, p) : Tensor(); });
}

bool FlatParameters::finite_in_place() const {
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (loss_scales_.dynamic(static_cast<size_t>(tables_.optimizer(t)))) continue;
    if (!tables_.finite(t)) return false;
  }
  return finite_parameters([&](size_t p) { return parameters_[p].variable->value().grad(); });
}

void FlatParameters::drop_in_place() {
  (void)tables_.take();
  added_.clear();
  for (const Parameter& parameter : parameters_) parameter.variable->value().mutable_grad().reset();
}

template <typename GradientOf>
void FlatParameters::transform_gradients(const optim::TrainOp& train_op, GradientOf gradient_of,
                                         const std::vector<RowGradient>& rows, double scale) {
  judge_gradients(train_op, gradient_of, rows);
  set_rates(train_op);
  scales_.resize(optimizers_.size());
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    scales_[o] = scale / loss_scales_.scale(o);
    const optim::Optimizer& optimizer = rule_of(train_op, static_cast<int>(o));
    if (optimizer.transformations().empty() || !updates_[o]) continue;
    optim::StepGradients step{.optimizer = optimizer.name(), .scale = scales_[o]};
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (parameters_[p].optimizer != static_cast<int>(o)) continue;
      const Tensor gradient = gradient_of(p);
      const Variable& variable = *parameters_[p].variable;
      if (gradient.defined()) step.items.push_back({&variable.spec(), variable.value(), gradient});
    }
    for (size_t t = 0; t < rows.size(); ++t) {
      if (tables_.optimizer(t) != static_cast<int>(o) || rows[t].ids.numel() == 0) continue;
      const Variable& variable = tables_.variable(static_cast<int>(t));
      step.items.push_back({&variable.spec(), variable.value(), rows[t].values, rows[t].ids});
    }
    optimizer.transform(step);
    scales_[o] = step.scale;
  }
}

Tensor FlatParameters::gradient_in(const std::vector<Tensor>& gradients, size_t p) const {
  const Parameter& parameter = parameters_[p];
  return gradients[static_cast<size_t>(parameter.buffer)]
      .slice(0, parameter.offset, parameter.offset + parameter.elements)
      .view(parameter.variable->spec().shape);
}

void FlatParameters::add_penalty(size_t p, const Tensor& gradient, double scale) const {
  const Variable& variable = *parameters_[p].variable;
  const auto optimizer = static_cast<size_t>(parameters_[p].optimizer);
  variable.spec().regularizer.add_gradient(variable.value(), gradient,
                                           loss_scales_.scale(optimizer) / scale);
}

std::vector<bool> FlatParameters::add_penalties(const std::vector<Tensor>& gradients,
                                                std::vector<bool> used, double scale) const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (!parameters_[p].variable->spec().regularizer) continue;
    add_penalty(p, gradient_in(gradients, p), scale);
    used[p] = true;
  }
  return used;
}

void FlatParameters::add_penalties_in_place(double scale) const {
  if (!regularized_) return;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (!parameters_[p].variable->spec().regularizer) continue;
    const Tensor& value = parameters_[p].variable->value();
    Tensor& gradient = value.mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(value);
    add_penalty(p, gradient, scale);
  }
}

void FlatParameters::constrain(size_t p) const {
  const Variable& variable = *parameters_[p].variable;
  if (!variable.spec().constraint) return;
  const Tensor value = variable.value().detach();
  Tensor(value).copy_(internal::constrained(variable.spec(), value));
}

void FlatParameters::update_flat(const optim::TrainOp& train_op,
                                 const std::vector<Tensor>& gradients,
                                 const std::vector<bool>& had_gradient,
                                 const std::vector<RowGradient>& rows, double scale,
                                 const Decided& decided) {
  torch::NoGradGuard no_grad;
  for (size_t o = 0; o < decided.factors.size(); ++o) plateaus_.set_factor(o, decided.factors[o]);
  const std::vector<bool> used = add_penalties(gradients, had_gradient, scale);
  transform_gradients(
      train_op, [&](size_t p) { return used[p] ? gradient_in(gradients, p) : Tensor(); }, rows,
      scale);
  for (size_t o = 0; o < decided.updates.size(); ++o) updates_[o] = decided.updates[o];
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    if (!updates_[o]) continue;
    const OptimizerState& state = optimizers_[o];
    const optim::Optimizer& optimizer = rule_of(train_op, static_cast<int>(o));
    const bool per_variable = optimizer.rule().per_variable();
    // Neighbours that were all used form one run.
    size_t p = 0;
    while (p < parameters_.size()) {
      if (parameters_[p].optimizer != static_cast<int>(o) || !used[p]) {
        ++p;
        continue;
      }
      const size_t at = p;
      const Parameter& first = parameters_[at];
      int64_t end = first.offset + (per_variable ? first.elements : first.padded);
      for (++p;
           !per_variable && p < parameters_.size() && parameters_[p].optimizer == first.optimizer &&
           parameters_[p].buffer == first.buffer && used[p];
           ++p) {
        end = parameters_[p].offset + parameters_[p].padded;
      }
      optim::Segment run = segment(state, first.buffer, first.offset, end);
      run.gradient = gradients[static_cast<size_t>(first.buffer)].slice(0, first.offset, end);
      run.gradient_scale = scales_[o];
      run.learning_rate_multiplier = state.rate_multiplier;
      if (per_variable) run.variable = &first.variable->spec();
      add_own_slots(at, run);
      optimizer.rule().update(run, *state.iterations.data_ptr<int64_t>());
    }
  }
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (used[p] && updates_[static_cast<size_t>(parameters_[p].optimizer)]) constrain(p);
  }
  update_rows(train_op, rows);
}

void FlatParameters::update_rows(const optim::TrainOp& train_op,
                                 const std::vector<RowGradient>& rows) {
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    if (!rests_[o]) loss_scales_.update(o, updates_[o]);
    if (!updates_[o]) continue;
    int64_t& iterations = *optimizers_[o].iterations.data_ptr<int64_t>();
    const auto optimizer = static_cast<int>(o);
    tables_.update(optimizer, rule_of(train_op, optimizer).rule(), rows, scales_[o],
                   optimizers_[o].rate_multiplier, iterations);
    ++iterations;
  }
}

void FlatParameters::update_in_place(const optim::TrainOp& train_op, double scale) {
  torch::NoGradGuard no_grad;
  const std::vector<RowGradient> rows = tables_.take();
  add_penalties_in_place(scale);
  transform_gradients(
      train_op, [&](size_t p) { return parameters_[p].variable->value().grad(); }, rows, scale);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const Parameter& parameter = parameters_[p];
    Tensor& gradient = parameter.variable->value().mutable_grad();
    if (!gradient.defined()) continue;
    const auto o = static_cast<size_t>(parameter.optimizer);
    const OptimizerState& state = optimizers_[o];
    if (!updates_[o]) {
      gradient.reset();
      continue;
    }
    optim::Segment& segment = segments_[p];
    segment.gradient = gradient.contiguous().view({-1});
    segment.gradient_scale = scales_[o];
    segment.learning_rate_multiplier = state.rate_multiplier;
    segment.variable = &parameter.variable->spec();
    rule_of(train_op, parameter.optimizer)
        .rule()
        .update(segment, *state.iterations.data_ptr<int64_t>());
    segment.gradient.reset();
    gradient.reset();
    if (constrained_) constrain(p);
  }
  update_rows(train_op, rows);
}

FlatParameters::Prepared FlatParameters::take_prepared(const optim::TrainOp& train_op,
                                                       double scale) {
  torch::NoGradGuard no_grad;
  Prepared prepared{.rows = tables_.take()};
  add_penalties_in_place(scale);
  transform_gradients(
      train_op, [&](size_t p) { return parameters_[p].variable->value().grad(); }, prepared.rows,
      scale);
  const auto scaled = [&](Tensor gradient, int optimizer) {
    const double factor = scales_[static_cast<size_t>(optimizer)];
    return factor == 1.0 ? gradient : gradient.mul_(factor);
  };
  for (const Parameter& parameter : parameters_) {
    const Tensor gradient = std::exchange(parameter.variable->value().mutable_grad(), {});
    const bool wanted = gradient.defined() && updates_[static_cast<size_t>(parameter.optimizer)];
    prepared.gradients.push_back(wanted ? scaled(gradient.contiguous(), parameter.optimizer)
                                        : Tensor());
  }
  for (size_t t = 0; t < prepared.rows.size(); ++t) {
    RowGradient& rows = prepared.rows[t];
    const int64_t wanted =
        updates_[static_cast<size_t>(tables_.optimizer(t))] ? rows.ids.size(0) : 0;
    rows = {rows.ids.narrow(0, 0, wanted).contiguous(),
            scaled(rows.values.narrow(0, 0, wanted).contiguous(), tables_.optimizer(t))};
  }
  for (size_t o = 0; o < optimizers_.size(); ++o) {
    if (!rests_[o]) loss_scales_.update(o, updates_[o]);
  }
  prepared.updates = updates_;
  return prepared;
}

void FlatParameters::add_in_place() {
  torch::NoGradGuard no_grad;
  added_.resize(parameters_.size());
  for (size_t p = 0; p < parameters_.size(); ++p) {
    Tensor gradient = std::exchange(parameters_[p].variable->value().mutable_grad(), {});
    if (!gradient.defined()) continue;
    if (added_[p].defined()) {
      added_[p].add_(gradient);
    } else {
      added_[p] = std::move(gradient);
    }
  }
}

void FlatParameters::put_back_in_place() {
  for (size_t p = 0; p < added_.size(); ++p)
    parameters_[p].variable->value().mutable_grad() = std::exchange(added_[p], {});
}

}  // namespace muster::inline v0_1::distribute
