#include <fmt/format.h>

#include <chrono>

#include "muster/base/error.h"
#include "muster/collectives/rendezvous.h"
#include "muster/collectives/shared_memory_communicator.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/distribute/internal/replica_session.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

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
    if (!(options.save_timeout_seconds > 0)) {
      throw invalid_argument(
          fmt::format("MirroredOptions.save_timeout_seconds is {}; it must be more than 0",
                      options.save_timeout_seconds));
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
    const auto group = std::make_shared<LocalGroup>(
        options_.replicas, LocalGroup::Patience{.progress = options_.progress_timeout_seconds,
                                                .save = options_.save_timeout_seconds});
    auto communicators = connect();
    std::vector<std::unique_ptr<Session>> sessions;
    for (int replica = 0; replica < options_.replicas; ++replica) {
      sessions.push_back(std::make_unique<ReplicaSession>(
          ReplicaPlace{.local = replica, .locals = options_.replicas},
          fmt::format("Mirrored: replica {} of {} in this process", replica, options_.replicas),
          group, nullptr, std::move(communicators[static_cast<size_t>(replica)]), start.seed,
          WireOptions{.bytes_per_pack = options_.bytes_per_pack,
                      .wire_dtype = options_.wire_dtype}));
    }
    return sessions;
  }

 private:
  // Threads share all memory; what is made for processes of one host has no thread of its own to
  // hand operations to, and is quicker. It takes a socket for each pair, of which a process has
  // not that many.
  std::vector<std::unique_ptr<Communicator>> connect() const {
    constexpr int kMostBySockets = 16;
    const auto timeout =
        std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000));
    if (options_.replicas <= kMostBySockets) {
      MemoryStore store;
      try {
        auto communicators = connect_replicas(options_.replicas, [&](int replica) {
          std::string why_not;
          return try_shared_memory_communicator({.rendezvous = &store,
                                                 .rank = replica,
                                                 .size = options_.replicas,
                                                 .timeout = timeout,
                                                 .connect_timeout = std::chrono::seconds(5)},
                                                &why_not);
        });
        if (communicators[0] != nullptr) return communicators;  // else nobody has one
      } catch (const Error& error) {
        // Descriptors ran out, say: threads can do without.
        if (error.kind() != ErrorKind::kUnavailable && error.kind() != ErrorKind::kTimeout) throw;
      }
    }
    return make_thread_communicators({.size = options_.replicas, .timeout = timeout});
  }

  MirroredOptions options_;
};

}  // namespace

StrategyPtr mirrored(const MirroredOptions& options) { return std::make_shared<Mirrored>(options); }

}  // namespace muster::inline v0_1::distribute
