#include "muster/collectives/internal/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace muster::inline v0_1::internal {
namespace {

using ::testing::HasSubstr;

const std::byte* bytes_of(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}
std::byte* bytes_of(std::string& text) { return reinterpret_cast<std::byte*>(text.data()); }

std::string pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = std::make_unique<Connection>(FileDescriptor(ends[0]));
    there_ = std::make_unique<Connection>(FileDescriptor(ends[1]));
  }

  // Lets both sides move what they can.
  void move() {
    for (int i = 0; i < 1000; ++i) {
      for (Connection* side : {here_.get(), there_.get()}) {
        side->write();
        side->read();
      }
    }
  }

  std::unique_ptr<Connection> here_, there_;
};

TEST_F(ConnectionTest, CarriesMessagesOfAllSizesBothWaysAtOnce) {
  const std::vector<size_t> sizes = {0, 1, 15, 16, 17, 4096, 65'535, 65'536, 65'537, 3'000'000, 5};
  std::vector<std::string> sent, back;
  std::vector<std::string> got, got_back;
  for (const size_t size : sizes) {
    sent.push_back(pattern(size));
    back.push_back(pattern(size + 3));
    got.emplace_back(size, 'x');
    got_back.emplace_back(size + 3, 'x');
  }
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto tag = static_cast<uint32_t>(i % 3);
    const auto size = static_cast<int64_t>(sizes[i]);
    transfers.push_back(there_->receive(bytes_of(got[i]), size, tag));
    transfers.push_back(here_->receive(bytes_of(got_back[i]), size + 3, tag));
    transfers.push_back(here_->send(bytes_of(sent[i]), size, tag));
    transfers.push_back(there_->send(bytes_of(back[i]), size + 3, tag));
  }
  move();
  for (const auto& transfer : transfers) EXPECT_TRUE(transfer->done());
  EXPECT_EQ(got, sent);
  EXPECT_EQ(got_back, back);
}

TEST_F(ConnectionTest, AMessageWaitsForItsReceive) {
  const std::string first = pattern(100'000), second = pattern(7);
  const auto sends = {here_->send(bytes_of(first), 100'000, 1),
                      here_->send(bytes_of(second), 7, 2)};
  std::string late(7, 'x');
  const auto behind = there_->receive(bytes_of(late), 7, 2);
  move();
  EXPECT_FALSE(behind->done());
  std::string taken(100'000, 'x');
  const auto before = there_->receive(bytes_of(taken), 100'000, 1);
  move();
  EXPECT_TRUE(before->done());
  EXPECT_TRUE(behind->done());
  EXPECT_EQ(taken, first);
  EXPECT_EQ(late, second);
}

TEST_F(ConnectionTest, AShorterMessageIsTakenAndALongerOneIsNot) {
  const std::string text = pattern(10);
  std::string room(20, 'x');
  const auto shorter = there_->receive(bytes_of(room), 20, 0);
  const auto sent = here_->send(bytes_of(text), 10, 0);
  move();
  EXPECT_TRUE(shorter->done());
  EXPECT_EQ(room, text + std::string(10, 'x'));
  std::string little(9, 'x');
  const auto longer = there_->receive(bytes_of(little), 9, 0);
  const auto again = here_->send(bytes_of(text), 10, 0);
  move();
  EXPECT_FALSE(longer->done());
  EXPECT_EQ(little, std::string(9, 'x'));
  ASSERT_TRUE(there_->closed());
  EXPECT_THAT(*there_->closed(), HasSubstr("10 bytes came where 9 were expected"));
}

TEST_F(ConnectionTest, AReceiveThatIsGivenUpTouchesNothingAndBlocksNothing) {
  const std::string large = pattern(4'000'000), next = pattern(50);
  const auto sent = here_->send(bytes_of(large), 4'000'000, 0);
  const auto behind = here_->send(bytes_of(next), 50, 0);
  {
    std::string room(4'000'000, 'x');
    const auto given_up = there_->receive(bytes_of(room), 4'000'000, 0);
    there_->read();
    EXPECT_FALSE(given_up->done());
  }
  std::string taken(50, 'x');
  const auto after = there_->receive(bytes_of(taken), 50, 0);
  move();
  EXPECT_TRUE(after->done());
  EXPECT_EQ(taken, next);
}

TEST_F(ConnectionTest, AMessageGivenUpInTheMiddleClosesTheConnection) {
  const std::string large = pattern(40'000'000), small = pattern(3);
  auto unsent = here_->send(bytes_of(large), 40'000'000, 0);
  auto queued = here_->send(bytes_of(small), 3, 0);
  queued.reset();  // nothing of it was sent
  EXPECT_FALSE(here_->closed());
  unsent.reset();
  EXPECT_TRUE(here_->closed());
  std::string room(40'000'000, 'x');
  const auto receive = there_->receive(bytes_of(room), 40'000'000, 0);
  move();
  EXPECT_FALSE(receive->done());
  EXPECT_TRUE(there_->closed());
}

TEST_F(ConnectionTest, WhatWasSentBeforeTheEndArrives) {
  const std::string text = pattern(1000);
  {
    const auto sent = here_->send(bytes_of(text), 1000, 4);
    EXPECT_TRUE(sent->done());
  }
  here_.reset();
  std::string taken(1000, 'x'), never(5, 'x');
  const auto receive = there_->receive(bytes_of(taken), 1000, 4);
  const auto none = there_->receive(bytes_of(never), 5, 4);
  there_->read();
  EXPECT_TRUE(receive->done());
  EXPECT_EQ(taken, text);
  EXPECT_FALSE(none->done());
  ASSERT_TRUE(there_->closed());
  EXPECT_THAT(*there_->closed(), HasSubstr("closed"));
  const auto sent = there_->send(bytes_of(text), 1000, 4);
  EXPECT_FALSE(sent->done());
}

// A goodbye after a message that nobody will take any more tells why the other side left.
TEST_F(ConnectionTest, WhatStandsBehindAHeldUpMessageArrivesAtTheEnd) {
  const std::string payload = pattern(100'000), goodbye = "worker 2 was lost";
  const auto length = static_cast<int64_t>(goodbye.size());
  for (const bool by_writing : {false, true}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_ = std::make_unique<Connection>(FileDescriptor(ends[0]));
    there_ = std::make_unique<Connection>(FileDescriptor(ends[1]));
    {
      const auto first = here_->send(bytes_of(payload), 100'000, 1);
      const auto second = here_->send(bytes_of(goodbye), length, 2);
      ASSERT_TRUE(second->done());
    }
    here_.reset();
    std::string room(goodbye.size(), 'x');
    const auto last = there_->receive(bytes_of(room), length, 2);
    there_->read();
    EXPECT_FALSE(last->done()) << "the first message waits for its receive";
    std::unique_ptr<Transfer> lost;
    if (by_writing) {
      lost = there_->send(bytes_of(payload), 100'000, 3);
    } else {
      there_->note_hang_up();
    }
    EXPECT_TRUE(last->done());
    EXPECT_EQ(room, goodbye);
    EXPECT_TRUE(there_->closed());
  }
}

TEST_F(ConnectionTest, WhatIsNoMessageClosesIt) {
  const std::string noise = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
  ASSERT_EQ(::send(here_->descriptor(), noise.data(), noise.size(), 0),
            static_cast<ssize_t>(noise.size()));
  there_->read();
  ASSERT_TRUE(there_->closed());
  EXPECT_THAT(*there_->closed(), HasSubstr("not a message"));
}

}  // namespace
}  // namespace muster::inline v0_1::internal
