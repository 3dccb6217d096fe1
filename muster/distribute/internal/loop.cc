#include "muster/distribute/internal/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/cluster/resolve.h"
#include "muster/distribute/restored_state.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::distribute {
namespace {

thread_local Loop* innermost = nullptr;

}  // namespace

// One call of run() and what the replicas bring to it.
struct Loop::Call {
  const RunOptions& options;
  const std::function<void(size_t)>& body;
  const std::function<int64_t(size_t)>& rows;
  StepResult result;                      // of the first replica here
  std::atomic<int> training{0}, idle{0};  // replicas whose function called minimize(), and did not

  // One that trains would wait for the others. Whoever comes later sees the difference.
  void compare(bool trains) {
    ++(trains ? training : idle);
    if (training == 0 || idle == 0) return;
    throw invalid_argument("minimize() was called on some replicas only",
                           "call it on all of them; a replica without examples has a loss of zero "
                           "rows, which counts for nothing");
  }
};

Loop::Loop(StrategyPtr strategy, const ScopeOptions& options) : strategy_(std::move(strategy)) {
  set_threads(0);
  const Environment environment =
      options.environment ? *options.environment : Environment::process();
  const cluster::ResolvedCluster resolved = cluster::resolve_cluster(
      environment, {.worker_zero_may_be_chief = strategy_->multi_worker()});
  if (resolved.is_evaluator || resolved.task.type == "ps") {
    throw invalid_argument(
        fmt::format("a task of type \"{}\" does not train", resolved.task.type),
        "not supported: evaluator and parameter-server tasks; start only chief and workers");
  }
  StartOptions start{.cluster = resolved,
                     .seed = options.seed,
                     .join_timeout = options.join_timeout,
                     .cancelled = options.cancelled};
  for (auto& session : strategy_->start_replicas(start)) {
    session->accumulate(options.accumulate_steps);
    replicas_.push_back(std::make_unique<Replica>(std::move(session)));
  }
  if (!(options.merge_timeout > 0)) {
    throw invalid_argument(fmt::format("ScopeOptions.merge_timeout is {}; it must be more than 0",
                                       options.merge_timeout));
  }
  merge_point_ =
      std::make_unique<MergePoint>(replicas_.size(), options.merge_timeout, session().replica_id());
  for (const auto& replica : replicas_) replica->context.set_merge_point(merge_point_.get());
  threads_ = std::make_unique<ReplicaThreads>(replicas_.size());
}

Loop* Loop::entered() { return innermost; }

void Loop::enter() {
  ++scopes_;
  innermost = this;
}

void Loop::leave(bool by_exception) noexcept {
  if (--scopes_ > 0) return;
  innermost = nullptr;
  try {
    if (broken_) {
      // The others know, or are gone.
    } else if (by_exception) {
      const Error error(ErrorKind::kInternal, "an exception left the scope of its strategy");
      for (const auto& replica : replicas_) replica->session->fail(error);
    } else {
      if (const int64_t waiting = session().accumulated(); waiting > 0) {
        log::warning(
            fmt::format("the scope of {} ended with {} of {} batches of an update: they are lost; "
                        "scope.apply_accumulated() makes a smaller one of them",
                        strategy_->name(), waiting, session().accumulate_steps()));
      }
      each([](Session& session, size_t) {
        // A process that left its loop too early meets the others' collectives here: an error that
        // names both, where a barrier would wait.
        session.reduce(ReduceOp::kSum, torch::zeros({}, at::kLong));
        session.finish();
      });
    }
  } catch (const std::exception& error) {
    log::warning(fmt::format("at the end of the scope of {}: {}", strategy_->name(), error.what()));
  }
  if (!broken_) broken_ = invalid_argument("the program left it", "enter a new one");
  // Data sets that were dealt in this scope may live on.
  threads_.reset();
  replicas_.clear();
}

