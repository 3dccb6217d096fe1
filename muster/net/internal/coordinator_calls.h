// How the coordinator's messages travel: a request and its reply are one message each, with the
// fields as payload; a WatchRequest alone is answered by any number of replies. Pure functions.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/net/coordinator_messages.h"
#include "muster/net/message_socket.h"

namespace muster::inline v0_1::net {

// The longest payload. A model's list of variables is the largest there is: some 60 bytes for each
// variable.
inline constexpr int kMaxMessageBytes = 16 << 20;

// InvalidArgument: `what` would have `bytes` bytes, and kMaxMessageBytes are allowed.
inline Error too_large(const std::string& what, size_t bytes) {
  return invalid_argument(
      fmt::format("{} would have {} bytes; {} are allowed", what, bytes, kMaxMessageBytes),
      "keys and lists of variables are for small texts: put the data into a file");
}

inline void send_fields(MessageSocket& socket, std::string_view fields) {
  const Bytes payload = bytes_of(fields);
  socket.send("", {&payload, 1});
}

// The payload of the message received last. Throws Corrupt if it is too long.
inline std::string receive_fields(MessageSocket& socket) {
  if (socket.payload_left() > kMaxMessageBytes)
    throw corrupt(
        fmt::format("a message of {} has {} bytes", socket.peer(), socket.payload_left()));
  std::string fields(static_cast<size_t>(socket.payload_left()), '\0');
  socket.receive_payload(std::as_writable_bytes(std::span(fields)));
  return fields;
}

}  // namespace muster::inline v0_1::net
