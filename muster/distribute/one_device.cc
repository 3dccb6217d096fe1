
#include <chrono>

#include "muster/base/error.h"
#include "muster/distribute/strategy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class OneDeviceSession : public Session {
 public:
  OneDeviceSession(uint64_t seed, Device device) : Session(seed, device) {}

  int num_replicas_in_sync() const override { return 1; }
  int replica_id() const override { return 0; }
  bool is_chief() const override { return true; }
  std::string describe() const override {
    return "OneDevice: one replica in this process" +
           (device().is_cpu() ? std::string() : ", on " + device().str());
  }

  void finish_build(const optim::TrainOp& train_op) override {
    table_.seal();
    parameters_ = std::make_unique<FlatParameters>(table_, train_op, [this](int64_t bytes) {
      return torch::zeros({bytes}, at::device(device()).dtype(at::kByte));
    });
  }

  std::string share_state(const std::string& note) override { return note; }

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

 protected:
  void check_step(const StepInput&, double loss, Turn) override {
    if (std::isfinite(loss)) return;
    throw Error(ErrorKind::kNonFinite, fmt::format("the loss is {}", loss));
  }

  void add_gradients(const optim::TrainOp& train_op, double seed, Turn turn) override {
    // Without weight there is nothing to average: a step of several replicas updates nothing then
    // either.
    if (seed == 0) return;
    // A batch that is alone needs no weight.
    const bool alone = turn.first && turn.last;
    run_backward(train_op, *parameters_, alone ? 1.0 : seed);
    parameters_->tables().collect();
    if (!alone) parameters_->add_in_place();
  }

  StepResult update(const optim::TrainOp& train_op, const Group& group) override {
    StepResult result{
        .any_data = group.has_data, .rows = group.rows, .stop = group.stop, .save = group.save};
    if (!result.any_data) return result;
    const auto start = std::chrono::steady_clock::now();
    const bool alone = accumulate_steps() == 1;
    if (group.rows > 0 && (!group.mean() || group.weight > 0)) {
      const double scale = group.mean() && !alone ? 1.0 / group.weight : 1.0;
      result.loss = alone ? group.last_loss : group.loss * scale;
      if (!alone) parameters_->put_back_in_place();
      parameters_->update_in_place(train_op, scale);
    }
    for (const auto& update : train_op.updates) update();
    times_.update = seconds_since(start);
    return result;
  }
};

class OneDevice : public Strategy {
 public:
  explicit OneDevice(Device device) : device_(device) {}

  Device device() const override { return device_; }
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
    sessions.push_back(std::make_unique<OneDeviceSession>(options.seed, device_));
    return sessions;
  }

 private:
  Device device_;
};

}  // namespace

StrategyPtr one_device(const std::string& device) {
  return std::make_shared<OneDevice>(parse_device(device));
}

}  // namespace muster::inline v0_1::distribute
