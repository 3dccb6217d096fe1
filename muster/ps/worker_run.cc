#include "muster/ps/internal/worker_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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
using nlohmann::json;

namespace {

constexpr double kPoll = 1;        // seconds that the ledger lets a request wait
constexpr double kTellEvery = 10;  // seconds

Error told_to_stop(const std::string& what) {
  return Error(ErrorKind::kCancelled, "told to stop while " + what);
}

// Views of consecutive rows.
Tensor rows_of(const Tensor& tensor, const plan::Shard& shard) {
  return shard.parts == 1 ? tensor : tensor.narrow(0, shard.begin, shard.end - shard.begin);
}

std::map<std::string, TensorSpec> specs_in(const json& list) {
  std::map<std::string, TensorSpec> specs;
  for (const json& told : list)
    specs[told.at("name").get<std::string>()] = {told.at("shape").get<Shape>(),
                                                 static_cast<DType>(told.at("dtype").get<int>())};
  return specs;
}

}  // namespace

json WorkerRun::ask(size_t server, json request, std::span<const Tensor> tensors,
                    const std::function<void(net::MessageSocket&, const json&)>& receive) {
  request["generation"] = generation_;
  return session_.ask(server, request, tensors, receive);
}

json WorkerRun::ask_ledger(json request) {
  request["generation"] = generation_;
  return session_.ask_ledger(std::move(request));
}

void WorkerRun::place(distribute::VariableTable& table, FlatParameters& parameters,
                      const optim::TrainOp& train_op) {
  layout_ = std::make_unique<Layout>(table, parameters, train_op, session_.options(),
                                     static_cast<int>(session_.servers()));
  table_ = &table;
  parameters_ = &parameters;
  std::set<const Variable*> placed;
  for (size_t t = 0; t < parameters.tables().size(); ++t)
    placed.insert(&parameters.tables().variable(static_cast<int>(t)));
  for (const auto& variable : table.variables()) {
    // One that no optimizer trains is on no server.
    if (!placed.contains(variable.get())) table.bring_here(*variable);
  }
  for (size_t t = 0; t < parameters.tables().size(); ++t) {
    Variable* variable = table.find(parameters.tables().variable(static_cast<int>(t)).name());
    variable->read_rows_by(
        [this, t](const Tensor& ids) { return read_rows(static_cast<int>(t), ids); });
  }
  if (!session_.is_chief()) return;
  // Where all servers and the ledger are in one generation, the state is whole.
  int64_t most = 0;
  const int64_t ledgers = session_.ask_ledger({{"op", "status"}}).at("generation").get<int64_t>();
  bool alike = ledgers > 0;
  for (size_t server = 0; server < session_.servers(); ++server) {
    const int64_t its = session_.ask(server, {{"op", "state"}}).at("generation").get<int64_t>();
    most = std::max(most, its);
    alike = alike && its == ledgers;
  }
  live_ = alike;
  generation_ = live_ ? ledgers : std::max(most, ledgers) + 1;
  if (live_) {
    ask(0, {{"op", "compare"}, {"model", model_}});
    log::info("the parameter servers hold the state of this run: going on from there");
  } else {
    define();
  }
  for (size_t server = 0; server < session_.servers(); ++server)
    held_.push_back(specs_in(ask(server, {{"op", "specs"}}).at("tensors")));
}

void WorkerRun::define() {
  session_.at_all_servers([&](size_t server) {
    ask(server, {{"op", "define"},
                 {"form", form_},
                 {"model", model_},
                 {"shards", layout_->shards_on(server)}});
  });
}

void WorkerRun::check_chief(const char* what) const {
  if (session_.is_chief()) return;
  throw invalid_argument(
      fmt::format("not supported: {} on {}: on parameter servers the chief alone has it", what,
                  session_.task()),
      "let hooks that need the state (in_memory_evaluator) work on the chief, where "
      "RunInfo::is_chief is set");
}

void WorkerRun::look_at_servers() {
  for (size_t server = 0; server < session_.servers(); ++server) {
    const int64_t its = session_.ask(server, {{"op", "state"}}).at("generation").get<int64_t>();
    if (its == generation_) continue;
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} was started again, and lacks the weights of this run",
                            session_.server_name(server)));
  }
}

bool WorkerRun::has_penalties() const {
  return std::ranges::any_of(parameters_->parameters(), [](const auto& parameter) {
    return static_cast<bool>(parameter.variable->spec().regularizer);
  });
}

