#include "muster/launch/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "muster/base/error.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::launch {
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

// Takes bytes that a program printed.
using Bytes = std::function<void(std::string_view)>;

// Reads what is there, and closes the pipe at its end.
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

// Runs the program while `left` gives it time; it is asked again when that has passed.
CompletedProcess run(const std::vector<std::string>& argv, const Bytes* out_bytes,
                     const std::function<milliseconds()>& left) {
  Pipe out, err;
  // The child stays in our process group, so that Ctrl-C reaches it too.
  ChildProcess child({.argv = argv, .out = out.end(1), .err = err.end(1)});
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
  // When its outputs are closed, the child is about to end, unless it closed them itself.
  std::optional<ExitStatus> status;
  while (!(status = child.wait_for(time)) && time.count() > 0) time = left();
  if (!status) {
    ran.timed_out = true;
    child.signal(SIGKILL);
    while (!(status = child.wait_for(std::chrono::seconds(1)))) {
    }
  }
  ran.status = *status;
  return ran;
}

}  // namespace

CompletedProcess run_to_end(const std::vector<std::string>& argv, milliseconds deadline) {
  const auto end = steady_clock::now() + deadline;
  return run(argv, nullptr, [end] {
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(end - steady_clock::now()));
  });
}

CompletedProcess run_by_lines(const std::vector<std::string>& argv,
                              const std::function<void(std::string_view)>& line,
                              const std::function<bool()>& unwanted) {
  std::string begun;  // a line whose end has not come
  const Bytes take = [&](std::string_view bytes) {
    for (size_t end; (end = bytes.find('\n')) != std::string_view::npos;
         bytes.remove_prefix(end + 1)) {
      begun.append(bytes.substr(0, end));
      line(begun);
      begun.clear();
    }
    begun.append(bytes);
  };
  CompletedProcess ran = run(argv, &take, [&] { return milliseconds(unwanted() ? 0 : 100); });
  if (!begun.empty()) line(begun);
  return ran;
}

}  // namespace muster::inline v0_1::launch
