#include "muster/launch/internal/keeper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/secret.h"

namespace muster::inline v0_1::launch::internal {
namespace {

constexpr const char* kMark = "MUSTER_TASK_OF";
constexpr const char* kName = "muster-keeper";  // at most 15 letters
constexpr size_t kMostLeaders = 8192;           // tasks at a time
// How long processes are looked for that are not gone yet.
constexpr int kRounds = 250;
constexpr long kPauseNanoseconds = 20'000'000;

void pause_a_little() {
  const timespec time{.tv_sec = 0, .tv_nsec = kPauseNanoseconds};
  nanosleep(&time, nullptr);
}

// What follows runs in a child of a process that may have had threads, so it allocates nothing,
// takes no lock, and calls what signal handlers may call.

// "/proc/12/stat"
class ProcPath {
 public:
  ProcPath(pid_t pid, const char* file) {
    std::array<char, 16> digits{};
    size_t count = 0;
    for (pid_t rest = pid; rest > 0; rest /= 10)
      digits[count++] = static_cast<char>('0' + rest % 10);
    char* end = std::copy_n("/proc/", 6, text_.data());
    while (count > 0) *end++ = digits[--count];
    *end++ = '/';
    std::strcpy(end, file);
  }
  int open() const { return ::open(text_.data(), O_RDONLY | O_CLOEXEC); }