void WorkerRun::keep_own() {
  const std::map<std::string, TensorSpec> theirs = specs();
  json list = json::array();
  std::vector<Tensor> values;
  for (const auto& variable : table_->variables()) {
    if (theirs.contains(variable->name())) continue;
    const Tensor value = variable->value().detach().contiguous();
    list.push_back({{"name", variable->name()},
                    {"shape", value.sizes().vec()},
                    {"dtype", static_cast<int>(value.scalar_type())}});
    values.push_back(value);
  }
  ask(0, {{"op", "keep"}, {"tensors", list}}, values);
}

void WorkerRun::take_own() {
  torch::NoGradGuard no_grad;
  ask(0, {{"op", "kept"}}, {}, [&](net::MessageSocket& socket, const json& head) {
    for (const json& told : head.at("tensors")) {
      const Tensor value = torch::empty(told.at("shape").get<Shape>(),
                                        at::dtype(static_cast<DType>(told.at("dtype").get<int>())));
      receive_tensor(socket, value);
      // Of a worker without data there is no model.
      Variable* variable =
          table_ != nullptr ? table_->find(told.at("name").get<std::string>()) : nullptr;
      if (variable != nullptr) variable->value().detach().copy_(value);
    }
  });
}

std::map<std::string, TensorSpec> WorkerRun::specs() {
  check_chief("the state of the run");
  std::map<std::string, TensorSpec> all;
  for (const auto& held : held_) {
    for (const auto& [name, spec] : held) {
      const Layout::Named logical = layout_->logical(name);
      const auto [found, fresh] = all.emplace(logical.name, spec);
      if (!fresh && logical.parts > 1 && !spec.shape.empty())
        found->second.shape[0] += spec.shape[0];
    }
  }
  return all;
}

void WorkerRun::write(const std::map<std::string, Tensor>& tensors) {
  // Where the parts of each tensor begin: in the order of the parts, whatever the servers.
  std::map<std::string, std::map<int, int64_t>> rows;
  for (const auto& held : held_) {
    for (const auto& [name, spec] : held) {
      const Layout::Named logical = layout_->logical(name);
      if (logical.parts > 1)
        rows[logical.name][logical.part] = spec.shape.empty() ? 0 : spec.shape[0];
    }
  }
  session_.at_all_servers([&](size_t server) {
    json list = json::array();
    std::vector<Tensor> values;
    for (const auto& [name, spec] : held_[server]) {
      const Layout::Named logical = layout_->logical(name);
      const auto found = tensors.find(logical.name);
      if (found == tensors.end()) continue;
      Tensor value = found->second;
      if (logical.parts > 1) {
        int64_t begin = 0;
        for (const auto& [part, count] : rows.at(logical.name)) {
          if (part < logical.part) begin += count;
        }
        value = value.narrow(0, begin, spec.shape[0]);
      }
      list.push_back(
          {{"name", name}, {"shape", spec.shape}, {"dtype", static_cast<int>(spec.dtype)}});
      values.push_back(value.contiguous());
    }
    ask(server, {{"op", "write"}, {"tensors", list}}, values);
  });
}

distribute::SharedRun::Cut WorkerRun::read() {
  check_chief("the state of the run");
  const json paused = ask_ledger({{"op", "pause"}});
  json request{{"op", "snapshot"}, {"commits", paused.at("commits")}};
  if (paused.contains("round")) request["round"] = paused.at("round");
  try {
    session_.at_all_servers([&](size_t server) { ask(server, request); });
  } catch (...) {
    try {
      ask_ledger({{"op", "resume"}});
    } catch (const Error&) {
      // What went wrong first is what counts; the ledger goes on when this task is gone.
    }
    throw;
  }
  // Every server has a copy: the workers go on while it travels.
  if (!ask_ledger({{"op", "resume"}}).value("held", true)) {
    throw Error(ErrorKind::kPeerLost,
                "this task stood still for so long that the others went on without it; nothing was "
                "saved of what it had read");
  }
  Cut cut{.step = paused.at("step").get<int64_t>(),
          .positions = paused.at("positions").get<std::vector<std::string>>()};
  std::vector<std::map<std::string, Tensor>> theirs(session_.servers());
  session_.at_all_servers([&](size_t server) {
    session_.receive_more(server, [&](net::MessageSocket& socket) {
      for (const auto& [name, spec] : held_[server]) {
        const Tensor tensor = torch::empty(spec.shape, at::dtype(spec.dtype));
        receive_tensor(socket, tensor);
        theirs[server][name] = tensor;
      }
    });
  });
  std::map<std::string, std::map<int, Tensor>> parts;
  for (const auto& tensors : theirs) {
    for (const auto& [name, tensor] : tensors) {
      const Layout::Named logical = layout_->logical(name);
      if (logical.parts == 1) {
        cut.tensors.emplace(logical.name, tensor);
      } else {
        parts[logical.name][logical.part] = tensor;
      }
    }
  }
  for (const auto& [name, by_part] : parts) {
    std::vector<Tensor> pieces;
    for (const auto& [part, tensor] : by_part) pieces.push_back(tensor);
    cut.tensors[name] = torch::cat(pieces, 0);
  }
  return cut;
}

