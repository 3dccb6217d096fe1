#include "apps/muster/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "muster/base/error.h"

extern char** environ;

namespace muster::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMostKept = 4'000'000;

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw from_errno(errno, "cannot open a pipe", "raise the limit of open files: ulimit -n");
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int end(int which) const { return ends_[which]; }
  void close_end(int which) {
    if (ends_[which] >= 0) close(ends_[which]);
    ends_[which] = -1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Reads what is there into `kept`; closes the pipe at its end.
void drain(Pipe& pipe, std::string& kept) {
  std::array<char, 65536> bytes;
  const ssize_t count = read(pipe.end(0), bytes.data(), bytes.size());
  if (count > 0) {
    const size_t room = kMostKept - std::min(kMostKept, kept.size());
    kept.append(bytes.data(), std::min(room, static_cast<size_t>(count)));
  } else if (count == 0 || errno != EINTR) {
    pipe.close_end(0);
  }
}

}  // namespace

Ran run_to_end(const std::vector<std::string>& argv, milliseconds deadline) {
  const auto end = steady_clock::now() + deadline;
  const auto left = [&] {
    const auto rest = std::chrono::ceil<milliseconds>(end - steady_clock::now()).count();
    return static_cast<int>(std::max<int64_t>(0, rest));
  };
  Pipe out, err;
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.end(1), 1);
  posix_spawn_file_actions_adddup2(&actions, err.end(1), 2);
  pid_t pid = -1;
  // In our process group, so that Ctrl-C reaches it too.
  const int code = posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw from_errno(code, fmt::format("cannot start '{}'", argv[0]));
  out.close_end(1);
  err.close_end(1);

  Ran ran;
  while (left() > 0 && (out.end(0) >= 0 || err.end(0) >= 0)) {
    std::array<pollfd, 2> waiting{pollfd{out.end(0), POLLIN, 0}, pollfd{err.end(0), POLLIN, 0}};
    if (poll(waiting.data(), waiting.size(), left()) <= 0) continue;
    if (waiting[0].revents != 0) drain(out, ran.out);
    if (waiting[1].revents != 0) drain(err, ran.err);
  }
  int status = 0;
  // Its outputs are closed: it is about to end, unless it closed them itself.
  for (;;) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) throw from_errno(errno, "cannot wait for " + argv[0]);
    if (left() == 0 && !ran.timed_out) {
      ran.timed_out = true;
      kill(pid, SIGKILL);
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  ran.status = launch::ExitStatus::from_wait_status(status);
  return ran;
}

}  // namespace muster::app
