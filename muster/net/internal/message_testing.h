// Helpers that tests of message servers share. Thread safety: none.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/net/internal/testing.h"
#include "muster/net/message_server.h"

namespace muster::inline v0_1::net {

inline cluster::Job job_of(const std::string& id, const std::string& token) {
  cluster::Job job;
  job.id = id;
  job.token = token;
  return job;
}
inline const cluster::Job kJob = job_of("resnet", "a token of sixteen");

// Sends back each message, until the other side closes.
inline void echo(MessageSocket& socket) {
  while (auto head = socket.receive(kLong)) {
    std::vector<std::byte> payload(static_cast<size_t>(head->payload_bytes));
    socket.receive_payload(payload);
    const Bytes piece = payload;
    socket.send(head->text, {&piece, 1});
  }
}

inline MessageServerOptions here(cluster::Job job = kJob) {
  // A busy machine may need long until a task has proved itself.
  return {
      .address = "127.0.0.1:0", .job = std::move(job), .task = "ps:0", .unproved_seconds = kLong};
}

inline ConnectOptions to(const MessageServer& server, cluster::Job job = kJob) {
  return {.address = server.address(),
          .job = std::move(job),
          .task = "worker:1",
          .timeout_seconds = kLong};
}

// Whether messages go there and back.
inline void expect_talk(MessageSocket& socket) {
  const std::string text(1'000'000, 'x');
  const Bytes piece = bytes_of(text);
  auto sends = std::async(std::launch::async, [&] { socket.send("put", {&piece, 1}); });
  const auto answer = socket.receive(kLong);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, "put");
  ASSERT_EQ(answer->payload_bytes, static_cast<int64_t>(text.size()));
  std::string back(text.size(), '\0');
  socket.receive_payload(std::as_writable_bytes(std::span(back)));
  EXPECT_TRUE(back == text);
  sends.get();
}

// The error of a client that cannot connect within a short time. On a busy machine the time may be
// over before the client has received the expected reason; then it is given more time.
inline Error error_within(double seconds, const std::string& reason, ConnectOptions options) {
  for (;; seconds *= 2) {
    options.timeout_seconds = seconds;
    Error error = error_of([&] { connect_messages(options); });
    if (seconds > kLong || error.message().find(reason) != std::string::npos) return error;
  }
}

// The last peer that it refused. Its threads learn that a moment after the other side does.
inline std::string refusal_of(const MessageServer& server) {
  for (int i = 0; i < kSoon && server.last_refusal().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return server.last_refusal();
}

}  // namespace muster::inline v0_1::net
