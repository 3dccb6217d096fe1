#include "muster/ps/internal/worker_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/plan/failure.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using distribute::FlatParameters;

namespace {

constexpr double kPoll = 1;        // seconds for which the ledger holds a request
constexpr double kTellEvery = 10;  // seconds

Error told_to_stop(const std::string& what) {
  return Error(ErrorKind::kCancelled, "asked to stop while " + what);
}

std::map<std::string, TensorSpec> specs_in(const shards::Tensors& list) {
  std::map<std::string, TensorSpec> specs;
  for (const shards::Named& told : list.tensors) specs[told.name] = described(told.form);
  return specs;
}

}  // namespace

void WorkerRun::place(distribute::VariableTable& table, FlatParameters& parameters,
                      const optim::TrainOp& train_op) {
  layout_ = std::make_unique<Layout>(table, parameters, train_op, connections_.options(),
                                     static_cast<int>(connections_.servers()));
  table_ = &table;
  parameters_ = &parameters;
  transfer_ = std::make_unique<Transfer>(connections_, *layout_, parameters);
  std::set<const Variable*> placed;
  for (size_t t = 0; t < parameters.tables().size(); ++t)
    placed.insert(&parameters.tables().variable(static_cast<int>(t)));
  for (const auto& variable : table.variables()) {
    // A variable that no optimizer trains is on no server.
    if (!placed.contains(variable.get())) table.bring_here(*variable);
  }
  for (size_t t = 0; t < parameters.tables().size(); ++t) {
    Variable* variable = table.find(parameters.tables().variable(static_cast<int>(t)).name());
    variable->read_rows_by(
        [this, t](const Tensor& ids) { return transfer_->read_rows(static_cast<int>(t), ids); });
  }
  if (!connections_.is_chief()) return;
  const Found found = look_for_state();
  live_ = found.generation > 0;
  generation_ = live_ ? found.generation : found.most + 1;
  written_at_ = -1;
  transfer_->set_generation(generation_);
  if (live_) {
    ask(0, shards::Compare{model_});
    log::info("continuing from the state that the parameter servers hold");
  } else {
    define();
  }
  for (size_t server = 0; server < connections_.servers(); ++server)
    held_.push_back(specs_in(ask(server, shards::Specs())));
}

WorkerRun::Found WorkerRun::look_for_state() {
  // Where all servers and the ledger are in one generation, the state is whole.
  const int64_t ledgers = ask_ledger(ledger::Status()).generation;
  Found found{.generation = ledgers, .most = ledgers};
  for (size_t server = 0; server < connections_.servers(); ++server) {
    const int64_t its = ask(server, shards::State()).generation;
    found.most = std::max(found.most, its);
    if (its != ledgers) found.generation = 0;
  }
  return found;
}

void WorkerRun::define() {
  connections_.at_all_servers([&](size_t server) {
    ask(server, shards::Define{.form = form_,
                               .model = model_,
                               .leads = server == 0,
                               .shards = layout_->shards_on(server)});
  });
}

void WorkerRun::check_chief(const char* what) const {
  if (connections_.is_chief()) return;
  throw invalid_argument(
      fmt::format("not supported: {} on {}: on parameter servers the chief alone has it", what,
                  connections_.task()),
      "let hooks that need the state (in_memory_evaluator) work on the chief, where "
      "RunInfo::is_chief is set");
}

void WorkerRun::look_at_servers() {
  for (size_t server = 0; server < connections_.servers(); ++server) {
    const int64_t its = ask(server, shards::State()).generation;
    if (its == generation_) continue;
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} was started again, and lacks the weights of this run",
                            connections_.server_name(server)));
  }
}

bool WorkerRun::has_penalties() const {
  return std::ranges::any_of(parameters_->parameters(), [](const auto& parameter) {
    return static_cast<bool>(parameter.variable->spec().regularizer);
  });
}

std::map<std::string, Tensor> WorkerRun::here() const {
  // Without data a worker has no model.
  if (table_ == nullptr) return {};
  std::map<std::string, Tensor> all = parameters_->slots();  // loss scales
  for (const auto& variable : table_->variables())
    all[variable->name()] = variable->value().detach();
  return all;
}

void WorkerRun::keep_own() {
  const std::map<std::string, TensorSpec> theirs = specs();
  shards::Keep kept;
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : here()) {
    if (theirs.contains(name)) continue;
    values.push_back(tensor.contiguous());
    kept.tensors.push_back({.name = name, .form = form_of(values.back())});
  }
  ask(0, kept, values);
}

