#include "muster/loop/scope.h"

#include <fmt/format.h>

#include <exception>

#include "muster/base/error.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/distribute/strategy.h"
#include "muster/loop/internal/loop.h"
#include "muster/tensor/device_library.h"

namespace muster::inline v0_1::distribute {

Scope enter_scope(StrategyPtr strategy, const ScopeOptions& options) {
  if (ReplicaContext::inside()) {
    throw invalid_argument("scope() was called inside of a replica function",
                           "enter the scope once, around the loop");
  }
  Loop* const around = Loop::current();
  if (around == nullptr) return Scope(Loop::make(std::move(strategy), options));
  if (&around->strategy() == strategy.get()) return Scope(around->shared_from_this());
  throw invalid_argument(fmt::format("the scope of {} was entered inside of that of {}",
                                     strategy->name(), around->strategy().name()),
                         "leave the other one first: strategies do not mix");
}

Scope::Scope(std::shared_ptr<Loop> loop)
    : loop_(std::move(loop)), exceptions_(std::uncaught_exceptions()) {
  loop_->enter();
}

Scope::~Scope() {
  if (loop_) loop_->leave(std::uncaught_exceptions() > exceptions_);
}

bool Scope::serve_by(const std::function<void(const Batch&)>& call) const {
  return loop_->serve(call);
}

void Scope::end_training() const { loop_->end_training(/*by_program=*/true); }

int Scope::num_replicas_in_sync() const {
  return loop_->first().num_replicas_in_sync() * joined_devices(loop_->first().device());
}
size_t Scope::num_local_replicas() const { return loop_->num_local_replicas(); }
bool Scope::is_chief() const { return loop_->is_chief(); }
int64_t Scope::step() const { return loop_->step(); }
void Scope::apply_accumulated() const { loop_->apply_accumulated(); }
bool Scope::should_stop() const { return loop_->should_stop(); }
void Scope::stop() const { loop_->stop(); }
std::string Scope::save(const std::string& model_dir, const SaveOptions& options) const {
  const Saved made = loop_->save(model_dir, options, {});
  // Not in Loop::save(): Keras removes the folder of its backups when fit() ends.
  loop_->show_in(model_dir);
  // A thread writes it.
  if (made.await) return join_path(model_dir, fmt::format("model.ckpt-{}", step()));
  return made.prefix;
}
bool Scope::restore(const std::string& model_dir) const { return loop_->restore(model_dir); }
void Scope::end_saving(const std::string& model_dir) const { loop_->end_saving(model_dir); }
const std::map<std::string, std::string>& Scope::restored_notes() const {
  return loop_->restored_notes();
}
void Scope::warm_start(const WarmStartFrom& from) const { loop_->warm_start(from.settings()); }
const StepResult& Scope::last_step() const { return loop_->last_step(); }

Tensor Scope::variable(const std::string& name) const {
  const Variable* found = loop_->first().variables().find(name);
  if (found == nullptr) {
    throw not_found(
        fmt::format("there is no variable \"{}\"", name),
        nearest_hint(name, variable_names(), "there are " + join_quoted(variable_names())));
  }
  return loop_->value(*found);
}

std::vector<std::string> Scope::variable_names() const {
  std::vector<std::string> names;
  for (const auto& variable : loop_->first().variables().variables())
    names.push_back(variable->name());
  return names;
}

std::vector<VariableSpec> Scope::variable_specs() const {
  std::vector<VariableSpec> specs;
  for (const auto& variable : loop_->first().variables().variables())
    specs.push_back(variable->spec());
  return specs;
}

void Scope::assign(const std::map<std::string, Tensor>& values) const { loop_->assign(values); }
Checkpoint Scope::state() const { return loop_->state(); }

}  // namespace muster::inline v0_1::distribute
