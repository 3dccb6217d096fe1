#include <torch/torch.h>

#include <chrono>

#include "muster/base/error.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class OneDeviceSession : public Session {
 public:
  using Session::Session;

  int num_replicas_in_sync() const override { return 1; }
  int replica_id() const override { return 0; }
  bool is_chief() const override { return true; }
  std::string describe() const override { return "OneDevice: one replica in this process"; }

  void finish_build(const optim::TrainOp& train_op) override {
    table_.seal();
    parameters_ = std::make_unique<FlatParameters>(
        table_, train_op, [](int64_t bytes) { return torch::zeros({bytes}, torch::kUInt8); });
  }

  std::string share_state(const std::string& note) override { return note; }

  StepResult train_step(const StepInput& input) override {
    StepResult result{
        .any_data = input.has_data, .rows = input.rows, .stop = input.stop, .save = input.save};
    if (!input.has_data) return result;
    result.loss = input.rows > 0 ? input.loss.item<double>() : 0;
    if (!std::isfinite(result.loss)) {
      throw Error(ErrorKind::kNonFinite, fmt::format("the loss is {}", result.loss));
    }
    const auto start = std::chrono::steady_clock::now();
    // Without weight there is nothing to average: a step of several replicas updates nothing then
    // either.
    const bool counts =
        input.rows > 0 && (input.reduction == LossReduction::kSum || input.weight > 0);
    if (counts) {
      run_backward(*input.train_op, *parameters_, 1.0);
    } else {
      result.loss = 0;
    }
    const auto backward_done = std::chrono::steady_clock::now();
    if (counts) parameters_->update_in_place(*input.train_op, 1.0);
    for (const auto& update : input.train_op->updates) update();
    times_ = {.backward = std::chrono::duration<double>(backward_done - start).count(),
              .update = seconds_since(backward_done)};
    return result;
  }

  Tensor reduce(ReduceOp op, const Tensor& value) override {
    check_reducible(op, value);
    return value.detach().clone();
  }
  std::vector<Tensor> gather(const Tensor& value, int64_t) override { return {value}; }
  std::vector<std::string> gather_text(const std::string&, const std::string& text) override {
    return {text};
  }
  void broadcast(const std::vector<Tensor>&) override {}
  void end_of_function() override {}
  void report(Phase, int64_t) override {}
  void barrier(const std::string&) override {}
  void finish() override {}
  void check_failure() override {}
  void fail(const Error&) noexcept override {}
  Error explain(const Error& error) override { return error; }
};

class OneDevice : public Strategy {
 public:
  std::string_view name() const override { return "OneDevice"; }
  bool multi_worker() const override { return false; }
  std::vector<std::unique_ptr<Session>> start_replicas(const StartOptions& options) const override {
    if (options.cluster.distributed()) {
      throw invalid_argument(fmt::format("TF_CONFIG describes {} workers, but the strategy "
                                         "OneDevice trains one replica in one process",
                                         options.cluster.num_workers),
                             "set RunConfig{.train_distribute = "
                             "distribute::multi_worker_mirrored()}, or unset TF_CONFIG");
    }
    std::vector<std::unique_ptr<Session>> sessions;
    sessions.push_back(std::make_unique<OneDeviceSession>(options.seed));
    return sessions;
  }
};

}  // namespace

StrategyPtr one_device() { return std::make_shared<OneDevice>(); }

}  // namespace muster::inline v0_1::distribute
