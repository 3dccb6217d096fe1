#include "muster/net/message_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1::net {
namespace {

TEST(MessageServer, AnswersATask) {
  cluster::Job job;
  job.token = "0123456789abcdef";
  MessageServer server({.address = "127.0.0.1:0", .job = job, .task = "ps:0"},
                       [](MessageSocket& socket) {
                         while (auto head = socket.receive(60)) socket.send(head->text + "!");
                       });
  const auto socket =
      connect_messages({.address = server.address(), .job = job, .task = "worker:1"});
  socket->send("hello");
  const auto answer = socket->receive(60);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, "hello!");
  EXPECT_EQ(socket->peer_task(), "ps:0");
}

}  // namespace
}  // namespace muster::inline v0_1::net
