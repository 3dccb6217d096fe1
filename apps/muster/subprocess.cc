#include "apps/muster/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "muster/base/error.h"
#include "muster/launch/child_process.h"

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

// Reads what is there into `kept`, and closes the pipe at its end.
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

CompletedProcess run_to_end(const std::vector<std::string>& argv, milliseconds deadline) {
  const auto end = steady_clock::now() + deadline;
  const auto left = [&] {
    const auto rest = std::chrono::ceil<milliseconds>(end - steady_clock::now()).count();
    return static_cast<int>(std::max<int64_t>(0, rest));
  };
  Pipe out, err;
  // The child stays in our process group, so that Ctrl-C reaches it too.
  launch::ChildProcess child({.argv = argv, .out = out.end(1), .err = err.end(1)});
  out.close_end(1);
  err.close_end(1);

  CompletedProcess ran;
  while (left() > 0 && (out.end(0) >= 0 || err.end(0) >= 0)) {
    std::array<pollfd, 2> waiting{pollfd{out.end(0), POLLIN, 0}, pollfd{err.end(0), POLLIN, 0}};
    if (poll(waiting.data(), waiting.size(), left()) <= 0) continue;
    if (waiting[0].revents != 0) drain(out, ran.out);
    if (waiting[1].revents != 0) drain(err, ran.err);
  }
  // When its outputs are closed, the child is about to end, unless it closed them itself.
  std::optional<launch::ExitStatus> status = child.wait_for(milliseconds(left()));
  if (!status) {
    ran.timed_out = true;
    child.signal(SIGKILL);
    while (!(status = child.wait_for(std::chrono::seconds(1)))) {
    }
  }
  ran.status = *status;
  return ran;
}

}  // namespace muster::app
