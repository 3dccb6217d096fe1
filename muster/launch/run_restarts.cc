// Starts the tasks of `muster run`, and starts them again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/loopback.h"
#include "muster/base/terminal.h"
#include "muster/launch/certificates.h"
#include "muster/launch/run.h"

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
    folder_ = (std::filesystem::temp_directory_path() / "muster-run-XXXXXX").string();
    if (mkdtemp(folder_.data()) == nullptr)
      throw from_errno(errno, fmt::format("cannot make a folder for certificates, {}", folder_));
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

// Whether it is worth to try again after a group ended so: a task was killed, or a resource was
// busy.
bool asks_for_restart(const Outcome& outcome) { return outcome.exit_code > 128; }

}  // namespace

int run(const RunOptions& options, const std::function<std::vector<int>(int)>& ports) {
  check_run_options(options);
  std::optional<RunCertificates> certificates;
  if (options.tls && cluster_size(options) > 1) certificates.emplace();
  SuperviseOptions supervision = options.supervise;
  supervision.stop_on_address_in_use = true;
  supervision.json = options.json;
  // With parameter servers a task is started again by itself.
  int restarts = options.ps > 0 ? 0 : options.restart;
  for (;;) {
    RunPlan plan =
        plan_run(options, this_machine(), ports(cluster_size(options)), Environment::process());
    if (options.adjust) options.adjust(plan);
    if (!plan.warning.empty() && supervision.stop_on_address_in_use) log::warning(plan.warning);
    if (!options.json) ask_for_status_lines(plan.processes, supervision.err_fd);
    for (ProcessSpec& task : plan.processes) {
      if (!certificates) break;
      const auto& variables = certificates->variables();
      task.environment.insert(task.environment.end(), variables.begin(), variables.end());
    }
    const Outcome outcome = supervise(plan.processes, supervision);
    if (!outcome.address_in_use || outcome.stop_signal != 0) {
      if (restarts == 0 || outcome.stop_signal != 0 || !asks_for_restart(outcome))
        return outcome.exit_code;
      log::warning(fmt::format("starting all tasks again ({} of {})", options.restart - --restarts,
                               options.restart));
      continue;
    }
    log::warning(
        fmt::format("another program uses a port of {}: starting all tasks again on new ports",
                    fmt::join(plan.addresses, ", ")));
    supervision.stop_on_address_in_use = false;
  }
}

}  // namespace muster::inline v0_1::launch
