#include "muster/distribute/internal/sync_session.h"

#include <chrono>
#include <limits>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/collectives/measure.h"
#include "muster/distribute/replica_values.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The numbers of a step that travel in front of the gradients.
enum Head { kWeight, kLoss, kHasData, kRows, kStop, kSave, kHeadNumbers };

}  // namespace

void SyncSession::finish_build(const optim::TrainOp& train_op) {
  table_.seal();
  guarded([&] {
    // One line for each variable and each optimizer: all workers must agree on them.
    std::vector<std::string> signature = table_.signature();
    for (const auto& entry : train_op.entries) {
      signature.push_back(fmt::format("optimizer {}: {}, learning rate {}, global norm up to {}",
                                      entry.optimizer.name(), entry.optimizer.rule().name(),
                                      entry.optimizer.rule().learning_rate(),
                                      entry.optimizer.max_global_norm()));
    }
    if (accumulate_steps() > 1)
      signature.push_back(fmt::format("{} batches for an update", accumulate_steps()));
    if (wire_.bytes_per_pack)
      signature.push_back(fmt::format("buckets of {} bytes", *wire_.bytes_per_pack));
    if (wire_.wire_dtype != kFloat32)
      signature.push_back("gradients travel as " + dtype_name(wire_.wire_dtype));
    declare_model(signature);
    parameters_ = std::make_unique<FlatParameters>(
        table_, train_op, [&](int64_t bytes) { return communicator_->allocate(bytes); });
    reducer_ = std::make_unique<Reducer>(*communicator_, *parameters_, kHeadNumbers,
                                         bucket_options(), wire_.wire_dtype);
  });
}

plan::BucketOptions SyncSession::bucket_options() {
  plan::BucketOptions buckets;
  if (wire_.bytes_per_pack == 0) {
    buckets.first_bucket_bytes = buckets.bucket_bytes = std::numeric_limits<int64_t>::max();
    return buckets;
  }
  if (wire_.bytes_per_pack) {
    buckets.bucket_bytes = *wire_.bytes_per_pack;
    buckets.first_bucket_bytes = std::min(buckets.first_bucket_bytes, buckets.bucket_bytes);
    return buckets;
  }
  // Where their size shows in the bits, it may not be another one in each run.
  if (!communicator_->sums_in_rank_order()) return buckets;
  int64_t bytes = 0;
  for (const auto& buffer : parameters_->buffers()) {
    bytes += buffer.elements * static_cast<int64_t>(c10::elementSize(buffer.dtype));
  }
  const plan::CommunicationCost cost = measure_all_reduce(*communicator_);
  buckets = plan::choose_buckets(cost, bytes);
  const std::optional<int64_t> at_once = communicator_->tune(cost);
  if (is_chief()) {
    log::info(
        fmt::format("gradients of {:.1f} MB, in buckets of {:.1f} MB: a message takes {:.1f} us, "
                    "a MB {:.0f} us{}",
                    static_cast<double>(bytes) * 1e-6,
                    static_cast<double>(std::min(buckets.bucket_bytes, bytes)) * 1e-6,
                    cost.latency * 1e6, cost.seconds_per_byte * 1e12,
                    at_once ? fmt::format("; up to {:.1f} KB are summed in one exchange",
                                          static_cast<double>(*at_once) * 1e-3)
                            : ""));
  }
  return buckets;
}

std::string SyncSession::share_state(const std::string& note) {
  return guarded([&] {
    std::string shared = share_text(note);
    std::vector<Tensor> values = parameters_->pieces();
    for (const auto& variable : table_.variables()) {
      if (variable->value().requires_grad()) continue;  // in the pieces
      if (variable->spec().synchronization == VariableSynchronization::kOnRead) continue;
      values.push_back(variable->value());
    }
    broadcast(values);
    share_replica_values();
    note_versions();
    return shared;
  });
}

std::map<std::string, Tensor> SyncSession::checkpoint_state() {
  std::map<std::string, Tensor> named = state();
  if (num_replicas_in_sync() == 1 || table_.on_read().empty()) return named;
  return guarded([&] {
    std::vector<Tensor> gathered;
    std::vector<Work> works;
    for (const Variable* variable : table_.on_read()) {
      const Tensor mine = variable->value().detach().view({-1});
      gathered.push_back(torch::empty({num_replicas_in_sync() * mine.numel()}, mine.options()));
      works.push_back(communicator_->all_gather(mine, gathered.back()));
    }
    for (const Work& work : works) work.wait();
    for (size_t v = 0; v < gathered.size(); ++v) {
      const VariableSpec& spec = table_.on_read()[v]->spec();
      const Tensor values = gathered[v].view(replicas_shape(spec, num_replicas_in_sync()));
      named[spec.name] = aggregate(spec, values);
      named[replicas_name(spec.name)] = values;
    }
    return std::move(named);
  });
}