 private:
  std::array<char, 64> text_{};
};

// Whether there is nothing to kill: it has ended, or is the keeper of a run inside of ours, which
// ends by itself when it has done its work.
bool is_through(pid_t pid) {
  const int fd = ProcPath(pid, "stat").open();
  if (fd < 0) return true;
  std::array<char, 512> text;
  const ssize_t size = read(fd, text.data(), text.size());
  close(fd);
  const std::string_view stat(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  const size_t name = stat.find('('), name_end = stat.rfind(')');
  return name_end == std::string_view::npos || name_end + 2 >= stat.size() ||
         stat[name_end + 2] == 'Z' || stat.substr(name + 1, name_end - name - 1) == kName;
}

// Whether the environment with which a process began holds "name=value" and the zero after it.
bool has_mark(pid_t pid, std::string_view mark) {
  static std::array<char, 1 << 16> bytes;
  const int fd = ProcPath(pid, "environ").open();
  if (fd < 0) return false;
  size_t kept = 0;
  bool found = false;
  for (ssize_t count = 0;
       !found && (count = read(fd, bytes.data() + kept, bytes.size() - kept)) > 0;) {
    const size_t size = kept + static_cast<size_t>(count);
    found = std::string_view(bytes.data(), size).find(mark) != std::string_view::npos;
    kept = std::min(size, mark.size());
    std::memmove(bytes.data(), bytes.data() + size - kept, kept);
  }
  close(fd);
  return found;
}

// Calls `is_meant` with each process there is, and sends `signal` to those for which it holds. How
// many of them have not ended yet; below 0 where the system does not say which processes there are.
template <typename IsMeant>
int kill_all(const IsMeant& is_meant, int signal = SIGKILL) {
  struct Entry {  // linux_dirent64, which has no header
    ino64_t inode;
    off64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  static std::array<char, 1 << 15> bytes;
  const int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  const pid_t self = getpid();
  int alive = 0;
  for (long count = 0; (count = syscall(SYS_getdents64, folder, bytes.data(), bytes.size())) > 0;) {
    for (long at = 0; at < count;) {
      const auto* entry = reinterpret_cast<const Entry*>(bytes.data() + at);
      at += entry->size;
      pid_t pid = 0;
      const char* digit = entry->name;
      for (; *digit >= '0' && *digit <= '9'; ++digit) pid = 10 * pid + (*digit - '0');
      if (*digit != 0 || pid <= 1 || pid == self || !is_meant(pid) || is_through(pid)) continue;
      if (kill(pid, signal) == 0) ++alive;
    }
  }
  close(folder);
  return alive;
}

struct Leaders {
  std::array<pid_t, kMostLeaders> pids;
  size_t count = 0;

  void add(pid_t pid) {
    if (count < kMostLeaders) pids[count++] = pid;
  }
  void remove(pid_t pid) {
    for (size_t i = 0; i < count; ++i) {
      if (pids[i] == pid) pids[i--] = pids[--count];
    }
  }
  bool contain(pid_t pid) const {
    for (size_t i = 0; i < count; ++i) {
      if (pids[i] == pid) return true;
    }
    return false;
  }
};

// Is the process that waits for the end of the one before it, and of whom it hears by `pipe`.
[[noreturn]] void keep(int pipe, std::string_view mark) {
  static Leaders leaders;
  setsid();  // Ctrl-C and what ends a group of processes do not reach it
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, kName);
  // It holds nothing open that others wait to see closed.
  const int nothing = open("/dev/null", O_RDWR);
  for (int stream = 0; stream < 3 && nothing >= 0; ++stream) dup2(nothing, stream);
  constexpr int kPipe = 3;
  if (pipe != kPipe) dup2(pipe, kPipe);
  if (close_range(kPipe + 1, ~0U, 0) != 0) {
    for (int fd = kPipe + 1; fd < 4096; ++fd) close(fd);
  }
  pid_t leader = 0;
  for (ssize_t count = 0; (count = read(kPipe, &leader, sizeof leader)) != 0;) {
    if (count == static_cast<ssize_t>(sizeof leader) && leader == 0) break;  // the end
    if (count < 0 && errno != EINTR) break;
    if (count != static_cast<ssize_t>(sizeof leader)) continue;
    leader > 0 ? leaders.add(leader) : leaders.remove(-leader);
  }
  for (int round = 0; round < kRounds; ++round) {
    const int alive =
        kill_all([&](pid_t pid) { return leaders.contain(getsid(pid)) || has_mark(pid, mark); });
    if (alive == 0) break;
    if (alive < 0) {
      for (size_t i = 0; i < leaders.count; ++i) kill(-leaders.pids[i], SIGKILL);
      break;
    }
    pause_a_little();
  }
  _exit(0);
}

}  // namespace

Keeper::Keeper() : mark_(random_secret().substr(0, 16)) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw from_errno(errno, "cannot open a pipe", "raise the limit of open files: ulimit -n");
  // With the zero after it, which ends a variable.
  const std::string mark = std::string(kMark) + "=" + mark_ + std::string(1, '\0');
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[1]);
    keep(ends[0], mark);
  }
  const int number = errno;
  close(ends[0]);
  pipe_ = ends[1];
  if (pid_ < 0) {
    close(pipe_);
    throw from_errno(number, "cannot start the process that ends leftover processes of tasks",
                     "raise the limit of processes: ulimit -u");
  }
}

Keeper::~Keeper() {
  tell(0);
  close(pipe_);
  for (int round = 0; round < 2 * kRounds; ++round) {
    if (waitpid(pid_, nullptr, WNOHANG) != 0) return;
    pause_a_little();
  }
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::pair<std::string, std::string> Keeper::mark() const { return {kMark, mark_}; }

void Keeper::add(pid_t leader) { tell(leader); }
void Keeper::remove(pid_t leader) { tell(-leader); }

// A keeper that was killed is none; the supervisor ignores or blocks SIGPIPE.
void Keeper::tell(pid_t word) {
  while (write(pipe_, &word, sizeof word) < 0 && errno == EINTR) {
  }
}

void kill_session(pid_t leader) {
  // Processes in their own groups first: then none is left that could start more.
  kill(-leader, SIGKILL);
  (void)kill_all([&](pid_t pid) { return pid != leader && getsid(pid) == leader; });
}

bool group_lives(pid_t leader) {
  return kill_all([&](pid_t pid) { return pid != leader && getpgid(pid) == leader; }, 0) > 0;
}

}  // namespace muster::inline v0_1::launch::internal
