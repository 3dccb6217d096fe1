#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "muster/base/error.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/bucket_choice.h"
#include "muster/distribute/internal/backward.h"
#include "muster/distribute/internal/finite_penalty.h"
#include "muster/distribute/internal/mismatch.h"
#include "muster/distribute/reducer.h"
#include "muster/distribute/updater.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The numbers of a step that travel in front of the gradients; kPenalty only where there is one.
enum Head {
  kWeight,
  kLoss,
  kHasData,
  kRows,
  kStop,
  kSave,
  kProfileSteps,
  kMeans,
  kPenalty,
  kHeadNumbers
};

class ReducingUpdater final : public Updater {
 public:
  ReducingUpdater(const ReplicaPlace& place, Communicator& communicator, Group& group,
                  Exchange& exchange, const WireOptions& wire)
      : place_(place), communicator_(communicator), group_(group), wire_(wire) {
    exchange.before_collective([this] {
      if (reducer_) reducer_->other_collective();
    });
  }

  std::vector<std::string> agreements() const override {
    std::vector<std::string> lines;
    if (wire_.bytes_per_pack)
      lines.push_back(fmt::format("buckets of {} bytes", *wire_.bytes_per_pack));
    if (wire_.wire_dtype != kFloat32)
      lines.push_back("gradients travel as " + dtype_name(wire_.wire_dtype));
    return lines;
  }

  void build(VariableTable& table, const optim::TrainOp& train_op) override {
    backward_ = std::make_unique<internal::Backward>(table, place_.is_chief());
    parameters_ = std::make_unique<FlatParameters>(
        table, train_op, [&](int64_t bytes) { return communicator_.allocate(bytes); });
    const GradientLayout layout = parameters_->layout();
    table_ = &table;
    regularized_ = std::ranges::any_of(table.variables(), [](const auto& variable) {
      return static_cast<bool>(variable->spec().regularizer);
    });
    reducer_ = std::make_unique<Reducer>(
        communicator_, layout, regularized_ ? kHeadNumbers : kPenalty,
        choose_buckets(communicator_, layout.bytes(), wire_.bytes_per_pack, place_.is_chief()),
        wire_.wire_dtype);
  }

  void add(const optim::TrainOp& train_op, double seed, Turn turn) override {
    group_.explained([&] {
      reducer_->begin(turn.first, turn.last);
      {
        const GradientDestinations::Scope here(*reducer_);
        backward_->run(train_op, *parameters_, seed);
      }
      reducer_->pause();
      parameters_->tables().collect();
    });
  }

  Updated update(const optim::TrainOp& train_op, const Accumulated& accumulated) override {
    return group_.explained([&] {
      const auto start = SteadyClock::now();
      std::optional<plan::InActivity> communicates(plan::Activity::kCommunication);
      const std::vector<double>& head = reduce(accumulated);
      Updated updated{.result = {.any_data = head[kHasData] > 0,
                                 .rows = static_cast<int64_t>(head[kRows]),
                                 .stop = head[kStop] > 0,
                                 .save = head[kSave] > 0,
                                 .profile_steps = static_cast<int64_t>(head[kProfileSteps])}};
      auto reduced = SteadyClock::now();
      updated.reduction = seconds_between(start, reduced);
      const std::vector<RowGradient> mine = parameters_->tables().take();
      check_reduction(head[kMeans], accumulated);
      if (!updated.result.any_data) return updated;
      if (!check_finite(head, accumulated)) {
        updated.result.loss = head[kLoss];
        updated.result.finite = false;
        return updated;
      }
      if (accumulated.mean() ? head[kWeight] > 0 : head[kRows] > 0) {
        const double scale = accumulated.mean() ? 1.0 / head[kWeight] : 1.0;
        // All weights are equal, so one replica tells their penalty; it is neither weighed nor
        // added up.
        updated.result.loss = head[kLoss] * scale + penalty(head, accumulated);
        const std::vector<RowGradient> rows = exchange_rows(communicator_, mine);
        communicates.reset();
        if (accumulated.report_non_finite &&
            !(std::isfinite(updated.result.loss) &&
              parameters_->finite(reducer_->gradients(), reducer_->used(), rows))) {
          updated.result.finite = false;
          return updated;
        }
        updated.reduction = seconds_between(start, SteadyClock::now());
        reduced = SteadyClock::now();
        parameters_->check_some_gradient(train_op, reducer_->used());
        parameters_->update_flat(train_op, reducer_->gradients(), reducer_->used(), rows, scale);
        parameters_->note_loss(updated.result.loss);
      }
      run_updates(train_op);
      updated.update = seconds_between(reduced, SteadyClock::now());
      return updated;
    });
  }

