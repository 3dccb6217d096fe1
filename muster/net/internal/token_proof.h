// How the two ends of a connection prove to each other that they belong to one job, before any
// other message is sent: each shows that it knows the job's token, and neither sends it. The side
// that accepted proves itself first, so that a peer that connected to the wrong place reveals
// nothing. Thread safety: as the socket.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/job_credentials.h"
#include "muster/net/message_socket.h"

namespace muster::inline v0_1::net {

// The version of the messages between tasks: of the proof, and of all messages that follow. A
// change of their bytes must raise it. Tasks of different versions refuse each other and say which
// Muster each of them runs.
inline constexpr int kProtocolVersion = 3;

// The longest message of a proof.
inline constexpr size_t kMostProofBytes = 2 << 10;

// Joins texts into one, each after its length; and splits it again, or returns nothing for a text
// that was not joined so.
std::string join_fields(const std::vector<std::string>& fields);
std::optional<std::vector<std::string>> split_fields(std::string_view text);

// The server that has proved itself to the connecting side.
struct ProvedServer {
  std::string task{};      // "ps:0"; "" when it does not say
  std::string busy_why{};  // it belongs to the job and accepts no more connections now; "" when it
                           // took this task in
};

// The side that connected: its name is `own_task`; messages call the server `server`. `wait`
// receives a message, or throws. Throws InvalidArgument if the two belong to different jobs or
// versions, and the socket's errors.
ProvedServer prove_to_server(MessageSocket& socket, const cluster::Job& job,
                             const std::string& own_task, const std::string& server,
                             const std::function<std::string()>& wait);

// The facts that the accepting side has learned.
struct ProvedClient {
  std::string task{};     // "worker:1"
  std::string refusal{};  // why it does not belong to the job; "" when it does
};

// The side that accepted. A peer that proved itself waits for welcome() or turn_away(); an
// unauthenticated peer has already received the reason. Throws InvalidArgument if the two are of
// different versions, and the socket's errors.
ProvedClient prove_to_client(MessageSocket& socket, const cluster::Job& job,
                             const std::string& own_task, const std::function<std::string()>& wait);
void welcome(MessageSocket& socket);
void turn_away(MessageSocket& socket, const std::string& why);

}  // namespace muster::inline v0_1::net