void WorkerRun::take_own() {
  torch::NoGradGuard no_grad;
  const std::map<std::string, Tensor> own = here();
  ask(0, shards::Kept(), {}, [&](net::MessageSocket& socket, const shards::Tensors& kept) {
    for (const shards::Named& told : kept.tensors) {
      const Tensor value = receive_tensor_of(socket, told.form);
      const auto found = own.find(told.name);
      if (found != own.end()) Tensor(found->second).copy_(value);
    }
  });
}

distribute::SharedRun::Place WorkerRun::begin(const Start& start) {
  if (connections_.is_chief() && !live_) {
    keep_own();
    ask_ledger(ledger::Begin{.step = start.step,
                             .last_step = start.last_step(start.step),
                             .positions = start.positions});
  }
  Place place = join();
  if (place.over) return place;
  if (found_in_ && *found_in_ != generation_) {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("the run began again from a checkpoint (generation {}) while {} built "
                            "its model, whose data stands where generation {} had come",
                            generation_, connections_.task(), *found_in_));
  }
  // One without data has built no model.
  if (!connections_.is_chief() && !model_.empty()) ask(0, shards::Compare{model_});
  if (!connections_.is_chief()) take_own();
  if (transfer_) {
    transfer_->set_generation(generation_);
    transfer_->share_memory();
  }
  return place;
}

std::optional<distribute::SharedRun::Place> WorkerRun::find_place() {
  if (connections_.is_chief() && look_for_state().generation == 0) return std::nullopt;
  Place place = join();
  if (!place.over) found_in_ = generation_;
  return place;
}

std::string WorkerRun::batch_form() { return ask(0, shards::Form()).form; }

distribute::SharedRun::Place WorkerRun::join() {
  const TimePoint deadline =
      connections_.clock().now() + from_seconds(connections_.start().join_timeout);
  while (true) {
    const ledger::Joined joined = ask_ledger(ledger::Join{kPoll});
    if (joined.state == ledger::Joined::State::kBegun) {
      generation_ = joined.generation;
      step_ = joined.step;
      told_waiting_.reset();
      // A server that was started again has another generation, and the chief begins again.
      if (look_for_state().generation == generation_)
        return {.step = step_, .position = joined.position};
      connections_.clock().sleep_for(from_seconds(0.2));
    } else if (joined.state == ledger::Joined::State::kFinished) {
      // There was nothing to train.
      steps_ = Steps::kOver;
      return {.step = step_ = joined.step, .over = true};
    }
    if (connections_.told_to_stop()) throw told_to_stop("it waited for the chief");
    const std::string chief =
        plan::readable_task(connections_.start().cluster.workers.front().name());
    tell_waiting(chief);
    if (connections_.clock().now() > deadline) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("{} has not begun the run in {:.0f} s", chief,
                              connections_.start().join_timeout),
                  "look at the chief's log; RunConfig.join_timeout, or "
                  "ScopeOptions.join_timeout, is how long workers wait for it");
    }
  }
}

void WorkerRun::tell_waiting(const std::string& for_whom) {
  const TimePoint now = connections_.clock().now();
  if (!told_waiting_) told_waiting_ = now - from_seconds(kTellEvery / 2);
  if (to_seconds(now - *told_waiting_) < kTellEvery) return;
  told_waiting_ = now;
  log::info("waiting for " + for_whom);
}

bool WorkerRun::begin_step(bool also_when_told) {
  if (steps_ == Steps::kOver) return false;
  if (steps_ == Steps::kSentAhead) return also_when_told || !connections_.told_to_stop();
  std::optional<Transfer::Round> round;
  if (!claim(also_when_told, &round)) return false;
  transfer_->pull(round ? &*round : nullptr);
  return true;
}

bool WorkerRun::claim(bool also_when_told, std::optional<Transfer::Round>* round) {
  using State = StepLedger::Claim::State;
  // It may have come with the answer to the step before.
  if (ticket_ != 0 && (also_when_told || !connections_.told_to_stop())) return true;
  for (bool first = true; steps_ != Steps::kOver; first = false) {
    if (connections_.told_to_stop() && !(also_when_told && first)) return false;
    ledger::Claimed claim = ask_ledger(ledger::Claim{kPoll});
    if (claim.state == State::kOver) {
      step_ = claim.step;
      steps_ = Steps::kOver;
      return false;
    }
    if (claim.state == State::kGranted) {
      ticket_ = claim.ticket;
      told_waiting_.reset();
      *round = std::move(claim.round);
      return true;
    }
    look_at_servers();
    tell_waiting(claim.waits_for.empty() ? "the steps of other workers in progress"
                                         : claim.waits_for);
  }
  return false;
}

