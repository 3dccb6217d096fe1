#include <torch/torch.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/collectives/connect.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"
#include "muster/control/group.h"
#include "muster/distribute/coordinator_store.h"
#include "muster/distribute/internal/start_multi_worker.h"
#include "muster/distribute/reducer.h"
#include "muster/distribute/replica_values.h"
#include "muster/distribute/strategy.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::distribute {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What the options leave open, the environment may settle.
Transport transport_of(const CommunicationOptions& options) {
  const auto name = Environment::process().get("MUSTER_TRANSPORT");
  if (options.implementation != Transport::kAuto || !name || name->empty()) {
    return options.implementation;
  }
  const auto transport = parse_transport(*name);
  if (!transport) {
    throw invalid_argument(fmt::format("MUSTER_TRANSPORT is '{}'", *name),
                           "use auto, gloo or shared_memory");
  }
  return *transport;
}

// The numbers of a step that travel in front of the gradients.
enum Head { kWeight, kLoss, kHasData, kRows, kStop, kSave, kHeadNumbers };

class MultiWorkerSession : public Session {
 public:
  MultiWorkerSession(const StartOptions& start, const CommunicationOptions& options)
      : Session(start.seed), cluster_(start.cluster), options_(options) {
    join(start);
    try {
      connect();
    } catch (const Error& error) {
      const Error cause = explain(error);
      fail(cause);
      client_->close();  // before what its callback refers to
      throw cause;
    }
  }

  ~MultiWorkerSession() override {
    // The client's watcher may be ending the communicator right now: it goes first.
    if (client_) client_->close();
    communicator_.reset();
    if (server_) server_->stop(finished_ ? 10 : 2);
  }

  int num_replicas_in_sync() const override { return cluster_.num_workers; }
  int replica_id() const override { return cluster_.rank; }
  bool is_chief() const override { return cluster_.is_chief; }
  std::string describe() const override {
    return fmt::format("MultiWorkerMirrored: {} ({} of {}{}) over {}",
                       plan::readable_task(cluster_.task.name()), cluster_.rank + 1,
                       cluster_.num_workers, cluster_.is_chief ? ", chief" : "",
                       communicator_->name());
  }

  void finish_build(const optim::TrainOp& train_op) override {
    table_.seal();
    guarded([&] {
      // One line for each variable and each optimizer: all workers must agree on them.
      std::vector<std::string> signature = table_.signature();
      for (const auto& entry : train_op.entries) {
        signature.push_back(fmt::format("optimizer {}: {}, learning rate {}",
                                        entry.optimizer.name(), entry.optimizer.rule().name(),
                                        entry.optimizer.rule().learning_rate()));
      }
      client_->declare_model(signature);
      parameters_ = std::make_unique<FlatParameters>(
          table_, train_op, [&](int64_t bytes) { return communicator_->allocate(bytes); });
      plan::BucketOptions buckets;
      if (options_.bytes_per_pack == 0) {
        buckets.first_bucket_bytes = buckets.bucket_bytes = std::numeric_limits<int64_t>::max();
      } else {
        buckets.bucket_bytes = options_.bytes_per_pack;
        buckets.first_bucket_bytes = std::min(buckets.first_bucket_bytes, options_.bytes_per_pack);
      }
      reducer_ = std::make_unique<Reducer>(*communicator_, *parameters_, kHeadNumbers, buckets);
    });
  }

  std::string share_state(const std::string& note) override {
    return guarded([&] {
      if (is_chief()) client_->set("state_note", note);
      std::string shared = client_->get("state_note");
      std::vector<Work> works;
      for (const Tensor& piece : parameters_->pieces())
        works.push_back(communicator_->broadcast(piece, 0));
      for (const auto& variable : table_.variables()) {
        if (variable->value().requires_grad()) continue;  // in the pieces
        if (variable->spec().synchronization == VariableSynchronization::kOnRead) continue;
        works.push_back(communicator_->broadcast(variable->value().detach().view({-1}), 0));
      }
      for (const Work& work : works) work.wait();
      share_replica_values();
      note_versions();
      return shared;
    });
  }

