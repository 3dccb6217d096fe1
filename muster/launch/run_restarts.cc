// Starts the tasks of `muster run`, and starts them again.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/loopback.h"
#include "muster/base/terminal.h"
#include "muster/launch/certificates.h"
#include "muster/launch/exit_status.h"
#include "muster/launch/internal/signal_scope.h"
#include "muster/launch/run.h"
#include "muster/plan/restart_budget.h"

namespace muster::inline v0_1::launch {
namespace {

// On a terminal each task keeps one line up to date, unless the user has set MUSTER_PROGRESS.
void ask_for_status_lines(std::vector<ProcessSpec>& tasks, int fd) {
  const auto size = terminal_size(fd);
  if (std::getenv("MUSTER_PROGRESS") != nullptr || !size || !takes_escapes(fd)) return;
  for (ProcessSpec& task : tasks) {
    const int prefix = static_cast<int>(task.name.size()) + 3;  // "[worker 0] "
    task.environment.emplace_back("MUSTER_PROGRESS", "bar");
    task.environment.emplace_back("COLUMNS", std::to_string(std::max(1, size->columns - prefix)));
  }
}

// Certificates of one run, in a folder that only this user can enter and that is removed with it.
class RunCertificates {
 public:
  RunCertificates() {
    const char* const set = std::getenv("TMPDIR");
    folder_ = fmt::format("{}/muster-run-XXXXXX", set != nullptr && *set != 0 ? set : "/tmp");
    if (mkdtemp(folder_.data()) == nullptr)
      throw from_errno(errno, fmt::format("cannot make a folder for certificates, {}", folder_),
                       "set TMPDIR to a folder that you may write to");
    constexpr int kDays = 365;
    try {
      variables_ =
          write_certificates(make_certificates({loopback_host(), "localhost"}, kDays), folder_);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~RunCertificates() { remove(); }
  RunCertificates(const RunCertificates&) = delete;
  RunCertificates& operator=(const RunCertificates&) = delete;

  const std::vector<std::pair<std::string, std::string>>& variables() const { return variables_; }

 private:
  void remove() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string folder_;
  std::vector<std::pair<std::string, std::string>> variables_;
};

// Waits before the next start. Returns the signal that asks to stop meanwhile; 0 if none.
int wait_before_start(double pause) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  internal::SignalScope signals;
  const auto until = steady_clock::now() + std::chrono::duration<double>(pause);
  for (;;) {
    for (const int number : signals.take()) return number == SIGHUP ? SIGTERM : number;
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (left <= milliseconds(0)) return 0;
    pollfd wait{signals.fd(), POLLIN, 0};
    (void)poll(&wait, 1, static_cast<int>(left.count()));
  }
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string starting_again(double pause, int restart, int restarts) {
  const std::string when = pause > 0 ? fmt::format(" in {:.1f} s", pause) : "";
  return fmt::format("starting all tasks again{} ({} of {})", when, restart, restarts);
}

std::string ports_in_use(const std::string& addresses) {
  return fmt::format("another program uses a port of {}: starting all tasks again on new ports",
                     addresses);
}

Outcome run_once(const RunOptions& options, RunPlan plan, SuperviseOptions supervision) {
  if (options.adjust) options.adjust(plan);
  if (!plan.warning.empty() && supervision.stop_on_address_in_use) log::warning(plan.warning);
  supervision.json = options.json;
  if (!options.json) ask_for_status_lines(plan.processes, supervision.err_fd);
  return supervise(plan.processes, supervision);
}

int run(const RunOptions& options, const std::function<std::vector<int>(int)>& ports) {
  check_run_options(options);
  std::optional<RunCertificates> certificates;
  if (options.tls && cluster_size(options) > 1) certificates.emplace();
  SuperviseOptions supervision = options.supervise;
  supervision.stop_on_address_in_use = true;
  supervision.min_tasks = options.min_workers;
  // With parameter servers a task is started again by itself.
  plan::RestartBudget budget(
      {.restarts = options.ps > 0 ? 0 : options.restart, .seed = std::random_device()()});
  for (;;) {
    RunPlan plan =
        plan_run(options, this_machine(), ports(cluster_size(options)), Environment::process());
    for (ProcessSpec& task : plan.processes) {
      if (!certificates) break;
      const auto& variables = certificates->variables();
      task.environment.insert(task.environment.end(), variables.begin(), variables.end());
    }
    const std::string addresses = fmt::format("{}", fmt::join(plan.addresses, ", "));
    const Outcome outcome = run_once(options, std::move(plan), supervision);
    if (!outcome.address_in_use || outcome.stop_signal != 0) {
      if (outcome.stop_signal != 0 || !plan::asks_for_restart(outcome.exit_code))
        return outcome.exit_code;
      const double now = steady_seconds();
      const std::optional<double> pause = budget.take(now);
      if (!pause) return outcome.exit_code;
      log::warning(starting_again(*pause, budget.used(now), options.restart));
      if (const int signal = wait_before_start(*pause); signal != 0) {
        log::warning(fmt::format("{}: the run is not started again", signal_name(signal)));
        return 128 + signal;
      }
      continue;
    }
    log::warning(ports_in_use(addresses));
    supervision.stop_on_address_in_use = false;
  }
}

}  // namespace muster::inline v0_1::launch
