// The cost of TCP itself: two processes, each on a core of its own, that only exchange the bytes
// that two workers exchange to sum the gradients of the MNIST network: half of them each way to be
// added, then half of them each way as sums. No transport over TCP can be faster.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <vector>

namespace muster::bench {
namespace {

constexpr size_t kGradientBytes = 4 * 347'146;  // all weights and biases, float32
constexpr int kSteps = 200;
constexpr int kRounds = 15;

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(fmt::format("{}: {}", what, strerror(errno)));
}

// Sends and receives at once, `bytes` each way, on a socket that does not block.
void exchange(int socket, const char* out, char* in, size_t bytes) {
  size_t sent = 0, received = 0;
  while (sent < bytes || received < bytes) {
    bool moved = false;
    if (sent < bytes) {
      const ssize_t n = send(socket, out + sent, bytes - sent, MSG_NOSIGNAL);
      require(n >= 0 || errno == EAGAIN, "send");
      moved = n > 0;
      sent += static_cast<size_t>(std::max<ssize_t>(n, 0));
    }
    if (received < bytes) {
      const ssize_t n = recv(socket, in + received, bytes - received, 0);
      require(n > 0 || (n < 0 && errno == EAGAIN), "receive");
      moved = moved || n > 0;
      received += static_cast<size_t>(std::max<ssize_t>(n, 0));
    }
    if (moved) continue;
    pollfd ready{.fd = socket,
                 .events = static_cast<short>((sent < bytes ? POLLOUT : 0) |
                                              (received < bytes ? POLLIN : 0)),
                 .revents = 0};
    require(poll(&ready, 1, 10'000) > 0, "the other process does not answer");
  }
}

void stay_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  require(sched_setaffinity(0, sizeof set, &set) == 0, "cannot stay on a core");
}

// Median microseconds a step takes, by the clock and of this process's time.
std::pair<double, double> measure(int socket) {
  std::vector<char> out(kGradientBytes), in(kGradientBytes);
  const size_t half = kGradientBytes / 2;
  std::vector<double> wall, cpu;
  for (int round = -1; round < kRounds; ++round) {
    const double wall_start = seconds(CLOCK_MONOTONIC);
    const double cpu_start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int step = 0; step < kSteps; ++step) {
      exchange(socket, out.data(), in.data(), half);
      exchange(socket, out.data() + half, in.data() + half, half);
    }
    if (round < 0) continue;  // buffers of the kernel grow
    wall.push_back(1e6 * (seconds(CLOCK_MONOTONIC) - wall_start) / kSteps);
    cpu.push_back(1e6 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start) / kSteps);
  }
  const auto median = [](std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
    return values[kRounds / 2];
  };
  return {median(std::move(wall)), median(std::move(cpu))};
}

int run() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  require(bind(listener, generic, size) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, generic, &size) == 0,
          "cannot listen on loopback");
  const pid_t child = fork();
  require(child >= 0, "fork");
  const int link =
      child == 0 ? socket(AF_INET, SOCK_STREAM, 0) : accept(listener, nullptr, nullptr);
  if (child == 0) require(connect(link, generic, size) == 0, "connect");
  const int on = 1;
  require(link >= 0 && setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
              fcntl(link, F_SETFL, O_NONBLOCK) == 0,
          "cannot set up the connection");
  stay_on(child == 0 ? 1 : 0);
  const auto [wall, cpu] = measure(link);
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  fmt::print("{} bytes each way, two processes   {:.0f} us   {:.0f} us of processor time each\n",
             kGradientBytes, wall, cpu);
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace muster::bench

int main() {
  try {
    return muster::bench::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