void SyncSession::check_step(const StepInput&, double loss, Turn turn) {
  guarded([&] { check_versions(); });
  // That of the last batch is told with those of the other replicas.
  if (turn.last || std::isfinite(loss)) return;
  throw Error(ErrorKind::kNonFinite, fmt::format("the loss of batch {} of {} is {}",
                                                 accumulated() + 1, accumulate_steps(), loss));
}

void SyncSession::add_gradients(const optim::TrainOp& train_op, double seed, Turn turn) {
  guarded([&] {
    reducer_->begin(turn.first, turn.last);
    {
      const GradientDestinations::Scope here(*reducer_);
      run_backward(train_op, *parameters_, seed);
    }
    reducer_->pause();
    parameters_->tables().collect();
  });
}

StepResult SyncSession::update(const optim::TrainOp& train_op, const Group& group) {
  return guarded([&] {
    const auto start = SteadyClock::now();
    together(fmt::format("replica {} is in the update of a step", replica_id()), [&] {
      reducer_->finish({group.weight, group.loss, group.has_data ? 1.0 : 0.0,
                        static_cast<double>(group.rows), group.stop ? 1.0 : 0.0,
                        group.save ? 1.0 : 0.0});
    });
    const std::vector<double>& head = reducer_->head();
    StepResult result{.any_data = head[kHasData] > 0,
                      .rows = static_cast<int64_t>(head[kRows]),
                      .stop = head[kStop] > 0,
                      .save = head[kSave] > 0};
    auto reduced = SteadyClock::now();
    times_.reduction = seconds_between(start, reduced);
    const std::vector<RowGradient> mine = parameters_->tables().take();
    if (!result.any_data) return result;
    if (!std::isfinite(head[kLoss]) || !std::isfinite(head[kWeight])) {
      const Error error(ErrorKind::kNonFinite,
                        fmt::format("the loss over all replicas is {} (this one's: {})",
                                    head[kLoss], group.last_loss));
      // The replica it comes from can say which number is to blame; the others wait for that.
      if (std::isfinite(group.loss)) await_failure();
      throw error;
    }
    if (group.mean() ? head[kWeight] > 0 : head[kRows] > 0) {
      const double scale = group.mean() ? 1.0 / head[kWeight] : 1.0;
      result.loss = head[kLoss] * scale;
      const std::vector<RowGradient> rows = exchange_rows(*communicator_, mine);
      times_.reduction = seconds_between(start, SteadyClock::now());
      reduced = SteadyClock::now();
      parameters_->update_flat(train_op, reducer_->gradients(), reducer_->used(), rows, scale);
    }
    for (const auto& update : train_op.updates) update();
    note_versions();
    times_.update = seconds_between(reduced, SteadyClock::now());
    return result;
  });
}

template <typename Fn>
void SyncSession::together(const std::string& where, Fn fn) const {
  try {
    fn();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    throw invalid_argument(
        fmt::format("{}, and another replica is elsewhere: {}", where, error.message()),
        "make the same collectives in the same order on all replicas, and on none fewer; one that "
        "has no examples takes part with zeros");
  }
}

class SyncSession::Forms {
 public:
  // Starts the exchange. `verb`: what the value is brought to.
  Forms(SyncSession& session, std::string verb, const Tensor& value)
      : session_(session), verb_(std::move(verb)), value_(value) {
    if (session.reducer_) session.reducer_->other_collective();
    if (value.dim() > kMostAxes) {
      throw invalid_argument(fmt::format("{} of {}", verb_, muster::describe(value)),
                             fmt::format("it takes up to {} axes", kMostAxes));
    }
    mine_ = torch::zeros({kSizes + kMostAxes}, at::kLong);
    mine_[kType] = static_cast<int64_t>(value.scalar_type());
    mine_[kAxes] = value.dim();
    mine_[kDevice] = static_cast<int64_t>(value.device().type());
    for (int64_t a = 0; a < value.dim(); ++a) mine_[kSizes + a] = value.size(a);
    all_ = torch::empty({session.num_replicas_in_sync(), mine_.numel()}, at::kLong);
    work_ = session.communicator_->all_gather(mine_, all_.view({-1}));
  }

  // Throws InvalidArgument on every replica when they differ, in another axis than `free`.
  void check(std::optional<int64_t> free = {}) {
    session_.together(fmt::format("replica {} is in {} of {}", session_.replica_id(), verb_,
                                  muster::describe(value_)),
                      [&] { work_.wait(); });
    for (int64_t r = 0; r < all_.size(0); ++r) {
      Tensor other = all_[r].clone();
      if (free) other[kSizes + *free] = mine_[kSizes + *free];
      if (other.equal(mine_)) continue;
      std::vector<int64_t> shape;
      for (int64_t a = 0; a < all_[r][kAxes].item<int64_t>(); ++a)
        shape.push_back(all_[r][kSizes + a].item<int64_t>());
      throw invalid_argument(
          fmt::format("{}: replica {} has {}{}, replica {} has {}[{}]{}", verb_,
                      session_.replica_id(), muster::describe(value_),
                      place_of(mine_[kDevice].item<int64_t>()), r,
                      dtype_name(static_cast<DType>(all_[r][kType].item<int64_t>())),
                      fmt::join(shape, ", "), place_of(other[kDevice].item<int64_t>())),
          fmt::format("all replicas bring the same dtype and sizes{}, on devices of one kind",
                      free ? ", but for that axis" : ""));
    }
  }

