// What a worker's connections to servers and to a chief have in common: how they are made, how an
// answer is waited for, and the heartbeats. Thread safety: a socket belongs to one thread at a
// time; Heartbeats are of any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/net/message_socket.h"
#include "muster/ps/internal/surroundings.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {

// Whom a worker asks.
struct Peer {
  std::string name{};           // for messages: "ps 0 (127.0.0.1:4000)"
  double answer_timeout = 600;  // seconds; after these it counts as lost
  // Both throw what is known to have ended the run: asked each second while an answer is waited
  // for, and when the peer is lost.
  std::function<void()> check{}, cause{};
  Surroundings surroundings{};  // of this task
};

// Connects, and says in the log that it waits; an error says so where this task was told to stop
// meanwhile. Throws what net::connect_messages() throws.
std::unique_ptr<net::MessageSocket> connect_to(const Peer& peer, net::ConnectOptions options,
                                               const std::function<bool()>& told_to_stop);

// Does `work` with the peer. Throws PeerLost, naming it, where it is gone.
void naming_who_is_lost(const Peer& peer, const std::function<void()>& work);

// Sends by `send`, and gives the fields of the answer to `take`, which may read its payload. Throws
// what the peer answers in place of it, and as above.
void answer_to(const Peer& peer, net::MessageSocket& socket, const std::function<void()>& send,
               const std::function<void(std::string_view fields)>& take);

// Reads the payload of an answer, which it is given.
template <typename Operation>
using Receive = std::function<void(net::MessageSocket&, const net::AnswerTo<Operation>&)>;

// Makes an encoded request.
template <typename Operation>
net::AnswerTo<Operation> ask_peer(const Peer& peer, net::MessageSocket& socket,
                                  const std::string& request, std::span<const Tensor> tensors = {},
                                  const Receive<Operation>& receive = {}) {
  net::AnswerTo<Operation> answer{};
  answer_to(
      peer, socket, [&] { send_head(socket, request, tensors); },
      [&](std::string_view fields) {
        answer = net::decode_answer<net::AnswerTo<Operation>>(fields);
        if (receive) receive(socket, answer);
      });
  return answer;
}

// Reports regularly, on its own thread and connection, that this task is alive. A request to a lost
// peer detects the loss itself.
class Heartbeats {
 public:
  struct Options {
    std::string peer{};  // for messages
    double interval = 1;
    double heartbeat_timeout = 6;         // for an answer
    std::function<std::string()> word{};  // what to send
    std::function<void(std::string_view answer)> heard{};
    // Another connection, where that one alone was lost; throws if no server is there, and soon
    // after `closing` says true. Unset: then it is silent.
    std::function<std::unique_ptr<net::MessageSocket>(const std::function<bool()>& closing)>
        reconnect{};
    Surroundings surroundings{};  // of this task
  };
  Heartbeats(Options options, std::unique_ptr<net::MessageSocket> socket);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

 private:
  bool closing() const;
  void run();
  // Returns at the end, and throws what ended the connection.
  void beat();

  const Options options_;
  std::unique_ptr<net::MessageSocket> socket_;
  mutable std::mutex mutex_;
  std::condition_variable closed_;
  bool closing_ = false;
  std::optional<Thread> thread_;
};

}  // namespace muster::inline v0_1::ps
