// The common part of a worker's connections to servers and to a chief: how they are made, how an
// answer is waited for, and the heartbeats. Thread safety: a socket belongs to one thread at a
// time; Heartbeats may be used by any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "muster/net/message_socket.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {

// The peer that a worker asks.
struct Peer {
  std::string name{};           // for messages: "ps 0 (127.0.0.1:4000)"
  double answer_timeout = 600;  // seconds; after these it counts as lost
  // Both throw the known error that ended the run: called each second while an answer is waited
  // for, and when the peer is lost.
  std::function<void()> check{}, cause{};
};

// Connects, and says in the log that it waits; an error says so if this task was asked to stop
// meanwhile. Throws the errors of net::connect_messages().
std::unique_ptr<net::MessageSocket> connect_to(const Peer& peer, net::ConnectOptions options,
                                               const std::function<bool()>& told_to_stop);

// Does `work` with the peer. Throws PeerLost, naming it, if it is gone.
void naming_who_is_lost(const Peer& peer, const std::function<void()>& work);

// Sends by `send`, and passes the fields of the answer to `take`, which may read its payload.
// Throws the error that the peer answers instead, and as above.
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

// Sends heartbeats for this task, on a thread and a connection of its own. A task that asks a dead
// peer finds that out by itself.
class Heartbeats {
 public:
  struct Options {
    std::string peer{};  // for messages
    double interval = 1;
    double heartbeat_timeout = 6;         // for an answer
    std::function<std::string()> word{};  // the message to send
    std::function<void(std::string_view answer)> heard{};
    // Makes another connection if only that one was lost; throws if the peer is gone, and soon
    // after `closing` returns true. Unset: then it is silent.
    std::function<std::unique_ptr<net::MessageSocket>(const std::function<bool()>& closing)>
        reconnect{};
  };
  Heartbeats(Options options, std::unique_ptr<net::MessageSocket> socket);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

 private:
  bool closing() const;
  void run();
  // Returns at the end, and throws the error that ended the connection.
  void beat();

  const Options options_;
  std::unique_ptr<net::MessageSocket> socket_;
  mutable std::mutex mutex_;
  std::condition_variable closed_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace muster::inline v0_1::ps