  // Along an axis, by replica. REQUIRES: check() returned.
  Tensor sizes(int64_t axis) const { return all_.select(1, kSizes + axis).clone(); }

 private:
  static std::string place_of(int64_t device) {
    const auto type = static_cast<at::DeviceType>(device);
    return type == at::kCPU ? "" : " on " + c10::DeviceTypeName(type, /*lower_case=*/true);
  }

  enum Place : int64_t { kType, kAxes, kDevice, kSizes };
  static constexpr int64_t kMostAxes = 61;

  SyncSession& session_;
  const std::string verb_;
  const Tensor& value_;
  Tensor mine_, all_;
  Work work_;
};

Tensor SyncSession::reduce(ReduceOp op, const Tensor& value) {
  check_reducible(op, value);
  return guarded([&] {
    // Both under way at once: to compare costs no round trip more.
    Forms forms(*this, "reduce()", value);
    Tensor flat = value.detach().clone().contiguous().view({-1});
    const Work sum = communicator_->all_reduce(flat);
    forms.check();
    sum.wait();
    if (op == ReduceOp::kMean) flat.div_(num_replicas_in_sync());
    return flat.view(value.sizes());
  });
}

std::vector<Tensor> SyncSession::gather(const Tensor& value, int64_t axis) {
  return guarded([&] {
    torch::NoGradGuard no_grad;
    const int64_t n = num_replicas_in_sync();
    Forms forms(*this, fmt::format("gather along axis {}", axis), value);
    forms.check(axis);
    const Tensor sizes = forms.sizes(axis);
    const int64_t most = sizes.max().item<int64_t>();
    const Tensor mine = value.detach().movedim(axis, 0).contiguous();
    std::vector<int64_t> padded_shape = mine.sizes().vec();
    padded_shape[0] = most;
    Tensor padded = torch::zeros(padded_shape, mine.options());
    padded.narrow(0, 0, mine.size(0)).copy_(mine);
    const Tensor all = torch::empty({n, padded.numel()}, padded.options());
    if (padded.numel() > 0) communicator_->all_gather(padded.view({-1}), all.view({-1})).wait();
    std::vector<Tensor> parts;
    for (int64_t r = 0; r < n; ++r) {
      parts.push_back(all[r]
                          .view(padded_shape)
                          .narrow(0, 0, sizes[r].item<int64_t>())
                          .movedim(0, axis)
                          .contiguous());
    }
    return parts;
  });
}

void SyncSession::broadcast(const std::vector<Tensor>& values) {
  guarded([&] {
    std::vector<Work> works;
    for (const Tensor& value : values)
      works.push_back(communicator_->broadcast(value.detach().view({-1}), 0));
    for (const Work& work : works) work.wait();
  });
}

void SyncSession::end_of_function() {
  guarded([&] {
    together(fmt::format("the function has returned on replica {}", replica_id()),
             [&] { communicator_->barrier().wait(); });
  });
}

// Each replica gets its own values of the variables of kOnRead.
void SyncSession::share_replica_values() {
  if (num_replicas_in_sync() == 1) return;
  torch::NoGradGuard no_grad;
  for (Variable* variable : table_.on_read()) {
    const auto known = replica_values_.find(variable->name());
    const Tensor values =
        (known != replica_values_.end()
             ? known->second
             : spread(variable->spec(), variable->value(), num_replicas_in_sync()))
            .to(device())
            .contiguous();
    communicator_->broadcast(values.view({-1}), 0).wait();
    variable->value().copy_(values[replica_id()]);
  }
  replica_values_.clear();
}

// Variables that do not train are never exchanged between steps: what a model function writes
// into them from its own part of the data would make the replicas drift apart, unnoticed.
void SyncSession::note_versions() {
  versions_.clear();
  for (const auto& variable : table_.variables()) {
    const VariableAggregation aggregation = variable->spec().aggregation;
    if (variable->value().requires_grad() || aggregation == VariableAggregation::kNone ||
        aggregation == VariableAggregation::kOnlyFirstReplica ||
        variable->spec().synchronization == VariableSynchronization::kOnRead) {
      continue;
    }
    versions_.emplace_back(variable.get(), variable->value()._version());
  }
}

void SyncSession::check_versions() const {
  for (const auto& [variable, version] : versions_) {
    if (variable->value()._version() == version) continue;
    throw invalid_argument(
        fmt::format("not supported: the model function changed the variable {}, which does not "
                    "train, and {} replicas would each have another value of it",
                    variable->name(), num_replicas_in_sync()),
        "change it in TrainOp::updates, by what is equal on every replica, or set its "
        "synchronization to kOnRead: then each has its own value, and a checkpoint holds them "
        "and what its aggregation makes of them");
  }
}

}  // namespace muster::inline v0_1::distribute
