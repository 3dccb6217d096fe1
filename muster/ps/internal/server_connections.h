// A worker's connections to the parameter servers: requests and their answers, and a thread that
// says that the worker is alive. Thread safety: belongs to the worker's thread, or to the
// background task it has sent; except for report(), for rows, which are the worker's, and for what
// a thread receives of a checkpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/distribute/start_options.h"
#include "muster/files/file_systems.h"
#include "muster/net/message_socket.h"
#include "muster/net/server_messages.h"
#include "muster/plan/phase.h"
#include "muster/ps/internal/peer.h"
#include "muster/ps/internal/thread_pool.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

class ServerConnections {
 public:
  // Connects to all servers. Throws Timeout naming one that is not there in the time, Cancelled
  // when this task is told to stop, InvalidArgument when they belong to another job or cluster.
  ServerConnections(distribute::StartOptions start, distribute::ParameterServerOptions options,
                    double timeout_seconds, Surroundings surroundings = {});
  // Without finish(): this task is at its end, or joins again, and the others need not miss it.
  ~ServerConnections();
  ServerConnections(const ServerConnections&) = delete;
  ServerConnections& operator=(const ServerConnections&) = delete;

  const distribute::StartOptions& start() const { return start_; }
  const distribute::ParameterServerOptions& options() const { return options_; }
  const Surroundings& surroundings() const { return surroundings_; }
  Clock& clock() const { return *surroundings_.clock; }
  bool is_chief() const { return start_.cluster.is_chief; }
  size_t servers() const { return data_.size(); }
  uint64_t incarnation() const { return incarnation_; }
  int rank() const { return start_.cluster.rank; }
  const std::string& task() const { return task_; }
  const std::string& server_name(size_t server) const { return peers_[server].name; }
  // Where checkpoints are.
  FileSystem& files() const { return start_.fs != nullptr ? *start_.fs : file_systems(); }
  // Whether the server is on this host, and can hand over files.
  bool carries_files(size_t server) const { return data_[server]->carries_files(); }
  bool told_to_stop() const { return start_.cancelled && start_.cancelled(); }

  // Makes a request of a generation of the run to a server, and returns its answer; `receive` reads
  // the payload. Throws what the server answers in place of it, and PeerLost naming the server when
  // it is gone.
  template <typename Operation>
  net::AnswerTo<Operation> ask(size_t server, int64_t generation, const Operation& asked,
                               std::span<const Tensor> tensors = {},
                               const Receive<Operation>& receive = {}) {
    return ask_peer<Operation>(peers_[server], *data_[server],
                               net::encode(net::shards::Request{generation, asked}), tensors,
                               receive);
  }
  // What ask() and at_all_servers() do, for rows that are read while a step is computed: with
  // ParameterServerOptions::overlap on connections and threads of their own, since another thread
  // uses the others meanwhile.
  net::shards::Looked ask_for_rows(size_t server, int64_t generation,
                                   const net::shards::Rows& asked, std::span<const Tensor> tensors,
                                   const Receive<net::shards::Rows>& receive);
  void at_all_servers_for_rows(const std::function<void(size_t server)>& work);
  // The same for a checkpoint that is fetched while steps are made, on connections of its own.
  // Throws PeerLost, too, where a server does not take the first one.
  template <typename Operation>
  net::AnswerTo<Operation> ask_for_save(size_t server, int64_t generation, const Operation& asked) {
    return ask_peer<Operation>(peers_[server], for_saves(server),
                               net::encode(net::shards::Request{generation, asked}));
  }
  // What receive_more() and at_all_servers() do, for such a checkpoint: one thread at a time, which
  // need not be that of the worker.
  template <typename Message>
  void receive_for_save(size_t server,
                        const std::function<void(net::MessageSocket&, const Message&)>& receive) {
    receive_from<Message>(server, *save_sockets_[server], receive);
  }
  // The next save makes them anew.
  void end_save_connections() {
    for (auto& socket : save_sockets_) socket.reset();
  }
  void at_all_servers_for_save(const std::function<void(size_t server)>& work) {
    saves_pool_.run(work);
  }
  // Makes a request to the ledger.
  template <typename Operation>
  net::AnswerTo<Operation> ask_ledger(int64_t generation, const Operation& asked) const {
    return ask_peer<Operation>(peers_[0], *ledger_,
                               net::encode(net::ledger::Request{generation, asked}));
  }
  // Receives what follows the answer to the request that was made last.
  template <typename Message>
  void receive_more(size_t server,
                    const std::function<void(net::MessageSocket&, const Message&)>& receive) {
    receive_from<Message>(server, *data_[server], receive);
  }
  // A request on its way, as its bytes.
  struct Request {
    std::string head{};
    std::vector<Tensor> tensors = {};
  };
  net::shards::Pushed ask(size_t server, const Request& push) {
    return ask_peer<net::shards::Push>(peers_[server], *data_[server], push.head, push.tensors);
  }
  // Sends a request to each server from `first` on, and then waits for their answers, which say
  // nothing: in no time where requests are short, while threads would have to wake up. Throws as
  // ask().
  void ask_each(size_t first, std::span<const Request> requests);
  // Calls `work` for all servers at the same time.
  void at_all_servers(const std::function<void(size_t server)>& work) { pool_.run(work); }