  void record_into(SpanRecorder* recorder) override { reducer_->record_into(recorder); }

  std::map<std::string, double> learning_rates() const override {
    return parameters_->learning_rates();
  }
  std::map<std::string, Tensor> slots() const override { return parameters_->slots(); }
  std::vector<Tensor> pieces() const override { return parameters_->pieces(); }

 private:
  // The numbers of the step over all replicas; with them the gradients are complete.
  const std::vector<double>& reduce(const Accumulated& accumulated) {
    std::vector<double> mine{accumulated.weight,
                             accumulated.loss,
                             accumulated.has_data ? 1.0 : 0.0,
                             static_cast<double>(accumulated.rows),
                             accumulated.stop ? 1.0 : 0.0,
                             accumulated.save ? 1.0 : 0.0,
                             static_cast<double>(accumulated.profile_steps),
                             accumulated.mean() ? 1.0 : 0.0};
    if (regularized_)
      mine.push_back(place_.is_chief() ? regularization_loss(*table_).item<double>() : 0);
    internal::meet_at(
        fmt::format("{} is in the update of a step, in run() or fit()", place_.name()),
        [&] { reducer_->finish(mine); });
    return reducer_->head();
  }

  // The weights are new already: a state in between must not go on in memory, as that of an elastic
  // run does when a worker is lost.
  void run_updates(const optim::TrainOp& train_op) {
    try {
      for (const auto& update : train_op.updates) update();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost) throw;
      const Error cause = group_.explain(error);
      throw Error(ErrorKind::kUnavailable,
                  cause.message() + ", in the middle of TrainOp::updates of this task",
                  cause.hint());
    }
  }

  // Of the regularizers.
  double penalty(const std::vector<double>& head, const Accumulated& accumulated) const {
    if (!regularized_) return 0;
    return accumulated.report_non_finite ? head[kPenalty]
                                         : internal::finite_penalty(head[kPenalty]);
  }

  // A replica that adds losses while the others average them would make another update. All
  // replicas see the sum, so all of them compare their settings.
  void check_reduction(double means, const Accumulated& accumulated) {
    if (means == 0 || means == place_.replicas()) return;
    check_same(group_, place_, {{"loss_reduction", accumulated.mean() ? "mean" : "sum"}},
               {.said = "the tasks of this run differ in a step",
                .hint = "give run() the same options on every task, and change them after the "
                        "same step"});
  }

  // Whether loss and weight are; where that is not to be reported, it throws.
  bool check_finite(const std::vector<double>& head, const Accumulated& accumulated) {
    if (std::isfinite(head[kLoss]) && std::isfinite(head[kWeight])) return true;
    if (accumulated.report_non_finite) return false;
    const Error error(ErrorKind::kNonFinite,
                      fmt::format("the loss over all replicas is {} (this one's: {})", head[kLoss],
                                  accumulated.last_loss));
    // The replica it comes from can say which number is to blame; the others wait for that.
    if (std::isfinite(accumulated.loss)) group_.await_failure();
    throw error;
  }

  const ReplicaPlace place_;
  Communicator& communicator_;
  Group& group_;
  const WireOptions wire_;
  const VariableTable* table_ = nullptr;
  bool regularized_ = false;  // some variable has a penalty
  std::unique_ptr<internal::Backward> backward_;
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Updater> make_reducing_updater(const ReplicaPlace& place,
                                               Communicator& communicator, Group& group,
                                               Exchange& exchange, const WireOptions& wire) {
  return std::make_unique<ReducingUpdater>(place, communicator, group, exchange, wire);
}

}  // namespace muster::inline v0_1::distribute
