#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "muster/distribute/internal/backward.h"
#include "muster/distribute/internal/finite_penalty.h"
#include "muster/distribute/internal/flat_gradients.h"
#include "muster/distribute/internal/late_loss.h"
#include "muster/distribute/updater.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The state before an update that was recorded on a device of XLA, where old values are no copies.
class StateBefore {
 public:
  explicit StateBefore(const FlatParameters& parameters) : now_(parameters.pieces()) {
    for (const Tensor& piece : now_) before_.push_back(piece.detach().clone());
  }

  // Keeps the update if `finite`, a number on the device.
  void keep_if(const Tensor& finite) {
    for (size_t i = 0; i < now_.size(); ++i) {
      if (!now_[i].is_xla()) continue;
      now_[i].detach().copy_(torch::where(finite, now_[i], before_[i]));
      before_[i].reset();  // or the program would return it
    }
  }
  // The same for counters, which are on the CPU.
  void put_back() const {
    for (size_t i = 0; i < now_.size(); ++i) {
      if (before_[i].defined()) now_[i].detach().copy_(before_[i]);
    }
  }

 private:
  std::vector<Tensor> now_, before_;
};

class InPlaceUpdater final : public Updater, public internal::LateLoss {
 public:
  InPlaceUpdater(ApplyGradients apply, std::function<void(FlatParameters&)> built)
      : apply_(std::move(apply)), built_(std::move(built)) {}

  void build(VariableTable& table, const optim::TrainOp& train_op) override {
    table_ = &table;
    regularizes_ = std::ranges::any_of(table.variables(), [](const auto& variable) {
      return static_cast<bool>(variable->spec().regularizer);
    });
    backward_ = std::make_unique<internal::Backward>(table, /*tells=*/true);
    parameters_ =
        std::make_unique<FlatParameters>(table, train_op, [device = table.device()](int64_t bytes) {
          return torch::zeros({bytes}, at::device(device).dtype(at::kByte));
        });
    if (!table.device().is_cpu() && !apply_)
      flat_ = std::make_unique<internal::FlatGradients>(*parameters_);
    if (built_) built_(*parameters_);
  }

  void add(const optim::TrainOp& train_op, double seed, Turn turn) override {
    accumulates_ = !turn.alone();
    // Without weight there is nothing to average: a step of several replicas updates nothing then
    // either.
    if (seed == 0) return;
    // A batch that is alone needs no weight.
    backward_->run(train_op, *parameters_, turn.alone() ? 1.0 : seed);
    parameters_->tables().collect();
    if (accumulates_) parameters_->add_in_place();
  }

  Updated update(const optim::TrainOp& train_op, const Accumulated& accumulated) override {
    Updated updated{.result = {.any_data = accumulated.has_data,
                               .rows = accumulated.rows,
                               .stop = accumulated.stop,
                               .save = accumulated.save,
                               .profile_steps = accumulated.profile_steps}};
    if (const auto later = std::exchange(later_, {}); later.read) {
      updated.result.loss = update_before(train_op, later, updated.update);
      return updated;
    }
    if (!accumulated.has_data) return updated;
    const auto start = SteadyClock::now();
    const auto left_out = [&](double loss) {
      parameters_->drop_in_place();
      updated.result.loss = loss;
      updated.result.finite = false;
      return updated;
    };
    if (accumulated.report_non_finite && !std::isfinite(accumulated.loss))
      return left_out(accumulated.loss);
    if (accumulated.rows > 0 && (!accumulated.mean() || accumulated.weight > 0)) {
      const double scale = accumulated.mean() && accumulates_ ? 1.0 / accumulated.weight : 1.0;
      updated.result.loss = (accumulates_ ? accumulated.loss * scale : accumulated.last_loss) +
                            penalty(accumulated.report_non_finite);
      if (accumulates_) parameters_->put_back_in_place();
      if (accumulated.report_non_finite &&
          !(std::isfinite(updated.result.loss) && parameters_->finite_in_place())) {
        return left_out(updated.result.loss);
      }
      parameters_->check_some_gradient_in_place(train_op);
      if (apply_) {
        apply_(*parameters_, train_op, scale);
      } else if (flat_) {
        flat_->take();
        parameters_->update_flat(train_op, flat_->gradients(), flat_->used(),
                                 parameters_->tables().take(), scale);
      } else {
        parameters_->update_in_place(train_op, scale);
      }
      parameters_->note_loss(updated.result.loss);
    }
    for (const auto& update : train_op.updates) update();
    updated.update = std::chrono::duration<double>(SteadyClock::now() - start).count();
    return updated;
  }

  bool read_later(const optim::TrainOp& train_op, const Tensor& loss,
                  std::function<double()> read) override {
    const bool records = flat_ != nullptr && loss.is_xla() && parameters_->tables().size() == 0 &&
                         train_op.updates.empty();
    if (!records || !std::ranges::all_of(train_op.entries, [](const auto& entry) {
          return entry.optimizer.transformations().empty() && !entry.optimizer.loss_scaling();
        }))
      return false;
    later_ = {loss.detach(), std::move(read)};
    return true;
  }

  std::map<std::string, double> learning_rates() const override {
    return parameters_->learning_rates();
  }
  std::map<std::string, Tensor> slots() const override { return parameters_->slots(); }
  std::vector<Tensor> pieces() const override { return parameters_->pieces(); }

 private:
  struct Later {
    Tensor loss{};
    std::function<double()> read{};
  };

  // Returns the loss, with penalty, of an update that is recorded before the loss is known.
  double update_before(const optim::TrainOp& train_op, const Later& later, double& seconds) {
    const torch::NoGradGuard no_grad;
    const auto start = SteadyClock::now();
    const Tensor penalty = regularization_loss(*table_);
    parameters_->check_some_gradient_in_place(train_op);
    StateBefore before(*parameters_);
    flat_->take();
    parameters_->update_flat(train_op, flat_->gradients(), flat_->used(), {}, 1.0);
    Tensor finite = torch::isfinite(later.loss.reshape({}));
    if (penalty.defined()) finite = finite & torch::isfinite(penalty.reshape({}));
    before.keep_if(finite);
    try {
      double loss = later.read();
      if (penalty.defined()) loss += internal::finite_penalty(penalty.item<double>());
      parameters_->note_loss(loss);
      seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
      return loss;
    } catch (...) {
      before.put_back();
      throw;
    }
  }

  // Penalty of the weights before the update.
  double penalty(bool any_number) const {
    if (!regularizes_) return 0;
    const Tensor loss = regularization_loss(*table_);
    const double penalty = loss.defined() ? loss.item<double>() : 0;
    return any_number ? penalty : internal::finite_penalty(penalty);
  }

  const ApplyGradients apply_;
  const std::function<void(FlatParameters&)> built_;
  const VariableTable* table_ = nullptr;
  bool regularizes_ = false;  // whether one of its variables is regularized
  std::unique_ptr<internal::Backward> backward_;
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<internal::FlatGradients> flat_;  // on a device
  Later later_;                                    // of the next update; usually nothing
  bool accumulates_ = false;                       // several batches make the update
};

}  // namespace

std::unique_ptr<Updater> make_in_place_updater(ApplyGradients apply,
                                               std::function<void(FlatParameters&)> built) {
  return std::make_unique<InPlaceUpdater>(std::move(apply), std::move(built));
}

}  // namespace muster::inline v0_1::distribute
