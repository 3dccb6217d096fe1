// How the two ends of a connection prove to each other that they belong to one job, before any
// message of theirs moves: each shows that it knows the job's token, and neither sends it. The side
// that accepted proves itself first, so that who connected to the wrong place tells nothing. Thread
// safety: as the socket.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cluster/job_credentials.h"
#include "muster/net/message_socket.h"

namespace muster::inline v0_1::net {

// The version of what tasks say to each other: of the proof, and of all messages that follow.
// Raise it when the bytes of a message change. Tasks of different versions refuse each other and
// say which Muster each of them runs.
inline constexpr int kProtocolVersion = 9;

// The longest message of a proof.
inline constexpr size_t kMostProofBytes = 2 << 10;

// Texts in one, each after its length; and back, or nothing for what was not joined so.
std::string join_fields(const std::vector<std::string>& fields);
std::optional<std::vector<std::string>> split_fields(std::string_view text);

// The authenticated server, as the connecting side knows it.
struct ProvedServer {
  std::string task{};  // "ps:0"; "" when it does not say
  std::string
      busy_why{};  // it belongs to the job and has no room now; "" when it took this task in
};

// The side that connected: who is `own_task` to the server, which messages call `server`. `wait`
// receives a message, or throws. Throws InvalidArgument where the two belong to different jobs or
// versions, and what the socket throws.
ProvedServer prove_to_server(MessageSocket& socket, const cluster::Job& job,
                             const std::string& own_task, const std::string& server,
                             const std::function<std::string()>& wait);

// What the side that accepted has learned.
struct ProvedClient {
  std::string task{};     // "worker:1"
  std::string refusal{};  // why it does not belong to the job; "" when it does
};

// The side that accepted. An authenticated peer waits for welcome() or turn_away(); an
// unauthenticated one has its answer. Throws InvalidArgument where the two are of different
// versions, and what the socket throws.
ProvedClient prove_to_client(MessageSocket& socket, const cluster::Job& job,
                             const std::string& own_task, const std::function<std::string()>& wait);
void welcome(MessageSocket& socket);
void turn_away(MessageSocket& socket, const std::string& why);

}  // namespace muster::inline v0_1::net