void WorkerRun::read_weights() {
  await_push();
  transfer_->pull(nullptr);
}

// A heartbeat that was on its way when the checkpoint was written does not know of it.
bool WorkerRun::save_wanted() { return connections_.wanted() > written_at_; }

int64_t WorkerRun::check() {
  await_push();
  look_at_servers();
  return step_ = ask_ledger(ledger::Status()).step;
}

bool WorkerRun::ended() {
  await_push();
  return ask_ledger(ledger::Status()).finished;
}

WorkerRun::Committed WorkerRun::make_step(const FlatParameters::Prepared& gradients,
                                          const Step& step) {
  torch::NoGradGuard no_grad;
  if (connections_.options().overlap) return send_off(gradients, step);
  const Parcel parcel = pack(gradients, step);
  ticket_ = 0;
  return note(deliver(parcel));
}

WorkerRun::Parcel WorkerRun::pack(const FlatParameters::Prepared& gradients, const Step& step) {
  ledger::Commit commit{.ticket = ticket_,
                        .position = position_ ? position_() : "",
                        .rows = step.rows,
                        .looked = transfer_->looked(),
                        .next = true,
                        .wait = kPoll};
  shards::Push push{
      .ticket = ticket_, .weight = step.weight, .mean = step.mean, .loss = step.loss.value_or(0)};
  if (!std::ranges::all_of(gradients.updates, std::identity())) push.updates = gradients.updates;
  // With one server, the ledger is where the gradients are: one message for both.
  if (connections_.servers() == 1) push.commit = commit;
  return {.push = transfer_->pack(gradients, push), .commit = std::move(commit)};
}

WorkerRun::Outcome WorkerRun::deliver(const Parcel& parcel) {
  auto told = transfer_->send(parcel.push);
  if (!told) told = ask_ledger(parcel.commit);
  return settle(*std::move(told), parcel.commit);
}

WorkerRun::Outcome WorkerRun::settle(ledger::Committed told, const ledger::Commit& commit) {
  using State = StepLedger::Commit::State;
  // For a cut, which is short, or for the gradients of others.
  for (; told.state == State::kWait; told = ask_ledger(commit)) {
    look_at_servers();
    if (connections_.options().replicas_to_aggregate > 0) tell_waiting("the gradients of others");
  }
  Outcome outcome{.committed = {.step = told.step,
                                .dropped = told.state == State::kDropped,
                                .rows = rows_ == 0 ? commit.rows : told.rows - rows_},
                  .ticket = told.next,
                  .learning_rates = std::move(told.rates)};
  rows_ = told.rows;
  // The first server has made the step with its commit.
  if (connections_.options().replicas_to_aggregate == 0 && connections_.servers() > 1) {
    const std::string apply = net::encode(
        shards::Request{generation_, shards::Apply{commit.ticket, std::move(told.factors)}});
    connections_.ask_each(
        1, std::vector<ServerConnections::Request>(connections_.servers() - 1, {.head = apply}));
  }
  return outcome;
}

WorkerRun::Committed WorkerRun::note(const Outcome& outcome) {
  told_waiting_.reset();
  step_ = outcome.committed.step;
  ticket_ = outcome.ticket;
  if (outcome.learning_rates) learning_rates_ = *outcome.learning_rates;
  return outcome.committed;
}

WorkerRun::Committed WorkerRun::send_off(const FlatParameters::Prepared& gradients,
                                         const Step& step) {
  await_push();
  const bool claimed = ticket_ != 0;
  std::optional<Transfer::Round> none;
  // A computed step that may not be made does not count: the position of the data stays.
  if (!claim(/*also_when_told=*/true, &none)) return {.step = step_, .dropped = true};
  // If the next step could not be claimed at once, its weights were not fetched either: they are at
  // most as old as the claim before theirs, as max_staleness assumes.
  if (!claimed && steps_ == Steps::kSentAhead) transfer_->fetch();
  auto parcel = std::make_shared<const Parcel>(pack(gradients, step));
  ticket_ = 0;
  transfer_->take_fetched();
  steps_ = Steps::kSentAhead;
  if (!push_task_) push_task_ = std::make_unique<BackgroundTask>(connections_.surroundings());
  const Committed expected{.step = step_ + 1, .rows = std::exchange(rows_of_last_, 0)};
  push_task_->send([this, parcel] {
    torch::NoGradGuard no_grad;
    outcome_ = deliver(*parcel);
    if (outcome_->ticket != 0) transfer_->fetch();
  });
  return expected.rows > 0 ? expected : Committed{.step = expected.step, .rows = step.rows};
}

