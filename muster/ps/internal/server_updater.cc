#include "muster/ps/internal/server_updater.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/optim/optimizer.h"
#include "muster/plan/activity.h"

namespace muster::inline v0_1::ps {
namespace {

using distribute::FlatParameters;

// Replaces the rule of an optimizer whose updates are made elsewhere: it keeps nothing here.
class RuleElsewhere final : public optim::UpdateRule {
 public:
  explicit RuleElsewhere(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<optim::SlotSpec> slots() const override { return {}; }
  double learning_rate() const override { return 0; }
  void update(const optim::Segment&, int64_t) const override {
    throw internal_error("an update of " + name_ + " was to be made on a worker");
  }

 private:
  const std::string name_;
};

optim::TrainOp with_rules_elsewhere(const optim::TrainOp& train_op) {
  optim::TrainOp changed = train_op;
  std::map<const optim::UpdateRule*, std::shared_ptr<const optim::UpdateRule>> made;
  for (auto& entry : changed.entries) {
    auto& rule = made[&entry.optimizer.rule()];
    if (!rule) rule = std::make_shared<RuleElsewhere>(entry.optimizer.rule().name());
    entry.optimizer = entry.optimizer.around(
        [&](const std::shared_ptr<const optim::UpdateRule>&) { return rule; });
  }
  return changed;
}

class ServerUpdater final : public distribute::Updater {
 public:
  ServerUpdater(std::unique_ptr<WorkerRun> run, bool together)
      : run_(std::move(run)),
        together_(together),
        here_(distribute::make_in_place_updater(
            [this](FlatParameters& parameters, const optim::TrainOp& train_op, double scale) {
              gradients_ = parameters.take_prepared(train_op, scale);
            },
            [this](FlatParameters& parameters) { run_->place(*table_, parameters, *building_); })) {
  }

  distribute::SharedRun* shared() override { return run_.get(); }

  void build(distribute::VariableTable& table, const optim::TrainOp& train_op) override {
    table_ = &table;
    follows_loss_ = std::ranges::any_of(train_op.entries, [](const auto& entry) {
      return entry.optimizer.reduction().has_value();
    });
    building_ = &train_op;
    here_->build(table, with_rules_elsewhere(train_op));
    building_ = nullptr;
  }

  void add(const optim::TrainOp& train_op, double seed, distribute::Turn turn) override {
    here_->add(train_op, seed, turn);
  }

  distribute::Updated update(const optim::TrainOp& train_op,
                             const distribute::Accumulated& accumulated) override {
    gradients_.reset();
    if (together_ && !accumulated.mean() && run_->has_penalties()) {
      throw invalid_argument(
          "not supported: losses that are added (ReduceOp::kSum) and regularizers, where "
          "several workers make an update together: each would bring the penalty",
          "average the losses, which is the default, or leave the regularizers out");
    }
    distribute::Updated updated = here_->update(train_op, accumulated);
    if (!gradients_) {
      // A step without examples, or one whose numbers are not finite.
      run_->abandon();
      updated.result.global_step = run_->step();
      return updated;
    }
    const TimePoint start = system_clock().now();
    const plan::InActivity communicates(plan::Activity::kCommunication);
    WorkerRun::Step step{.weight = accumulated.mean() ? accumulated.weight : 1,
                         .mean = accumulated.mean(),
                         .rows = accumulated.rows};
    if (follows_loss_) step.loss = updated.result.loss;
    const WorkerRun::Committed committed = run_->make_step(*gradients_, step);
    gradients_.reset();
    updated.result.global_step = committed.step;
    updated.result.rows = committed.rows;
    updated.reduction = to_seconds(system_clock().now() - start);
    return updated;
  }

  std::map<std::string, double> learning_rates() const override { return run_->learning_rates(); }
  // Each worker has loss scales of its own.
  std::map<std::string, Tensor> slots() const override { return here_->slots(); }
  std::vector<Tensor> pieces() const override { return {}; }

 private:
  const std::unique_ptr<WorkerRun> run_;
  const bool together_;  // several workers make an update
  const std::unique_ptr<distribute::Updater> here_;
  distribute::VariableTable* table_ = nullptr;
  const optim::TrainOp* building_ = nullptr;
  bool follows_loss_ = false;  // a learning rate does
  std::optional<FlatParameters::Prepared> gradients_;
};

}  // namespace

std::unique_ptr<distribute::Updater> make_server_updater(std::unique_ptr<WorkerRun> run,
                                                         bool together) {
  return std::make_unique<ServerUpdater>(std::move(run), together);
}

}  // namespace muster::inline v0_1::ps