void Loop::each(const std::function<void(Session&, size_t)>& fn) {
  if (ReplicaContext::inside()) {
    throw invalid_argument("a distributed data set was read inside of a replica function",
                           "read it between the calls of run(), and give run() the batch");
  }
  if (broken_) {
    throw Error(broken_->kind(), "the scope is over: " + broken_->message(), broken_->hint());
  }
  if (running_) {
    throw invalid_argument(
        "the strategy was called inside of merge(), while its replicas wait for that",
        "let merge() return, and call the strategy after run()");
  }
  running_ = true;
  const struct Running {
    bool& running;
    ~Running() { running = false; }
  } running{running_};
  try {
    threads_->run([&](size_t local, const std::function<void()>& failing) {
      Session& session = *replicas_[local]->session;
      const DeviceScope here(session.device());
      const auto fail = [&](const Error& error) {
        failing();
        session.fail(error);
        merge_point_->fail(local);
      };
      try {
        fn(session, local);
      } catch (const c10::Error& error) {
        const std::string said = muster::text_of(error);
        const Error converted = invalid_argument(
            fmt::format("LibTorch failed after step {}: {}", step_, said),
            !muster::tells_of_mixed_devices(said)
                ? ""
                : fmt::format("batches and variables are on {}: make other tensors there, with "
                              "ReplicaContext::current().device()",
                              session.device().str()));
        fail(converted);
        throw converted;
      } catch (...) {
        fail(current_error());
        throw;
      }
    });
  } catch (...) {
    broken_ = current_error();
    throw;
  }
}

void Loop::run(const RunOptions& options, const std::function<void(size_t)>& body,
               const std::function<int64_t(size_t)>& rows) {
  Call call{options, body, rows};
  each([&](Session&, size_t local) { make(*replicas_[local], local, call); });
  if (call.training == 0) return;
  built_ = true;
  note(call.result);
}

void Loop::note(const StepResult& result) {
  if (!result.updated) return;
  last_step_ = result;
  if (result.any_data) ++step_;
}

void Loop::apply_accumulated() {
  StepResult made;
  each([&](Session& session, size_t local) {
    const StepResult result = session.apply_accumulated();
    if (local == 0) made = result;
  });
  note(made);
}

void Loop::make(Replica& replica, size_t local, Call& call) {
  Session& session = *replica.session;
  const auto invoke = [&] {
    const torch::AutoGradMode gradients(call.options.training);
    const CallContext::Current layers(replica.calls);
    const ReplicaContext::Enter context(replica.context);
    optim::Recording recording;
    // Those of a function that did not train.
    for (const auto& variable : session.variables().variables()) variable->take_row_uses();
    replica.calls.begin_step(call.options.training, step_, session.replica_id(),
                             session.accumulated());
    replica.context.begin_step(step_, session.accumulated());
    merge_point_->enter(local, step_);
    call.body(local);
    merge_point_->leave(local);
    return recording.train_op();
  };
  // Whatever the program does between two calls, it is no step that takes too long.
  struct Between {
    Session& session;
    int64_t step;
    ~Between() { session.report(Phase::kEvaluating, step); }
  } between{session, step_};
  const bool builds = call.options.training && !built_;
  session.report(builds ? Phase::kBuilding : Phase::kTraining, step_);
  if (builds) {
    // The first call makes the variables; those that train move together before they are used.
    const optim::TrainOp described = invoke();
    call.compare(described.defined());
    session.end_of_function();
    if (!described.defined()) {
      if (restored_) {
        restore_variables(replica);
        (void)invoke();
      }
      return;
    }
    session.finish_build(described);
    if (session.is_chief() && restored_ && restored_->checkpoint) {
      restore_state(session, restored_->checkpoint->checkpoint, restored_->checkpoint->prefix);
      restored_->checkpoint.reset();
    }
    session.share_state("");
  } else if (restored_ && !built_) {
    // To evaluate what was restored: a first call makes the variables.
    (void)invoke();
    restore_variables(replica);
  }
  const int64_t examples = call.rows(local);
  // Statistics of no examples are not numbers.
  std::vector<Tensor> statistics;
  if (examples == 0) statistics = session.variables().copy_on_read();
  const optim::TrainOp train_op = invoke();
  call.compare(train_op.defined());
  if (train_op.defined()) {
    if (!call.options.training) {
      throw invalid_argument("minimize() was called in a run() without training",
                             "leave RunOptions.training at true");
    }
    const StepResult result = train(session, train_op, call.options, examples);
    if (local == 0) call.result = result;
    if (result.updated && result.any_data) between.step = step_ + 1;
  } else {
    session.end_of_function();
  }
  if (examples == 0) session.variables().put_back_on_read(statistics);
}

