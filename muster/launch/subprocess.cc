#include "muster/launch/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/launch/child_process.h"
#include "muster/launch/internal/forwarded_signals.h"
#include "muster/launch/internal/process.h"
#include "muster/launch/lines.h"

namespace muster::inline v0_1::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Lists of a cluster's pods have some kilobytes for each.
constexpr size_t kMostKept = 64'000'000;
constexpr milliseconds kEndLook{2};
// A user who watches a program sees its end by its output.
constexpr milliseconds kVisibleLook{20};

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

// Takes bytes that a program printed.
using Bytes = std::function<void(std::string_view)>;

// Reads the available bytes, and closes the pipe at its end.
void drain(Pipe& pipe, const Bytes& take) {
  std::array<char, 65536> bytes;
  const ssize_t count = read(pipe.end(0), bytes.data(), bytes.size());
  if (count > 0) {
    take({bytes.data(), static_cast<size_t>(count)});
  } else if (count == 0 || errno != EINTR) {
    pipe.close_end(0);
  }
}

Bytes kept_in(std::string& kept) {
  return [&kept](std::string_view bytes) {
    kept.append(bytes.substr(0, kMostKept - std::min(kMostKept, kept.size())));
  };
}

// A program in a session of its own with all that it starts, so that a wrapper's children end with
// it, and nothing of it waits at the terminal for a password.
class Session {
 public:
  Session(const std::vector<std::string>& argv, int out, int err,
          const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    const internal::HeldSignals held;
    pid_ = spawn({.argv = argv,
                  .environment = environment,
                  .out = out,
                  .err = err,
                  .group = ChildSpec::Group::kOwnSession,
                  .mask = held.former()});
    forwarded_.emplace(pid_);
  }
  ~Session() {
    if (pid_ < 0) return;
    end_all();
    reap();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Whether the program itself has ended.
  bool ended() const { return internal::peek_exit(pid_).has_value(); }
  // Kills it and its children. The program is still a zombie, so no other process has its number.
  void end_all() { internal::signal_group(pid_, SIGKILL); }
  // Waits for the end of the program itself.
  ExitStatus reap() {
    forwarded_.reset();  // after its end its number may belong to another process
    int word = 0;
    while (waitpid(pid_, &word, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return ExitStatus::from_wait_status(word);
  }

 private:
  pid_t pid_ = -1;
  std::optional<internal::ForwardedSignals> forwarded_;
};

// Runs the program while `left` gives it time; it is asked again when that has passed.
CompletedProcess run(const std::vector<std::string>& argv, const Bytes* out_bytes,
                     const std::function<milliseconds()>& left) {
  Pipe out, err;
  Session session(argv, out.end(1), err.end(1));
  out.close_end(1);
  err.close_end(1);

  CompletedProcess ran;
  const Bytes take_out = out_bytes != nullptr ? *out_bytes : kept_in(ran.out);
  const Bytes take_err = kept_in(ran.err);
  milliseconds time = left();
  for (; time.count() > 0 && (out.end(0) >= 0 || err.end(0) >= 0); time = left()) {
    std::array<pollfd, 2> waiting{pollfd{out.end(0), POLLIN, 0}, pollfd{err.end(0), POLLIN, 0}};
    if (poll(waiting.data(), waiting.size(), static_cast<int>(time.count())) <= 0) continue;
    if (waiting[0].revents != 0) drain(out, take_out);
    if (waiting[1].revents != 0) drain(err, take_err);
  }
  // When its outputs are closed, the program is about to end, unless it closed them itself.
  for (; time.count() > 0 && !session.ended(); time = left()) std::this_thread::sleep_for(kEndLook);
  if (time.count() <= 0) {
    // The program may have ended while processes that it left behind still hold the outputs.
    ran.timed_out = !session.ended();
    session.end_all();
  }
  ran.status = session.reap();
  return ran;
}

}  // namespace

CompletedProcess run_to_end(const std::vector<std::string>& argv, milliseconds deadline,
                            const SlowNotice& notice) {
  const auto begin = steady_clock::now(), end = begin + deadline;
  bool awaits_notice = notice.tell && notice.after < deadline;
  return run(argv, nullptr, [&] {
    if (awaits_notice && steady_clock::now() >= begin + notice.after) {
      awaits_notice = false;
      notice.tell();
    }
    const auto until = awaits_notice ? begin + notice.after : end;
    // Nothing left is the end alone: the time of the notice may pass while this is read.
    const milliseconds least(awaits_notice ? 1 : 0);
    return std::max(least, std::chrono::ceil<milliseconds>(until - steady_clock::now()));
  });
}

CompletedProcess run_by_lines(const std::vector<std::string>& argv,
                              const std::function<void(std::string_view)>& line,
                              const std::function<bool()>& unwanted) {
  Lines lines;
  const Bytes take = [&](std::string_view bytes) { lines.append(bytes, line); };
  CompletedProcess ran = run(argv, &take, [&] { return milliseconds(unwanted() ? 0 : 100); });
  lines.finish(line);
  return ran;
}

ExitStatus run_visibly(const std::vector<std::string>& argv,
                       const std::vector<std::pair<std::string, std::string>>& environment) {
  Session session(argv, STDOUT_FILENO, STDERR_FILENO, environment);
  while (!session.ended()) std::this_thread::sleep_for(kVisibleLook);
  return session.reap();
}

}  // namespace muster::inline v0_1::launch