distribute::SharedRun::Place WorkerRun::begin(const Start& start) {
  if (session_.is_chief() && !live_) {
    json begin{{"op", "begin"}, {"step", start.step}, {"positions", start.positions}};
    if (const auto last = start.last_step(start.step)) begin["last_step"] = *last;
    keep_own();
    ask_ledger(begin);
  }
  const TimePoint deadline = system_clock().now() + from_seconds(session_.start().join_timeout);
  while (true) {
    const json joined = session_.ask_ledger(
        {{"op", "join"}, {"incarnation", session_.incarnation()}, {"wait", kPoll}});
    const std::string state = joined.at("state").get<std::string>();
    if (state == "begun") {
      generation_ = joined.at("generation").get<int64_t>();
      step_ = joined.at("step").get<int64_t>();
      told_waiting_.reset();
      // A server that was started again has another generation, and the chief begins anew.
      bool alike = true;
      for (size_t server = 0; alike && server < session_.servers(); ++server)
        alike = session_.ask(server, {{"op", "state"}}).at("generation") == generation_;
      if (alike) {
        // One without data has built no model.
        if (!session_.is_chief() && !model_.empty()) ask(0, {{"op", "compare"}, {"model", model_}});
        if (!session_.is_chief()) take_own();
        return {.step = step_, .position = joined.at("position").get<std::string>()};
      }
      system_clock().sleep_for(from_seconds(0.2));
    } else if (state == "finished") {
      // There was nothing to train.
      over_ = true;
      return {.step = step_ = joined.at("step").get<int64_t>()};
    }
    if (session_.told_to_stop()) throw told_to_stop("it waited for the chief");
    const std::string chief = plan::readable_task(session_.start().cluster.workers.front().name());
    tell_waiting(chief);
    if (system_clock().now() > deadline) {
      throw Error(
          ErrorKind::kTimeout,
          fmt::format("{} has not begun the run in {:.0f} s", chief, session_.start().join_timeout),
          "look at the chief's log; RunConfig.session_creation_timeout_secs is how long "
          "workers wait for it");
    }
  }
}

void WorkerRun::tell_waiting(const std::string& for_whom) {
  const TimePoint now = system_clock().now();
  if (!told_waiting_) told_waiting_ = now - from_seconds(kTellEvery / 2);
  if (to_seconds(now - *told_waiting_) < kTellEvery) return;
  told_waiting_ = now;
  log::info("waiting for " + for_whom);
}

Tensor WorkerRun::memory_of(const Layout::Part& part) const {
  const auto& parameter = parameters_->parameters()[static_cast<size_t>(part.parameter)];
  return rows_of(parameter.variable->value().detach(), part.shard);
}

bool WorkerRun::begin_step() {
  ticket_ = 0;
  while (!over_) {
    if (session_.told_to_stop()) return false;
    const json claim = ask_ledger({{"op", "claim"}, {"wait", kPoll}});
    const std::string state = claim.at("state").get<std::string>();
    if (state == "over") {
      step_ = claim.at("step").get<int64_t>();
      over_ = true;
    } else if (state == "granted") {
      ticket_ = claim.at("ticket").get<int64_t>();
      round_.reset();
      if (claim.contains("round")) round_ = std::make_unique<json>(claim.at("round"));
      told_waiting_.reset();
      pull();
      return true;
    }
    if (!over_) look_at_servers();
    if (!over_) tell_waiting(claim.value("for", "the steps that others are making"));
  }
  return false;
}

void WorkerRun::pull() {
  session_.at_all_servers([&](size_t server) {
    const auto& parts = layout_->parts_on(server);
    const bool none =
        std::ranges::none_of(parts, [&](size_t p) { return layout_->parts()[p].parameter >= 0; });
    if (none && !round_) return;
    json request{{"op", "pull"}};
    if (round_) request["round"] = *round_;
    ask(server, request, {}, [&](net::MessageSocket& socket, const json&) {
      for (const size_t p : parts) {
        const Layout::Part& part = layout_->parts()[p];
        if (part.parameter >= 0)
          receive_rounded(socket, memory_of(part), session_.options().wire_dtype);
      }
    });
  });
  // Whoever keeps something made of the weights must notice, as after an update.
  for (const auto& buffer : parameters_->buffers())
    buffer.weights.unsafeGetTensorImpl()->bump_version();
}