  std::map<std::string, Tensor> checkpoint_state() override {
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

  StepResult train_step(const StepInput& input) override {
    return guarded([&] {
      check_versions();
      const bool mean = input.reduction == LossReduction::kMean;
      const bool counts = input.rows > 0;
      const double weight = counts ? input.weight : 0;
      // The loss of zero rows is not a number, but its gradients are exactly 0.
      const double loss = counts ? input.loss.item<double>() : 0;
      const auto start = Clock::now();
      reducer_->begin();
      run_backward(*input.train_op, *parameters_, mean ? weight : (counts ? 1.0 : 0.0));
      const auto backward_done = Clock::now();
      reducer_->finish({weight, mean ? loss * weight : loss, input.has_data ? 1.0 : 0.0,
                        static_cast<double>(input.rows), input.stop ? 1.0 : 0.0,
                        input.save ? 1.0 : 0.0});
      const auto reduced = Clock::now();
      const std::vector<double>& head = reducer_->head();
      StepResult result{.any_data = head[kHasData] > 0,
                        .rows = static_cast<int64_t>(head[kRows]),
                        .stop = head[kStop] > 0,
                        .save = head[kSave] > 0};
      if (result.any_data) {
        if (!std::isfinite(head[kLoss]) || !std::isfinite(head[kWeight])) {
          const Error error(ErrorKind::kNonFinite,
                            fmt::format("the loss over all workers is {} (this worker's: {})",
                                        head[kLoss], loss));
          // The worker it comes from can say which number is to blame; the others wait for that.
          if (std::isfinite(loss)) {
            await_failure();
            client_->check_failure();
          }
          throw error;
        }
        if (mean ? head[kWeight] > 0 : head[kRows] > 0) {
          const double scale = mean ? 1.0 / head[kWeight] : 1.0;
          result.loss = head[kLoss] * scale;
          parameters_->update_flat(*input.train_op, reducer_->gradients(), reducer_->used(), scale);
        }
        for (const auto& update : input.train_op->updates) update();
        note_versions();
      }
      times_ = {.backward = seconds_between(start, backward_done),
                .reduction = seconds_between(backward_done, reduced),
                .update = seconds_between(reduced, Clock::now())};
      return result;
    });
  }

  Tensor reduce(ReduceOp op, const Tensor& value) override {
    check_reducible(op, value);
    return guarded([&] {
      Tensor flat = value.detach().clone().contiguous().view({-1});
      communicator_->all_reduce(flat).wait();
      if (op == ReduceOp::kMean) flat.div_(num_replicas_in_sync());
      return flat.view(value.sizes());
    });
  }

  std::vector<std::string> gather_text(const std::string& name, const std::string& text) override {
    return guarded([&] {
      const int64_t round = rounds_[name]++;
      const auto key = [&](int64_t round, int rank) {
        return fmt::format("text/{}/{}/{}", name, round, rank);
      };
      client_->set(key(round, replica_id()), text);
      // A task that makes no progress is found at a barrier, not while one waits for a key.
      client_->barrier("text/" + name);
      std::vector<std::string> all;
      for (int rank = 0; rank < num_replicas_in_sync(); ++rank) {
        all.push_back(client_->get(key(round, rank)));
      }
      // Everybody is in this round, so everybody has read the one before.
      if (round > 0) client_->erase(key(round - 1, replica_id()));
      return all;
    });
  }

  void report(Phase phase, int64_t step) override { client_->report(phase, step); }

  void barrier(const std::string& name) override {
    guarded([&] { client_->barrier(name); });
  }

  void finish() override {
    guarded([&] { client_->barrier("finish"); });
    finished_ = true;
    client_->done();
    client_->close();
  }

  void fail(const Error& error) noexcept override {
    // What another task's failure caused here is no news to the group.
    if (client_ && !finished_ && !client_->first_failure())
      client_->fail(error.kind(), error.message());
  }

  Error explain(const Error& error) override {
    if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kCancelled &&
        error.kind() != ErrorKind::kTimeout) {
      return error;
    }
    // A connection breaks at once when a peer dies; who died and why is known when the coordinator
    // has noticed.
    await_failure();
    if (client_) {
      if (const auto failure = client_->first_failure()) return control::to_error(*failure);
    }
    return error;
  }

 private:
  void await_failure() const {
    const auto deadline =
        Clock::now() + std::chrono::duration<double>(options_.heartbeat_timeout_seconds + 2);
    while (client_ && !client_->first_failure() && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // Each replica gets its own values of the variables of kOnRead.
  void share_replica_values() {
    if (num_replicas_in_sync() == 1) return;
    torch::NoGradGuard no_grad;
    for (Variable* variable : table_.on_read()) {
      const auto known = replica_values_.find(variable->name());
      const Tensor values =
          (known != replica_values_.end()
               ? known->second
               : spread(variable->spec(), variable->value(), num_replicas_in_sync()))
              .contiguous();
      communicator_->broadcast(values.view({-1}), 0).wait();
      variable->value().copy_(values[replica_id()]);
    }
    replica_values_.clear();
  }

  // Variables that do not train are never exchanged between steps: what a model function writes
  // into them from its own part of the data would make the replicas drift apart, unnoticed.
  void note_versions() {
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

  void check_versions() const {
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

  void join(const StartOptions& start) {
    if (is_chief()) {
      control::ServerOptions server = control::server_options(cluster_);
      server.group.heartbeat_timeout = options_.heartbeat_timeout_seconds;
      server.group.progress_timeout = options_.progress_timeout_seconds;
      server_ = std::make_unique<control::CoordinatorServer>(server);
    }
    control::JoinOptions join = control::join_options(cluster_);
    join.join_deadline = start.join_timeout;
    join.cancelled = start.cancelled;
    join.heartbeat_interval = options_.heartbeat_seconds;
    join.heartbeat_timeout = options_.heartbeat_timeout_seconds;
    client_ = control::CoordinatorClient::join(join);
  }

  void connect() {
    store_ = std::make_unique<CoordinatorStore>(*client_, "communicator/");
    communicator_ = make_communicator({
        .transport = transport_of(options_),
        .rendezvous = store_.get(),
        .rank = cluster_.rank,
        .size = cluster_.num_workers,
        .address = net::split_address(cluster_.addresses[static_cast<size_t>(cluster_.rank)]).host,
        .group = fmt::format("epoch{}", client_->epoch()),
        .timeout = std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000)),
    });
    // A stopped peer would block a collective for ever: the watcher ends it.
    client_->on_failure([communicator = communicator_.get()](const control::Failure& failure) {
      communicator->abort(ErrorKind::kPeerLost, failure.describe());
    });
  }

  // What breaks because of another task's failure is told with that failure.
  template <typename Fn>
  std::invoke_result_t<Fn> guarded(Fn fn) {
    try {
      return fn();
    } catch (const Error& error) {
      throw explain(error);
    }
  }

  cluster::ResolvedCluster cluster_;
  CommunicationOptions options_;
  std::unique_ptr<control::CoordinatorServer> server_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::unique_ptr<CoordinatorStore> store_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Reducer> reducer_;
  std::map<std::string, int64_t> rounds_;
  std::vector<std::pair<const Variable*, int64_t>> versions_;  // after the last step
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Session> start_multi_worker(const StartOptions& start,
                                            const CommunicationOptions& options) {
  return std::make_unique<MultiWorkerSession>(start, options);
}

}  // namespace muster::inline v0_1::distribute
