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

#include "muster/net/message_socket.h"
#include "muster/net/server_messages.h"
#include "muster/ps/internal/part_files.h"
#include "muster/ps/internal/shard_store.h"
#include "muster/ps/internal/staged_gradients.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1::ps {

class ShardServer {
 public:
  // `name` is its name in messages: "ps 0". `resolve` asks the ledger whether the step of a worker
  // counts; nothing if it does not answer.
  using Resolve = std::function<std::optional<net::ledger::Resolved>(
      int64_t generation, const net::ledger::Resolve& asked)>;
  // `together`: updates are made of several workers' gradients, as apply_round() receives them.
  // Weights and gradients travel as `wire_dtype`; with `shared`, to workers of this host through
  // memory if they can. Checkpoints are read and written by `files`.
  ShardServer(std::string name, uint64_t seed, distribute::BuildModel build, Resolve resolve,
              bool together, DType wire_dtype, bool shared, PartFiles files);

  // A worker that has connected.
  struct Client {
    net::MessageSocket& socket;
    int rank = 0;
    std::function<bool()> is_newest{};  // whether no later process of the worker has come
    std::vector<Tensor> memory = {};    // of its reads
    // For a worker on this host: where it writes its gradients.
    std::shared_ptr<const SharedMemory> area = {};
  };
  // Answers a request, the payload of which is still to be read. Throws the error to be sent to the
  // asker, and the socket's errors. For a Push it does all except answer.
  void answer(Client& client, const net::shards::Request& request);
  // The step counts: its gradients go into the weights. Does nothing if that is done. Learning
  // rates are reduced by `factors`, which the first server determines itself, and returns.
  std::vector<double> apply(int rank, int64_t ticket, std::vector<double> factors = {});
  // The factors of the next step; empty if no rate is reduced.
  std::vector<double> factors();
  // The last update that several workers made together: their gradients go into the weights, once.
  void apply_round(const plan::StepLedger::Round& round);
  // A connection of this worker has ended.
  void worker_left(int rank);
  // The learning rates of the last update that come from a schedule.
  std::map<std::string, double> learning_rates();
  // Ends all waits.
  void close();

  // "3 variables, 1.2 MB"; "" before they are known.
  std::string describe();

 private:
  // The model that the chief has defined, and its state.
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
    bool under_way = false;  // the gradients of the step before are on their way into the weights
  };

  // How many steps are in the weights.
  int64_t applied();
  // Throws PeerLost unless the weights belong to that generation.
  std::shared_ptr<Defined> defined(int64_t generation);
  void define(net::MessageSocket& socket, int64_t generation, const net::shards::Define& request);
  // Requests about the defined model: each answers, except for a Push.
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
  // Applies or drops the pending step of a worker that will not answer itself.
  void settle(int rank, bool gone);
  // Waits until no thread makes an update of the worker's gradients: a worker that learns that the
  // update is made writes the next gradients into the same memory. An update waits only for other
  // updates.
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