void WorkerRun::await_push() {
  if (!push_task_) return;
  push_task_->wait();
  if (outcome_) rows_of_last_ = note(*std::exchange(outcome_, std::nullopt)).rows;
}

void WorkerRun::stop_push() noexcept {
  try {
    await_push();
  } catch (const std::exception& error) {
    log::debug(std::string("a step on its way was not made: ") + error.what());
  }
}

void WorkerRun::abandon() {
  await_push();
  if (ticket_ == 0) return;
  ask_ledger(ledger::Abandon());
  ticket_ = 0;
}

int64_t WorkerRun::end_steps(End end, const std::function<void(int64_t)>& others_go_on) {
  await_push();
  if (generation_ == 0) return step_;  // it never began
  abandon();
  switch (end) {
    case End::kOver:
      break;
    case End::kNoMoreData:
      ask_ledger(ledger::EndInput());
      break;
    case End::kAsked:
      ask_ledger(ledger::Stop{"a hook of " + connections_.task()});
      break;
    case End::kTold:
      if (!connections_.is_chief()) return step_;
      ask_ledger(ledger::Stop{connections_.task() + " was asked to stop"});
      break;
  }
  bool stopping = end == End::kTold;
  while (true) {
    const ledger::Standing told = ask_ledger(ledger::Settled{kPoll});
    step_ = told.step;
    if (told.settled) {
      connections_.note_end();
      if (connections_.is_chief() && told.why == "end of input" && !told.unfinished.empty()) {
        log::warning(
            fmt::format("{} did not reconnect: the rest of its data was not used for training",
                        muster::join(told.unfinished, ", ")));
      }
      if (connections_.is_chief()) tell_staleness();
      return step_;
    }
    if (connections_.told_to_stop() && !stopping) {
      if (!connections_.is_chief()) return step_;
      stopping = true;
      ask_ledger(ledger::Stop{connections_.task() + " was asked to stop"});
    }
    look_at_servers();
    if (others_go_on) others_go_on(step_);
    if (told.over) {
      tell_waiting("the chief, which ends the run");
      continue;
    }
    tell_waiting(told.awaited.empty() ? "the other workers" : muster::join(told.awaited, ", "));
  }
}

void WorkerRun::let_go() {
  await_push();
  ask_ledger(ledger::LetGo());
}

void WorkerRun::wait_for_leaving() {
  await_push();
  while (true) {
    const std::vector<std::string> here = ask_ledger(ledger::Others{kPoll}).tasks;
    if (here.empty()) return;
    look_at_servers();
    tell_waiting(muster::join(here, ", ") + " to leave");
  }
}

void WorkerRun::tell_staleness() {
  std::vector<std::string> all;
  const ledger::Measured told = ask_ledger(ledger::Measures());
  if (told.dropped > 0)
    log::info(fmt::format("{} gradients arrived too late for their update and were dropped",
                          told.dropped));
  if (connections_.options().replicas_to_aggregate > 0) return;
  for (const auto& [task, staleness] : told.tasks) {
    all.push_back(fmt::format("{} {:.1f} ({}) in {} steps", task, staleness.mean, staleness.p99,
                              staleness.steps));
  }
  if (all.size() < 2) return;
  log::info(
      "staleness: updates of other workers between reading the weights and updating them, mean "
      "(99th percentile): " +
      muster::join(all, "; "));
}

std::map<std::string, double> WorkerRun::measures() {
  await_push();
  std::map<std::string, double> all;
  const ledger::Measured told = ask_ledger(ledger::Measures());
  if (connections_.options().replicas_to_aggregate > 0)
    all["dropped_gradients"] = static_cast<double>(told.dropped);
  for (const auto& [task, staleness] : told.tasks) {
    std::string name = task;
    std::ranges::replace(name, ' ', '_');
    all["staleness/" + name + "/mean"] = staleness.mean;
    all["staleness/" + name + "/p99"] = static_cast<double>(staleness.p99);
  }
  return all;
}

}  // namespace muster::inline v0_1::ps