Tensor WorkerRun::read_rows(int table, const Tensor& ids) {
  torch::NoGradGuard no_grad;
  const Variable& variable = parameters_->tables().variable(table);
  Shape shape = variable.spec().shape;
  shape[0] = ids.numel();
  Tensor rows = torch::empty(shape, at::dtype(variable.spec().dtype));
  if (ids.numel() == 0) return rows;
  const int64_t* numbers = ids.data_ptr<int64_t>();
  // Ids are sorted, and a part has consecutive rows: so what one server has is one piece.
  struct Piece {
    size_t part;
    int64_t begin;
    int64_t end;
  };
  std::vector<std::vector<Piece>> pieces(session_.servers());
  int64_t at = 0;
  for (const size_t p : layout_->parts_of_table(table)) {
    const plan::Shard& shard = layout_->parts()[p].shard;
    const int64_t end = std::lower_bound(numbers + at, numbers + ids.numel(), shard.end) - numbers;
    if (end > at) pieces[static_cast<size_t>(shard.server)].push_back({p, at, end});
    at = end;
  }
  session_.at_all_servers([&](size_t server) {
    if (pieces[server].empty()) return;
    json shards = json::array();
    std::vector<Tensor> asked;
    for (const Piece& piece : pieces[server]) {
      const Layout::Part& part = layout_->parts()[piece.part];
      shards.push_back({{"shard", part.place}, {"rows", piece.end - piece.begin}});
      asked.push_back(ids.slice(0, piece.begin, piece.end) - part.shard.begin);
    }
    ask(server, {{"op", "rows"}, {"shards", shards}}, asked,
        [&](net::MessageSocket& socket, const json&) {
          for (const Piece& piece : pieces[server])
            receive_rounded(socket, rows.slice(0, piece.begin, piece.end),
                            session_.options().wire_dtype);
        });
  });
  return rows;
}

void WorkerRun::push(const FlatParameters::Prepared& gradients, double weight, bool mean) {
  torch::NoGradGuard no_grad;
  const DType wire_dtype = session_.options().wire_dtype;
  session_.at_all_servers([&](size_t server) {
    json dense = json::array(), rows = json::array();
    std::vector<Tensor> tensors, row_tensors;
    for (const size_t p : layout_->parts_on(server)) {
      const Layout::Part& part = layout_->parts()[p];
      if (part.parameter >= 0) {
        const Tensor& gradient = gradients.gradients[static_cast<size_t>(part.parameter)];
        if (!gradient.defined()) continue;
        dense.push_back(part.place);
        tensors.push_back(rounded(rows_of(gradient, part.shard), wire_dtype));
        continue;
      }
      const auto& gradient = gradients.rows[static_cast<size_t>(part.table)];
      const int64_t* ids = gradient.ids.data_ptr<int64_t>();
      const int64_t* end = ids + gradient.ids.numel();
      const int64_t from = std::lower_bound(ids, end, part.shard.begin) - ids;
      const int64_t to = std::lower_bound(ids, end, part.shard.end) - ids;
      if (from == to) continue;
      rows.push_back({{"shard", part.place}, {"rows", to - from}});
      row_tensors.push_back(gradient.ids.slice(0, from, to) - part.shard.begin);
      row_tensors.push_back(rounded(gradient.values.slice(0, from, to), wire_dtype));
    }
    tensors.insert(tensors.end(), row_tensors.begin(), row_tensors.end());
    ask(server,
        {{"op", "push"},
         {"ticket", ticket_},
         {"weight", weight},
         {"mean", mean},
         {"dense", dense},
         {"rows", rows}},
        tensors);
  });
}

