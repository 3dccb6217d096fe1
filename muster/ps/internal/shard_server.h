// One parameter server's answers to requests about its shards.
// Thread safety: any thread; each connection makes one request at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/net/message_socket.h"
#include "muster/net/server_messages.h"
#include "muster/ps/internal/part_files.h"
#include "muster/ps/internal/shard_store.h"
#include "muster/ps/internal/staged_gradients.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1::ps {

class ShardServer {
 public:
  // `name` is how messages call it: "ps 0". `resolve` asks the ledger whether the step of a worker
  // counts; nothing where it does not answer.
  using Resolve = std::function<std::optional<net::ledger::Resolved>(
      int64_t generation, const net::ledger::Resolve& asked)>;
  // `together`: updates are those of several workers, as apply_round() is told.
  // Weights and gradients travel as `wire_dtype`; with `shared`, to workers of this host through
  // memory where they can. Checkpoints are read and written by `files`. `clock` outlives it.
  ShardServer(std::string name, uint64_t seed, distribute::BuildModel build, Resolve resolve,
              bool together, DType wire_dtype, bool shared, PartFiles files,
              Clock& clock = system_clock());

  // A worker that has connected.
  struct Client {
    net::MessageSocket& socket;
    int rank = 0;
    std::function<bool()> is_newest{};  // whether no later process of the worker has come
    std::vector<Tensor> memory = {};    // of what it reads
    // For a worker on this host: the memory for its gradients.
    std::shared_ptr<const SharedMemory> area = {};
  };
  // Answers a request, the payload of which is still to be read. Throws what the asker is to be
  // told, and what the socket throws. Of a Push it does all but answer.
  void answer(Client& client, const net::shards::Request& request);
  // The step counts: its gradients go into the weights. Nothing where that is done. Learning rates
  // are reduced by `factors`, which the first server finds itself, and gives.
  std::vector<double> apply(int rank, int64_t ticket, std::vector<double> factors = {});
  // The factors of the next step; empty if no rate is reduced.
  std::vector<double> factors();
  // The last update that several workers made together: their gradients go into the weights, once.
  void apply_round(const plan::StepLedger::Round& round);
  // A connection of this worker has ended.
  void worker_left(int rank);
  // The rates of the last update that come from a schedule.
  std::map<std::string, double> learning_rates();
  // How many steps are in the weights.
  int64_t applied();
  // The generation of the weights that are here, 0 without any, and how many steps are in them.
  struct Place {
    int64_t generation = 0;
    int64_t applied = 0;
  };
  Place place();
  // Ends all waits.
  void close();

  // "3 variables, 1.2 MB"; "" before they are known.
  std::string describe();

 private:
  // What the chief has defined, and all that belongs to it.
  struct Defined {
    int64_t generation = 0;
    std::string form{};                // of the batches
    std::vector<std::string> model{};  // a line for each variable and optimizer
    std::unique_ptr<ShardStore> store{};
  };
  // The gradients of a worker that wait for its step to count.
  struct Waiting {
    int64_t ticket = 0;  // 0: none
    std::unique_ptr<StagedGradients> staged;
    bool under_way = false;  // those of the step before are on their way into the weights
  };

  // Throws PeerLost unless the weights are those of that generation.
  std::shared_ptr<Defined> defined(int64_t generation);
  void define(net::MessageSocket& socket, int64_t generation, const net::shards::Define& request);
  // Requests about what is defined: each answers, except for a Push.
  void answer(Client& client, const net::shards::Compare& request, Defined& here);
  void answer(Client& client, const net::shards::Form&, Defined& here);
  void answer(Client& client, const net::shards::Specs&, Defined& here);
  void answer(Client& client, const net::shards::Pull& request, Defined& here);
  void answer(Client& client, const net::shards::MakeRound& request, Defined& here);
  void answer(Client& client, const net::shards::Rows& request, Defined& here);
  void answer(Client& client, const net::shards::Push& request, Defined& here);
  void answer(Client& client, const net::shards::Apply& request, Defined& here);
  void answer(Client& client, const net::shards::Share&, Defined& here);
  void answer(Client& client, const net::shards::MakeArea& request, Defined& here);
  void answer(Client& client, const net::shards::Snapshot& request, Defined& here);
  void answer(Client& client, const net::shards::Write& request, Defined& here);
  void answer(Client& client, const net::shards::BeginSlots&, Defined& here);
  void answer(Client& client, const net::shards::Restore& request, Defined& here);
  void answer(Client& client, const net::shards::Keep& request, Defined& here);
  void answer(Client& client, const net::shards::Kept&, Defined& here);
  // Applies what counts, or drops it, of a worker that will not say itself.
  void settle(int rank, bool gone);
  // Waits until no thread makes an update of the worker's gradients: after the answer the worker
  // overwrites them. An update waits for nothing but other updates.
  void wait_for_update_of(std::unique_lock<std::mutex>& lock, int rank);
  // One more update is in the weights. REQUIRES: mutex_ is held.
  void count_update(Defined& defined);

  const std::string name_;
  const uint64_t seed_;
  const distribute::BuildModel build_;
  const Resolve resolve_;
  const bool together_;
  const DType wire_dtype_;
  const bool shared_;
  const PartFiles files_;
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::shared_ptr<Defined> defined_;
  std::map<std::string, Tensor> kept_;
  int64_t applied_ = 0;             // steps, in this generation
  std::map<int, Waiting> waiting_;  // by rank
  std::mutex round_;
  std::mutex building_;  // the model function is called by one thread
};

}  // namespace muster::inline v0_1::ps
