#include "muster/net/internal/token_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/net/internal/stream.h"
#include "muster/net/internal/testing.h"

namespace muster::inline v0_1::net {
namespace {

// The messages that each side received, in the order of the proof: hello, challenge, proof,
// welcome.
using Heard = std::vector<std::string>;
// Changes message `number` as it is received.
using Tamper = std::function<void(size_t number, std::string& message)>;

struct Meeting {
  bool client_is_sure = false, server_is_sure = false;
  std::string server_task, client_task;
  Heard heard = Heard(4);
};

std::string hear(MessageSocket& socket, size_t number, Heard& heard, const Tamper& tamper) {
  auto message = socket.receive(kLong);
  if (!message) throw Error(ErrorKind::kTimeout, "nothing came");
  heard[number] = message->text;
  if (tamper) tamper(number, message->text);
  return message->text;
}

cluster::Job job_with(const std::string& token) {
  cluster::Job job;
  job.id = "resnet";
  job.token = token;
  return job;
}

Meeting meet(const cluster::Job& client_job, const cluster::Job& server_job,
             const Tamper& tamper = {}) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  MessageSocket client(plain_stream(FileDescriptor(ends[0])), {.peer = "server"});
  MessageSocket server(plain_stream(FileDescriptor(ends[1])), {.peer = "client"});
  Meeting meeting;
  std::thread serves([&] {
    try {
      size_t next = 0;
      const ProvedClient proved = prove_to_client(server, server_job, "ps:0", [&] {
        return hear(server, 2 * next++, meeting.heard, tamper);
      });
      meeting.server_is_sure = proved.refusal.empty();
      meeting.client_task = proved.task;
      if (meeting.server_is_sure) welcome(server);
    } catch (const Error&) {
      server.close();
    }
  });
  try {
    size_t next = 0;
    const ProvedServer proved = prove_to_server(client, client_job, "worker:1", "the server", [&] {
      return hear(client, 2 * next++ + 1, meeting.heard, tamper);
    });
    meeting.client_is_sure = true;
    meeting.server_task = proved.task;
  } catch (const Error&) {
    client.close();
  }
  serves.join();
  return meeting;
}

const cluster::Job kMember = job_with("a token of sixteen");

TEST(MessageProof, TwoOfOneJobAreSureOfEachOther) {
  for (const char* token : {"a token of sixteen", ""}) {
    const Meeting meeting = meet(job_with(token), job_with(token));
    EXPECT_TRUE(meeting.client_is_sure);
    EXPECT_TRUE(meeting.server_is_sure);
    EXPECT_EQ(meeting.server_task, "ps:0");
    EXPECT_EQ(meeting.client_task, "worker:1");
  }
  const Meeting intruders = meet(kMember, job_with("another token of them"));
  EXPECT_FALSE(intruders.client_is_sure);
  EXPECT_FALSE(intruders.server_is_sure);
}

TEST(MessageProof, TheTokenIsNotSent) {
  for (const std::string& message : meet(kMember, kMember).heard) {
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(message.find(kMember.token), std::string::npos);
  }
}

// A change of the bytes between two tasks is always detected.
TEST(MessageProof, NoByteCanBeChanged) {
  const Heard whole = meet(kMember, kMember).heard;
  for (size_t number = 0; number < whole.size(); ++number) {
    for (size_t at = 0; at < whole[number].size(); ++at) {
      const Meeting meeting = meet(kMember, kMember, [&](size_t heard, std::string& message) {
        if (heard == number) message[at] = static_cast<char>(message[at] ^ 1);
      });
      EXPECT_FALSE(meeting.client_is_sure) << "byte " << at << " of message " << number;
      // The welcome is the server's last message.
      EXPECT_EQ(meeting.server_is_sure, number == 3) << "byte " << at << " of message " << number;
    }
  }
}

// Messages of one session prove nothing in another.
TEST(MessageProof, NothingCanBePlayedBack) {
  const Heard before = meet(kMember, kMember).heard;
  const cluster::Job intruder = job_with("no token of that job");
  const auto play_back = [&](size_t number, std::string& message) { message = before[number]; };
  const Meeting as_client = meet(intruder, kMember, [&](size_t number, std::string& message) {
    if (number % 2 == 0) play_back(number, message);
  });
  EXPECT_FALSE(as_client.server_is_sure);
  const Meeting as_server = meet(kMember, intruder, [&](size_t number, std::string& message) {
    if (number % 2 == 1) play_back(number, message);
  });
  EXPECT_FALSE(as_server.client_is_sure);
}

// A task of another version receives both versions and their places, on both sides.
TEST(MessageProof, AnotherVersionIsRefusedByName) {
  std::string client_says, server_says;
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  MessageSocket client(plain_stream(FileDescriptor(ends[0])), {.peer = "server"});
  MessageSocket server(plain_stream(FileDescriptor(ends[1])), {.peer = "client"});
  Heard heard(4);
  std::thread serves([&] {
    try {
      prove_to_client(server, kMember, "ps:0", [&] {
        return hear(server, 0, heard, [](size_t, std::string& message) {
          auto fields = *split_fields(message);
          fields[1] = "1";
          fields[2] = "0.0.9";
          message = join_fields(fields);
        });
      });
    } catch (const Error& error) {
      server_says = error.what();
    }
  });
  try {
    prove_to_server(client, kMember, "worker:1", "the server", [&] {
      return hear(client, 1, heard, [](size_t, std::string& message) {
        auto fields = *split_fields(message);
        fields[1] = "999";
        message = join_fields(fields);
      });
    });
  } catch (const Error& error) {
    client_says = error.what();
  }
  serves.join();
  EXPECT_THAT(server_says,
              testing::AllOf(testing::HasSubstr("a task (worker:1) runs Muster 0.0.9 (protocol 1)"),
                             testing::HasSubstr("this task (ps:0) Muster ")));
  EXPECT_THAT(client_says, testing::AllOf(testing::HasSubstr("the server (ps:0) runs Muster "),
                                          testing::HasSubstr("(protocol 999)")));
}

TEST(MessageProof, FieldsAreJoinedAndSplit) {
  const std::vector<std::string> fields = {"", "hello", std::string(300, '\n'), ""};
  EXPECT_EQ(split_fields(join_fields(fields)), fields);
  EXPECT_TRUE(split_fields("")->empty());
  const std::string text = join_fields({"hello", "you"});
  for (size_t bytes = 1; bytes < text.size(); ++bytes) {
    const bool between = bytes == sizeof(uint32_t) + 5;
    EXPECT_EQ(split_fields(text.substr(0, bytes)).has_value(), between) << bytes;
  }
  EXPECT_FALSE(
      split_fields("\xff\xff\xff\xff"
                   "hello"));
}

}  // namespace
}  // namespace muster::inline v0_1::net