StepResult Loop::train(Session& session, const optim::TrainOp& train_op, const RunOptions& options,
                       int64_t examples) const {
  // A backward of the function's own may have left something.
  for (const auto& variable : session.variables().variables())
    variable->value().mutable_grad().reset();
  Tensor loss;
  std::vector<Tensor> losses;
  for (const auto& entry : train_op.entries) {
    if (std::ranges::any_of(losses, [&](const Tensor& known) { return known.is_same(entry.loss); }))
      continue;
    losses.push_back(entry.loss);
    loss = loss.defined() ? loss + entry.loss.detach() : entry.loss.detach();
  }
  try {
    return session.train_step({.train_op = &train_op,
                               .loss = loss,
                               .reduction = options.loss_reduction,
                               .weight = static_cast<double>(examples),
                               .has_data = examples > 0,
                               .rows = examples});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNonFinite) throw;
    throw Error(ErrorKind::kNonFinite, fmt::format("{} at step {}", error.message(), step_ + 1),
                "look at the data of this step, or lower the learning rate; nothing was updated");
  }
}

void Loop::check_values(size_t size, const char* what) const {
  if (size == replicas_.size()) return;
  throw invalid_argument(fmt::format("{} was given values of {} replicas; this process has {}",
                                     what, size, replicas_.size()),
                         "give it what run() returned");
}

Tensor Loop::reduce(ReduceOp op, const PerReplica<Tensor>& value, std::optional<int64_t> axis) {
  check_values(value.size(), "reduce()");
  Tensor result;
  each([&](Session& session, size_t local) {
    const torch::NoGradGuard no_grad;
    Tensor reduced;
    if (!axis) {
      reduced = session.reduce(op, value[local]);
    } else {
      reduced = session.reduce(ReduceOp::kSum, value[local].sum(*axis));
      const Tensor count = torch::full({}, value[local].size(*axis), at::kDouble);
      if (op == ReduceOp::kMean) {
        if (!value[local].is_floating_point()) (void)session.reduce(op, value[local]);  // refuses
        const Tensor all = session.reduce(ReduceOp::kSum, count);
        reduced = (reduced.to(at::kDouble) / all).to(reduced.scalar_type());
      }
    }
    if (local == 0) result = reduced;
  });
  return result;
}

Metric Loop::reduce(const PerReplica<Metric>& value) {
  check_values(value.size(), "reduce()");
  for (const Metric& metric : value) {
    if (metric.kind() == value[0].kind()) continue;
    throw invalid_argument(fmt::format("reduce() was given a {} of one replica and a {} of another",
                                       value[0].kind(), metric.kind()),
                           "return the same metric on all replicas");
  }
  std::optional<Metric> result;
  each([&](Session& session, size_t local) {
    const Metric& metric = value[local];
    const Tensor sums =
        session.reduce(ReduceOp::kSum, torch::tensor(metric.state(), at::kDouble));
    const double* first = sums.data_ptr<double>();
    if (local == 0) result = Metric::make(metric.kind(), {first, first + sums.numel()});
  });
  return *result;
}

Tensor Loop::gather(const PerReplica<Tensor>& value, int64_t axis) {
  check_values(value.size(), "gather()");
  Tensor result;
  each([&](Session& session, size_t local) {
    const Tensor& mine = value[local];
    if (mine.dim() == 0 || axis < -mine.dim() || axis >= mine.dim()) {
      throw invalid_argument(fmt::format("gather() of {} along axis {}", describe(mine), axis),
                             "the value needs that axis; unsqueeze(0) gives a scalar one");
    }
    const int64_t along = axis < 0 ? axis + mine.dim() : axis;
    const std::vector<Tensor> parts = session.gather(mine, along);
    if (local == 0) result = torch::cat(parts, along);
  });
  return result;
}

}  // namespace muster::inline v0_1::distribute
