#include "muster/collectives/internal/unix_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/secret.h"
#include "muster/base/shared_memory.h"
#include "muster/base/unix_name.h"
#include "muster/collectives/internal/tcp_socket.h"

namespace muster::inline v0_1::internal {
namespace {

using namespace std::chrono_literals;

int64_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// Both ends of a connection.
struct Pair {
  FileDescriptor sender, receiver;
};
Pair make_pair() {
  const std::string name = "muster-test-" + random_secret();
  const FileDescriptor listener = listen_unix(name);
  Pair pair;
  pair.sender = connect_unix(name).value();
  pair.receiver = accept_unix(listener, 10s).value();
  return pair;
}

// Sends a letter as no member does: of `bytes` bytes, with `files` descriptors.
void send_letter(const FileDescriptor& socket, size_t bytes, size_t files) {
  std::vector<char> text(bytes, 'x');
  iovec body{.iov_base = text.data(), .iov_len = bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  const std::vector<int> sent(files, socket.get());
  if (files > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(files * sizeof(int));
    cmsghdr* const attached = CMSG_FIRSTHDR(&header);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(files * sizeof(int));
    std::memcpy(CMSG_DATA(attached), sent.data(), files * sizeof(int));
  }
  ASSERT_EQ(sendmsg(socket.get(), &header, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

constexpr size_t kLetterBytes = 64 + 3 * 8;

TEST(UnixSocket, HandsOnMemory) {
  const Pair pair = make_pair();
  const SharedMemory memory = SharedMemory::create(4096);
  memory.data()[9] = std::byte{3};
  const std::string token = random_secret();
  const MemoryHandle handle{.rank = 2, .token = token, .id = 7, .bytes = 4096, .file = {}};
  ASSERT_TRUE(send_handle(pair.sender, handle, memory.file()));
  auto taken = receive_handle(pair.receiver, 10s);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->rank, 2);
  EXPECT_EQ(taken->token, token);
  EXPECT_EQ(taken->id, 7u);
  EXPECT_EQ(SharedMemory::map(std::move(taken->file), taken->bytes).data()[9], std::byte{3});
}

// Each would otherwise cost the receiver a descriptor, for as long as the process lives.
TEST(UnixSocket, ALetterOfAnotherFormIsRefusedAndItsDescriptorsAreClosed) {
  const Pair pair = make_pair();
  const int64_t before = open_descriptors();
  const struct {
    size_t bytes, files;
  } letters[] = {{kLetterBytes, 2},
                 {kLetterBytes, 4},
                 {kLetterBytes, 0},
                 {kLetterBytes - 1, 1},
                 {kLetterBytes + 1, 1},
                 {1, 1},
                 {1, 2}};
  for (const auto& [bytes, files] : letters) {
    send_letter(pair.sender, bytes, files);
    EXPECT_FALSE(receive_handle(pair.receiver, 10s)) << bytes << " bytes, " << files << " files";
    EXPECT_EQ(open_descriptors(), before) << bytes << " bytes, " << files << " files";
  }
  // A message of the right form, but from rank 0x7878...: no rank at all.
  send_letter(pair.sender, kLetterBytes, 1);
  EXPECT_FALSE(receive_handle(pair.receiver, 10s));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(UnixSocket, AFullQueueIsNotWaitedFor) {
  const std::string name = "muster-test-" + random_secret();
  const FileDescriptor listener = listen_unix(name);
  ASSERT_EQ(listen(listener.get(), 1), 0);  // a short queue: the limit is changed by a second call
  std::vector<FileDescriptor> waiting;
  while (auto socket = connect_unix(name)) {
    waiting.push_back(std::move(*socket));
    ASSERT_LT(waiting.size(), 10u);
  }
  EXPECT_FALSE(connect_unix(name));
  EXPECT_TRUE(accept_unix(listener, 10s));
  EXPECT_TRUE(connect_unix(name));
  EXPECT_EQ(error_of([] { connect_unix("muster-test-nobody-" + random_secret()); }).kind(),
            ErrorKind::kUnavailable);
}

TEST(UnixSocket, KnowsAProcessOfAnotherUser) {
  // A peer of another user is a process that gave up root; only root can make one.
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  constexpr uid_t kNobody = 65534;
  const std::string name = "muster-test-" + random_secret();
  const FileDescriptor listener = listen_unix(name);
  const FileDescriptor own = connect_unix(name).value();
  EXPECT_TRUE(is_same_user(own.get()));
  EXPECT_TRUE(is_same_user(accept_unix(listener, 10s).value().get()));
  const pid_t child = fork();
  if (child == 0) {
    // It connects, and stays until the test has looked at it.
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(2);
    try {
      const auto socket = connect_unix(name);
      if (!socket || is_same_user(socket->get())) _exit(3);  // the listener is root's
      _exit(readable(*socket, 10s) ? 0 : 4);
    } catch (...) {
      _exit(5);
    }
  }
  const auto intruder = accept_unix(listener, 10s);
  ASSERT_TRUE(intruder);
  EXPECT_FALSE(is_same_user(intruder->get()));
  ASSERT_EQ(send(intruder->get(), "x", 1, MSG_NOSIGNAL), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// In a process of its own, which may not open a single descriptor more.
void open_one_more() {
  const TcpListener tcp = listen_tcp("127.0.0.1");
  const FileDescriptor client = start_connect_tcp(tcp.address);
  const std::string name = "muster-test-" + random_secret();
  const FileDescriptor unix_listener = listen_unix(name);
  const auto unix_client = connect_unix(name);
  const rlimit limit{.rlim_cur = 3, .rlim_max = 3};  // open ones stay
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || !readable(tcp.socket, 10s)) std::exit(2);
  const auto kind_of = [](const auto& fn) { return error_of(fn).kind(); };
  EXPECT_EQ(kind_of([&] { accept_tcp(tcp.socket); }), ErrorKind::kUnavailable);
  EXPECT_EQ(kind_of([&] { accept_unix(unix_listener, 10s); }), ErrorKind::kUnavailable);
  EXPECT_EQ(kind_of([] { listen_tcp("127.0.0.1"); }), ErrorKind::kUnavailable);
  EXPECT_EQ(kind_of([&] { start_connect_tcp(tcp.address); }), ErrorKind::kUnavailable);
  EXPECT_EQ(kind_of([&] { connect_unix(name); }), ErrorKind::kUnavailable);
  EXPECT_EQ(kind_of([] { SharedMemory::create(4096); }), ErrorKind::kUnavailable);
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

// Others may give theirs back: the exit code asks for another try.
TEST(UnixSocket, NoDescriptorIsLeftMeansUnavailable) {
#ifdef __SANITIZE_ADDRESS__
  // Its check of types opens a pipe to look at memory, and reports memory that it cannot look at as
  // an error.
  GTEST_SKIP() << "the sanitizer of undefined behaviour needs descriptors itself";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_one_more(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster::inline v0_1::internal
