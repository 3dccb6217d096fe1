#include <fmt/format.h>

#include <chrono>
#include <mutex>

#include "muster/base/error.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/distribute/internal/local_group.h"
#include "muster/distribute/internal/sync_session.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

class MirroredSession : public SyncSession {
 public:
  MirroredSession(std::shared_ptr<LocalGroup> group, std::unique_ptr<Communicator> communicator,
                  uint64_t seed, const MirroredOptions& options)
      : SyncSession(seed, options.bytes_per_pack, options.wire_dtype), group_(std::move(group)) {
    communicator_ = std::move(communicator);
    interrupt_->communicator = communicator_.get();
    // Whoever waits in a collective for a replica that failed elsewhere.
    group_->on_failure([interrupt = interrupt_](const Error& error) {
      const std::lock_guard lock(interrupt->mutex);
      if (interrupt->communicator == nullptr) return;
      interrupt->communicator->abort(ErrorKind::kPeerLost, error.message());
    });
  }

  ~MirroredSession() override {
    if (!finished_) group_->leave(replica_id());
    const std::lock_guard lock(interrupt_->mutex);
    interrupt_->communicator = nullptr;
  }

  int num_replicas_in_sync() const override { return communicator_->size(); }
  int replica_id() const override { return communicator_->rank(); }
  int num_local_replicas() const override { return communicator_->size(); }
  int local_replica() const override { return communicator_->rank(); }
  bool is_chief() const override { return replica_id() == 0; }
  std::string describe() const override {
    return fmt::format("Mirrored: replica {} of {} in this process over {}", replica_id(),
                       num_replicas_in_sync(), communicator_->name());
  }

  std::vector<std::string> gather_text(const std::string& name, const std::string& text) override {
    return group_->exchange(replica_id(), "gather " + name, text);
  }
  void report(Phase phase, int64_t step) override { group_->report(replica_id(), phase, step); }
  void barrier(const std::string& name) override {
    group_->exchange(replica_id(), "barrier " + name, "");
  }
  void finish() override {
    group_->exchange(replica_id(), "finish", "");
    finished_ = true;
  }
  void fail(const Error& error) noexcept override {
    if (!finished_) group_->fail(replica_id(), error);
  }
  Error explain(const Error& error) override {
    // A replica of this process cannot be lost without having failed.
    const auto failure = group_->failure();
    return failure && error.kind() == ErrorKind::kPeerLost ? *failure : error;
  }

 protected:
  void declare_model(const std::vector<std::string>& signature) override {
    std::string mine;
    for (const std::string& line : signature) mine += line + "\n";
    const std::vector<std::string> all = gather_text("model", mine);
    for (size_t replica = 1; replica < all.size(); ++replica) {
      if (all[replica] == all[0]) continue;
      throw invalid_argument(
          fmt::format("replica {} built another model than replica 0: {}", replica,
                      first_difference(all[0], all[replica])),
          "the model function must create the same variables and optimizers on every replica");
    }
  }
  std::string share_text(const std::string& note) override {
    return gather_text("note", is_chief() ? note : "")[0];
  }
  void await_failure() override {
    // The replica it comes from fails, or leaves with its own error; either ends this wait.
    barrier("failure");
  }

 private:
  static std::string first_difference(const std::string& first, const std::string& other) {
    const auto lines = [](const std::string& text) {
      std::vector<std::string> all;
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = text.find('\n', begin);
        all.push_back(text.substr(begin, end - begin));
        begin = end + 1;
      }
      return all;
    };
    const std::vector<std::string> a = lines(first), b = lines(other);
    size_t i = 0;
    while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
    const auto line = [&](const std::vector<std::string>& of) {
      return i < of.size() ? "'" + of[i] + "'" : std::string("nothing");
    };
    return fmt::format("{} instead of {}", line(b), line(a));
  }

  std::shared_ptr<LocalGroup> group_;
  // What the group's callback uses, which may outlive this.
  struct Interrupt {
    std::mutex mutex;
    Communicator* communicator = nullptr;
  };
  std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();
  bool finished_ = false;
};

class Mirrored : public Strategy {
 public:
  explicit Mirrored(const MirroredOptions& options) : options_(options) {
    if (options.replicas < 1) {
      throw invalid_argument(fmt::format("MirroredOptions.replicas is {}", options.replicas),
                             "it must be at least 1");
    }
    if (options.bytes_per_pack < 0) {
      throw invalid_argument(
          fmt::format("MirroredOptions.bytes_per_pack is {}", options.bytes_per_pack),
          "use 0 for one bucket, or a size in bytes");
    }
    check_wire_dtype("MirroredOptions.wire_dtype", options.wire_dtype);
    if (!(options.timeout_seconds > 0)) {
      throw invalid_argument(
          fmt::format("MirroredOptions.timeout_seconds is {}; it must be more "
                      "than 0",
                      options.timeout_seconds));
    }
    if (!(options.progress_timeout_seconds > 0)) {
      throw invalid_argument(
          fmt::format("MirroredOptions.progress_timeout_seconds is {}; it must be more than 0",
                      options.progress_timeout_seconds));
    }
  }

  std::string_view name() const override { return "Mirrored"; }
  bool multi_worker() const override { return false; }

  std::vector<std::unique_ptr<Session>> start_replicas(const StartOptions& start) const override {
    if (start.cluster.distributed()) {
      throw invalid_argument(
          fmt::format("TF_CONFIG describes {} workers, but the strategy Mirrored trains in one "
                      "process",
                      start.cluster.num_workers),
          "set RunConfig{.train_distribute = distribute::multi_worker_mirrored()}, or unset "
          "TF_CONFIG");
    }
    if (options_.replicas == 1) return one_device()->start_replicas(start);
    const auto group =
        std::make_shared<LocalGroup>(options_.replicas, options_.progress_timeout_seconds);
    auto communicators =
        make_thread_communicators({.size = options_.replicas,
                                   .timeout = std::chrono::milliseconds(
                                       static_cast<int64_t>(options_.timeout_seconds * 1000))});
    std::vector<std::unique_ptr<Session>> sessions;
    for (auto& communicator : communicators) {
      sessions.push_back(
          std::make_unique<MirroredSession>(group, std::move(communicator), start.seed, options_));
    }
    return sessions;
  }

 private:
  MirroredOptions options_;
};

}  // namespace

StrategyPtr mirrored(const MirroredOptions& options) { return std::make_shared<Mirrored>(options); }

}  // namespace muster::inline v0_1::distribute