WorkerRun::Committed WorkerRun::commit(int64_t rows) {
  Committed committed;
  const std::string position = position_ ? position_() : "";
  while (true) {
    const json told = ask_ledger({{"op", "commit"},
                                  {"ticket", ticket_},
                                  {"position", position},
                                  {"rows", rows},
                                  {"wait", kPoll}});
    // For a cut, which is short, or for the gradients of others.
    if (told.at("state") == "waiting") {
      look_at_servers();
      if (session_.options().replicas_to_aggregate > 0) tell_waiting("the gradients of others");
      continue;
    }
    told_waiting_.reset();
    committed.dropped = told.at("state") == "dropped";
    if (told.contains("rates"))
      learning_rates_ = told.at("rates").get<std::map<std::string, double>>();
    committed.step = step_ = told.at("step").get<int64_t>();
    const auto so_far = told.at("rows").get<int64_t>();
    committed.rows = rows_ == 0 ? rows : so_far - rows_;
    rows_ = so_far;
    break;
  }
  // The first server has made the step with its commit.
  const json apply{{"op", "apply"}, {"ticket", ticket_}};
  if (session_.servers() > 1 && session_.options().replicas_to_aggregate == 0) {
    session_.at_all_servers([&](size_t server) {
      if (server > 0) ask(server, apply);
    });
  }
  ticket_ = 0;
  return committed;
}

void WorkerRun::abandon() {
  if (ticket_ == 0) return;
  ask_ledger({{"op", "abandon"}});
  ticket_ = 0;
}

int64_t WorkerRun::end_steps(End end, const std::function<void(int64_t)>& others_go_on) {
  if (generation_ == 0) return step_;  // it never began
  abandon();
  switch (end) {
    case End::kOver:
      break;
    case End::kNoMoreData:
      ask_ledger({{"op", "end_input"}});
      break;
    case End::kAsked:
      ask_ledger({{"op", "stop"}, {"why", "a hook of " + session_.task()}});
      break;
    case End::kTold:
      if (!session_.is_chief()) return step_;
      ask_ledger({{"op", "stop"}, {"why", session_.task() + " was told to stop"}});
      break;
  }
  bool stopping = end == End::kTold;
  while (true) {
    const json told = ask_ledger({{"op", "settled"}, {"wait", kPoll}});
    step_ = told.at("step").get<int64_t>();
    if (told.at("settled").get<bool>()) {
      const auto unfinished = told.at("unfinished").get<std::vector<std::string>>();
      if (session_.is_chief() && told.at("why") == "end of input" && !unfinished.empty()) {
        log::warning(fmt::format("{} did not come back: the rest of its data was not trained on",
                                 join(unfinished, ", ")));
      }
      if (session_.is_chief()) tell_staleness();
      return step_;
    }
    if (session_.told_to_stop() && !stopping) {
      if (!session_.is_chief()) return step_;
      stopping = true;
      ask_ledger({{"op", "stop"}, {"why", session_.task() + " was told to stop"}});
    }
    look_at_servers();
    if (others_go_on) others_go_on(step_);
    const auto unfinished = told.at("unfinished").get<std::vector<std::string>>();
    tell_waiting(unfinished.empty() ? "the other workers" : join(unfinished, ", "));
  }
}

void WorkerRun::tell_staleness() {
  std::vector<std::string> all;
  const json told = ask_ledger({{"op", "measures"}});
  if (const auto dropped = told.at("dropped").get<int64_t>(); dropped > 0)
    log::info(
        fmt::format("{} gradients came too late for their update, and were dropped", dropped));
  if (session_.options().replicas_to_aggregate > 0) return;
  for (const auto& [task, staleness] : told.at("tasks").items()) {
    all.push_back(
        fmt::format("{} {:.1f} ({}) in {} steps", task, staleness.at("mean").get<double>(),
                    staleness.at("p99").get<int64_t>(), staleness.at("steps").get<int64_t>()));
  }
  if (all.size() < 2) return;
  log::info(
      "updates of others between a worker's look at the weights and its own update, mean (99 "
      "% at most): " +
      join(all, "; "));
}

std::map<std::string, double> WorkerRun::measures() {
  std::map<std::string, double> all;
  const json told = ask_ledger({{"op", "measures"}});
  if (session_.options().replicas_to_aggregate > 0)
    all["dropped_gradients"] = told.at("dropped").get<double>();
  for (const auto& [task, staleness] : told.at("tasks").items()) {
    std::string name = task;
    std::ranges::replace(name, ' ', '_');
    all["staleness/" + name + "/mean"] = staleness.at("mean").get<double>();
    all["staleness/" + name + "/p99"] = staleness.at("p99").get<double>();
  }
  return all;
}

void WorkerRun::read_weights() { pull(); }

int64_t WorkerRun::check() {
  look_at_servers();
  return step_ = session_.ask_ledger({{"op", "status"}}).at("step").get<int64_t>();
}

bool WorkerRun::ended() { return session_.ask_ledger({{"op", "status"}}).contains("finished"); }

}  // namespace muster::inline v0_1::ps
