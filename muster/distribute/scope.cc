#include "muster/distribute/scope.h"

#include <fmt/format.h>

#include <exception>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/distribute/internal/loop.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

Loop& loop_of(const Strategy& strategy, const char* verb) {
  if (ReplicaContext::inside()) {
    throw invalid_argument(
        fmt::format("{} was called inside of a replica function", verb),
        "call it between the calls of run(); inside, ReplicaContext::current() has all_reduce() "
        "and all_gather()");
  }
  Loop* loop = Loop::entered();
  if (loop == nullptr) {
    throw invalid_argument(
        fmt::format("{} was called outside of the scope of {}", verb, strategy.name()),
        "enter it first: const auto scope = strategy->scope();");
  }
  if (&loop->strategy() != &strategy) {
    throw invalid_argument(fmt::format("{} of {} was called in the scope of another strategy ({})",
                                       verb, strategy.name(), loop->strategy().name()),
                           "use the strategy whose scope was entered");
  }
  return *loop;
}

}  // namespace

Scope::Scope(std::shared_ptr<Loop> loop)
    : loop_(std::move(loop)), exceptions_(std::uncaught_exceptions()) {
  loop_->enter();
}

Scope::~Scope() {
  if (loop_) loop_->leave(std::uncaught_exceptions() > exceptions_);
}

int Scope::num_replicas_in_sync() const { return loop_->session().num_replicas_in_sync(); }
bool Scope::is_chief() const { return loop_->session().is_chief(); }
int64_t Scope::step() const { return loop_->step(); }
void Scope::apply_accumulated() const { loop_->apply_accumulated(); }
std::string Scope::save(const std::string& model_dir, const SaveOptions& options) const {
  return loop_->save(model_dir, options);
}
bool Scope::restore(const std::string& model_dir) const { return loop_->restore(model_dir); }
const StepResult& Scope::last_step() const { return loop_->last_step(); }

Tensor Scope::variable(const std::string& name) const {
  const Variable* found = loop_->session().variables().find(name);
  if (found == nullptr) {
    throw not_found(fmt::format("there is no variable \"{}\"", name),
                    "there are " + join_quoted(variable_names()));
  }
  return found->value().detach().clone();
}

std::vector<std::string> Scope::variable_names() const {
  std::vector<std::string> names;
  for (const auto& variable : loop_->session().variables().variables())
    names.push_back(variable->name());
  return names;
}

Scope Strategy::scope(const ScopeOptions& options) const {
  if (ReplicaContext::inside()) {
    throw invalid_argument("scope() was called inside of a replica function",
                           "enter the scope once, around the loop");
  }
  Loop* entered = Loop::entered();
  if (entered == nullptr) return Scope(std::make_shared<Loop>(shared_from_this(), options));
  if (&entered->strategy() == this) return Scope(entered->shared_from_this());
  throw invalid_argument(fmt::format("the scope of {} was entered inside of that of {}", name(),
                                     entered->strategy().name()),
                         "leave the other one first: strategies do not mix");
}

int Strategy::num_replicas_in_sync() const {
  return loop_of(*this, "num_replicas_in_sync()").session().num_replicas_in_sync();
}

size_t Strategy::num_local_replicas() const { return loop_of(*this, "run()").num_local_replicas(); }

void Strategy::check_replicas(std::optional<size_t> given) const {
  if (given) loop_of(*this, "run()").check_values(*given, "run()");
}

void Strategy::run_on_replicas(const RunOptions& options, const std::function<void(size_t)>& body,
                               const std::function<int64_t(size_t)>& rows) const {
  loop_of(*this, "run()").run(options, body, rows);
}

Tensor Strategy::reduce(ReduceOp op, const PerReplica<Tensor>& value,
                        std::optional<int64_t> axis) const {
  return loop_of(*this, "reduce()").reduce(op, value, axis);
}

Metric Strategy::reduce(const PerReplica<Metric>& value) const {
  return loop_of(*this, "reduce()").reduce(value);
}

Tensor Strategy::gather(const PerReplica<Tensor>& value, int64_t axis) const {
  return loop_of(*this, "gather()").gather(value, axis);
}

DistributedDataset Strategy::distribute(const Dataset& dataset) const {
  return loop_of(*this, "distribute()").distribute(dataset, /*for_this_process=*/false);
}

DistributedDataset Strategy::distribute_from_function(
    const std::function<Dataset(const InputContext&)>& fn) const {
  Loop& loop = loop_of(*this, "distribute_from_function()");
  return loop.distribute(fn(loop.session().input_context()), /*for_this_process=*/true);
}

}  // namespace muster::inline v0_1::distribute