  // On the chief: the commits of the checkpoint that a server waits for before it stops, as the
  // last heartbeat heard; -1: none waits.
  int64_t wanted() const { return wanted_; }
  // The checkpoint is being made: where that fails, the next heartbeat hears of it again.
  void forget_wanted() { wanted_ = -1; }
  // What the heartbeats of the chief say from now on: whether the run saves; the commits of a
  // generation that the last written checkpoint holds; and that the run is at its end, for which no
  // server may leave any more.
  struct Saved {
    int64_t generation = 0;
    int64_t commits = 0;
  };
  void set_saves(bool saves) { saves_ = saves; }
  void note_saved(const Saved& saved);
  void note_end() { ends_ = true; }

  // Reports what this worker is doing.
  void report(plan::Phase phase, int64_t step);
  // Why the run is over, as the ledger says it; nothing while it is not known to be.
  std::optional<Error> failure() const;
  void check_failure() const;

  // The run is over, since `error` happened here.
  void fail(const Error& error) noexcept;
  // This worker leaves; on the chief, the run is over.
  void finish();

 private:
  // Throws Cancelled where `in_vain`, asked now and then, says that no server will be there.
  std::unique_ptr<net::MessageSocket> connect(size_t server, net::Purpose purpose,
                                              double timeout_seconds,
                                              const std::function<bool()>& in_vain = {}) const;
  // Nothing for a server that is gone because the run is over, as a worker hears when it joins.
  std::unique_ptr<net::MessageSocket> connect_unless_over(size_t server, net::Purpose purpose,
                                                          double timeout_seconds) const;
  void note_answer(std::string_view answer);
  template <typename Message>
  void receive_from(size_t server, net::MessageSocket& socket,
                    const std::function<void(net::MessageSocket&, const Message&)>& receive) {
    answer_to(
        peers_[server], socket, [] {},
        [&](auto fields) { receive(socket, net::decode_answer<Message>(fields)); });
  }
  // The connection for saves; the first call makes it.
  net::MessageSocket& for_saves(size_t server);
  std::string heartbeat() const;

  const distribute::StartOptions start_;
  const distribute::ParameterServerOptions options_;
  const Surroundings surroundings_;
  const std::string task_;
  const uint64_t incarnation_;
  std::vector<Peer> peers_;  // by server
  // By server; nullptr for one that is gone because the run is over. None for rows without overlap.
  std::vector<std::unique_ptr<net::MessageSocket>> data_, rows_;
  // By server, on the chief; or nullptr.
  std::vector<std::unique_ptr<net::MessageSocket>> save_sockets_;
  std::unique_ptr<net::MessageSocket> ledger_;
  ThreadPool pool_, rows_pool_, saves_pool_;
  std::atomic<plan::Phase> phase_{plan::Phase::kJoining};
  std::atomic<int64_t> step_{-1};
  std::atomic<int64_t> wanted_{-1};
  std::atomic<bool> saves_{true}, ends_{false};
  mutable std::mutex mutex_;
  bool finished_ = false;  // of the worker's thread: it has said goodbye
  std::optional<Error> failure_;
  std::optional<Saved> saved_;
  std::optional<Heartbeats> beats_;
};

}  // namespace muster::inline v0_1::ps
