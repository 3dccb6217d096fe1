#include "muster/hdf/internal/confined_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::hdf::internal {
namespace {

// What the child says: a word of these, and for some of them bytes that follow.
enum class Says : uint64_t { kRead = 1, kAnswer, kError, kDone };
struct Message {
  Says says{};
  uint64_t first = 0;   // kRead: the offset; kError: the ErrorKind and the length of the message
  uint64_t length = 0;  // kRead: how many bytes; kAnswer, kError: how many follow
};

constexpr size_t kSlice = size_t{256} << 10;  // bytes that are moved at a time
constexpr uint64_t kLongestError = 1 << 16;   // bytes
// How many times its bytes a file may be read, and what a read counts at least.
constexpr uint64_t kMostReads = 64;
constexpr uint64_t kLeastRead = 512;
constexpr int kMostSilence = 300'000;  // ms
constexpr int kSocket = 3;             // in the child
// What the child calls exit() with when it could not be confined.
constexpr int kNotConfined = 126;

// In the child, which may call write() alone, and in the parent, which a broken socket must not
// end.
enum class Side { kChild, kParent };

bool write_all(Side side, int socket, const void* from, size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t count = side == Side::kChild ? ::write(socket, next, bytes)
                                               : ::send(socket, next, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool read_all(int socket, void* to, size_t bytes) {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::read(socket, next, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

// The parent is gone, or does not listen: nobody needs the child.
[[noreturn]] void leave() { _exit(1); }

#if defined(__x86_64__)
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kMachine = 0;
#endif

// What an allocator and a program that computes call. read() and write() reach the socket alone:
// nothing else is open.
constexpr auto kCalls = std::to_array<uint32_t>({
  SYS_read, SYS_write, SYS_exit_group, SYS_exit, SYS_rt_sigreturn, SYS_brk, SYS_mmap, SYS_munmap,
      SYS_mremap, SYS_mprotect, SYS_madvise, SYS_futex, SYS_sched_yield, SYS_getpid,
      SYS_clock_gettime, SYS_rt_sigprocmask,
#if defined(__SANITIZE_ADDRESS__)
      SYS_sigaltstack,  // its runtime asks for the stack of signals when something is thrown
#endif
});

// From now on all other system calls fail. Source: seccomp(2), BPF programs of the kernel.
bool forbid_system_calls() {
  if (kMachine == 0) return false;
  std::array<sock_filter, 4 + kCalls.size() + 2> program{};
  size_t next = 0;
  const auto add = [&](sock_filter instruction) { program.at(next++) = instruction; };
  constexpr auto kRefuse = static_cast<uint8_t>(kCalls.size());  // instructions up to "no"
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (size_t i = 0; i < kCalls.size(); ++i) {
    const auto allow = static_cast<uint8_t>(kRefuse - i);
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCalls[i], allow, 0));
  }
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{.len = static_cast<uint16_t>(next), .filter = program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

// Bytes of addresses that this process has: a copy of its parent's, however large.
uint64_t address_space() {
  std::array<char, 64> text{};
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t count = ::read(file, text.data(), text.size() - 1);
  close(file);
  if (count <= 0) return 0;
  uint64_t pages = 0;
  for (const char letter : text) {
    if (letter < '0' || letter > '9') break;
    pages = pages * 10 + static_cast<uint64_t>(letter - '0');
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Leaves the child with its memory, a socket and the processor.
bool confine(int socket, pid_t parent, const ConfinedLimits& limits) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) leave();
  // What the parent does with signals is not an affair of the child's: a crash is to end it.
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const uint64_t addresses = address_space();
  const int nothing = open("/dev/null", O_RDWR);
  if (addresses == 0 || nothing < 0) return false;
  const int moved = fcntl(socket, F_DUPFD, kSocket + 1);
  for (int stream = 0; stream < kSocket; ++stream) dup2(nothing, stream);
  if (moved < 0 || dup2(moved, kSocket) < 0 || close_range(kSocket + 1, ~0U, 0) != 0) return false;
  const auto limit = [](auto resource, uint64_t most) {
    const rlimit both{most, most};
    return setrlimit(resource, &both) == 0;
  };
  return limit(RLIMIT_CORE, 0) && limit(RLIMIT_AS, addresses + limits.memory_bytes) &&
         limit(RLIMIT_CPU, static_cast<uint64_t>(limits.processor_seconds)) &&
         forbid_system_calls();
}

void say(const Message& message, std::string_view bytes = {}) {
  if (!write_all(Side::kChild, kSocket, &message, sizeof message) ||
      !write_all(Side::kChild, kSocket, bytes.data(), bytes.size()))
    leave();
}

void say_error(const Error& error) {
  const std::string message = error.message().substr(0, kLongestError / 2);
  const std::string text = message + error.hint().substr(0, kLongestError / 2);
  say({.says = Says::kError,
       .first = message.size() << 8 | static_cast<uint64_t>(error.kind()),
       .length = text.size()},
      text);
}

// The child from its first line to its end. It has one thread, so that locks of others stay as they
// were; those of the C library's allocator are free after fork().
[[noreturn]] void be_child(int socket, pid_t parent, uint64_t bytes, const ConfinedLimits& limits,
                           const std::function<void(ConfinedFile&)>& work) {
  if (!confine(socket, parent, limits)) _exit(kNotConfined);
  ConfinedFile file(kSocket, bytes);
  try {
    work(file);
    say({.says = Says::kDone});
  } catch (const Error& error) {
    say_error(error);
  } catch (const std::bad_alloc&) {
    say_error(corrupt("it takes too much memory to read"));
  }
  _exit(0);
}

// A child that is waited for however the parent goes on.
class Child {
 public:
  Child(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill(pid_, SIGKILL);
    (void)end();
  }
  int socket() const { return socket_; }
  // Waits for its end; gives what waitpid() says, and nothing when others took it.
  std::optional<int> end() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
    if (ended_) return status_;
    ended_ = true;
    int word = 0;
    pid_t got = 0;
    while ((got = waitpid(pid_, &word, 0)) < 0 && errno == EINTR) {
    }
    if (got == pid_) status_ = word;
    return status_;
  }

 private:
  const pid_t pid_;
  int socket_;
  bool ended_ = false;
  std::optional<int> status_;
};

constexpr auto kDamaged = "the file is damaged or was made to do harm: take a copy from its source";

[[noreturn]] void throw_end(const std::string& name, const std::optional<int>& status) {
  if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == kNotConfined) {
    throw invalid_argument(
        fmt::format("not supported: '{}' cannot be read here, since this system cannot confine the "
                    "process that reads it (seccomp filters, setrlimit)",
                    name),
        "read it on another machine, and write its arrays into a .safetensors file");
  }
  const int number = status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
  if (number == SIGXCPU || number == SIGKILL)
    throw corrupt(fmt::format("'{}': libhdf5 does not come to an end with it", name), kDamaged);
  throw corrupt(number == 0 ? fmt::format("'{}': libhdf5 ended while it was read", name)
                            : fmt::format("'{}': libhdf5 crashed while it was read ({})", name,
                                          strsignal(number)),
                kDamaged);
}

// Answers the child until it is done.
class Service {
 public:
  Service(FileReader& file, uint64_t bytes, const ConfinedLimits& limits, Child& child)
      : file_(file), bytes_(bytes), limits_(limits), child_(child), buffer_(kSlice, '\0') {}

  std::string run() {
    for (;;) {
      Message message;
      take(&message, sizeof message);
      switch (message.says) {
        case Says::kRead:
          give(message.first, message.length);
          break;
        case Says::kAnswer:
          if (message.length > limits_.answer_bytes - answer_.size()) {
            throw corrupt(
                fmt::format("'{}' holds more than a file of {} bytes can", file_.name(), bytes_),
                kDamaged);
          }
          answer_ += text(message.length);
          break;
        case Says::kError:
          rethrow(message);
        case Says::kDone:
          return std::move(answer_);
        default:
          throw_end(file_.name(), std::nullopt);
      }
    }
  }

 private:
  void take(void* to, size_t bytes) {
    // The limit of processor time ends a child that computes. This one ends a child that waits.
    pollfd socket{.fd = child_.socket(), .events = POLLIN, .revents = 0};
    int ready = 0;
    while ((ready = poll(&socket, 1, kMostSilence)) < 0 && errno == EINTR) {
    }
    if (ready == 0) {
      throw Error(ErrorKind::kTimeout,
                  fmt::format("'{}': the process that reads it has not answered for {} s",
                              file_.name(), kMostSilence / 1000),
                  "try again; where it stays so, write the arrays into a .safetensors file");
    }
    if (!read_all(child_.socket(), to, bytes)) throw_end(file_.name(), child_.end());
  }
  std::string text(uint64_t bytes) {
    std::string taken(bytes, '\0');
    take(taken.data(), taken.size());
    return taken;
  }

  void give(uint64_t offset, uint64_t length) {
    read_ += std::max(length, kLeastRead);
    if (read_ > kMostReads * (bytes_ + kSlice)) {
      throw corrupt(fmt::format("'{}': libhdf5 reads it again and again", file_.name()), kDamaged);
    }
    const bool there = length <= kSlice && offset <= bytes_ && length <= bytes_ - offset;
    const uint8_t word = there ? 1 : 0;
    const MutableBytes bytes = std::as_writable_bytes(std::span(buffer_)).first(there ? length : 0);
    if (there) {
      if (const Status read = file_.read_exactly_at(offset, bytes); !read.ok()) throw read.error();
    }
    if (!write_all(Side::kParent, child_.socket(), &word, 1) ||
        !write_all(Side::kParent, child_.socket(), bytes.data(), bytes.size()))
      throw_end(file_.name(), child_.end());
  }

  [[noreturn]] void rethrow(const Message& message) {
    const std::string all = text(std::min(message.length, kLongestError));
    const uint64_t length = std::min<uint64_t>(message.first >> 8, all.size());
    const auto kind = (message.first & 255) == static_cast<uint64_t>(ErrorKind::kInvalidArgument)
                          ? ErrorKind::kInvalidArgument
                          : ErrorKind::kCorrupt;
    throw Error(kind, fmt::format("'{}': {}", file_.name(), all.substr(0, length)),
                all.substr(length));
  }

  FileReader& file_;
  const uint64_t bytes_;
  const ConfinedLimits& limits_;
  Child& child_;
  std::string buffer_;
  std::string answer_;
  uint64_t read_ = 0;
};

}  // namespace

bool ConfinedFile::read(uint64_t offset, MutableBytes out) {
  if (offset > bytes_ || out.size() > bytes_ - offset) return false;
  while (!out.empty()) {
    const MutableBytes slice = out.first(std::min(out.size(), kSlice));
    say({.says = Says::kRead, .first = offset, .length = slice.size()});
    uint8_t there = 0;
    if (!read_all(socket_, &there, 1)) leave();
    if (there == 0) return false;
    if (!read_all(socket_, slice.data(), slice.size())) leave();
    offset += slice.size();
    out = out.subspan(slice.size());
  }
  return true;
}

void ConfinedFile::answer(Bytes bytes) {
  while (!bytes.empty()) {
    const Bytes slice = bytes.first(std::min(bytes.size(), kSlice));
    say({.says = Says::kAnswer, .length = slice.size()}, text_of(slice));
    bytes = bytes.subspan(slice.size());
  }
}

std::string run_confined(FileReader& file, const ConfinedLimits& limits,
                         const std::function<void(ConfinedFile&)>& work) {
  const uint64_t bytes = file.size().value();
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw from_errno(errno, "cannot open a pair of sockets",
                     "raise the limit of open files: ulimit -n");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) be_child(ends[1], parent, bytes, limits, work);
  const int number = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    throw from_errno(number, fmt::format("cannot start the process that reads '{}'", file.name()),
                     "raise the limit of processes: ulimit -u");
  }
  Child child(pid, ends[0]);
  return Service(file, bytes, limits, child).run();
}

}  // namespace muster::inline v0_1::hdf::internal
