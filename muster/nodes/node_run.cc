#include "muster/nodes/node_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <random>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/base/log.h"
#include "muster/base/network_interfaces.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/cluster/job_credentials.h"
#include "muster/net/port.h"
#include "muster/nodes/rendezvous_client.h"
#include "muster/nodes/rendezvous_server.h"

namespace muster::inline v0_1::nodes {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kLeaveSeconds = 2;
constexpr double kGoodbyeSeconds = 10;  // for the launchers of the other machines to hear the end
constexpr double kStopSeconds = 5;      // for the rendezvous to hear that this launcher stops
constexpr auto kReportEvery = std::chrono::seconds(10);

// Between rounds this process waits for its launchers' messages; a signal must not end it then
// before the others know. While an object is there, the signals are held back and read here; the
// threads that are started meanwhile never get them.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&set_, number);
    struct sigaction hangup {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&set_, SIGHUP);  // nohup wants it ignored
    pthread_sigmask(SIG_BLOCK, &set_, &former_);
  }
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits for a signal at most this long. Returns 0 for none.
  int wait(std::chrono::milliseconds time) const {
    const timespec left{.tv_sec = 0, .tv_nsec = time.count() * 1'000'000};
    const int number = sigtimedwait(&set_, nullptr, &left);
    if (number <= 0 || number == SIGCHLD) return 0;
    return number == SIGHUP ? SIGTERM : number;
  }

  // Gives the signals back while it is there: supervise() reads them itself, and the tasks get the
  // mask that this process began with.
  class Given {
   public:
    explicit Given(const StopSignals& signals) : signals_(signals) {
      pthread_sigmask(SIG_SETMASK, &signals.former_, nullptr);
    }
    ~Given() { pthread_sigmask(SIG_BLOCK, &signals_.set_, nullptr); }
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;

   private:
    const StopSignals& signals_;
  };

 private:
  sigset_t set_;
  sigset_t former_;
};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

uint64_t random_number() { return std::stoull(random_secret().substr(0, 15), nullptr, 16) + 1; }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What must be the same on all machines.
std::vector<std::string> flags_of(const launch::RunOptions& options) {
  std::vector<std::string> flags{fmt::format("--workers={}", options.workers),
                                 options.chief ? "--chief" : "no --chief",
                                 options.evaluator ? "--evaluator" : "no --evaluator",
                                 fmt::format("--restart={}", options.restart),
                                 "the program " + base_name(options.command.front())};
  for (std::size_t i = 1; i < options.command.size(); ++i)
    flags.push_back(fmt::format("its argument {} '{}'", i, options.command[i]));
  return flags;
}

class NodeRun {
 public:
  NodeRun(const launch::RunOptions& options, const NodeOptions& node)
      : options_(options), node_(node), where_(net::split_address(node.rendezvous)) {
    options_.place = launch::RunPlace{.node = node.node};
    const cluster::Job job = cluster::read_job(Environment::process());
    const NodeReport report{.node = node.node,
                            .nodes = node.nodes,
                            .host = host_name(),
                            .job_id = job.id,
                            .flags = flags_of(options_),
                            // Ready when the tasks have addresses.
                            .state = NodeReport::State::kEnded};
    const uint64_t process = random_number();
    if (node.node == 0) {
      RendezvousOptions of_run{.first = report,
                               .job_id = job.id,
                               .id = process,
                               .join_timeout = node.join_time,
                               .restarts = {.restarts = options.restart, .seed = process}};
      if (of_run.job_id.empty()) {
        of_run.job_id =
            fmt::format("{}-{}", base_name(options.command.front()), random_secret().substr(0, 6));
      }
      server_.emplace(node.rendezvous, job, std::move(of_run));
    }
    client_.emplace(ClientOptions{.address = node.rendezvous, .job = job, .process = process},
                    report);
  }

  int run() {
    if (!wait_to_be_heard()) return *code_;
    for (;;) {
      const std::optional<RunView> view = join_round();
      if (!view) return leave();
      run_round(*view);
      if (!wait_for_all(*view)) return leave();
    }
  }

 private:
  // Each returns whether the run goes on; else `code_` is its exit code.
  bool wait_to_be_heard() {
    return wait("the rendezvous", [&](const RunView& view) { return view.rendezvous != 0; });
  }

  std::optional<RunView> join_round() {
    const std::vector<int> ports = free_ports(launch::cluster_size(options_));
    const std::string host = own_host();
    client_->update([&](NodeReport& report) {
      report.state = NodeReport::State::kReady;
      report.addresses.clear();
      for (const int port : ports) report.addresses.push_back(net::join_address(host, port));
      report.failing.clear();
      report.outcome = {};
      report.heard_rendezvous = heard_.rendezvous;
      report.heard_round = heard_.last_round;
    });
    std::optional<RunView> found;
    const bool goes_on = wait("the other machines", [&](const RunView& view) {
      const bool begins =
          view.state == RunView::State::kRunning || view.state == RunView::State::kEnding;
      if (begins) {
        found = view;
      } else if (hears(view)) {
        client_->update([&](NodeReport& report) {
          report.heard_rendezvous = heard_.rendezvous;
          report.heard_round = heard_.last_round;
        });
      }
      return begins;
    });
    return goes_on ? found : std::nullopt;
  }

  // The address of this machine for the others.
  std::string own_host() const {
    if (node_.node == 0) return where_.host;
    std::string why;
    const std::string own = own_address_towards(where_.host, &why);
    if (own.empty()) {
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("this machine has no address from which it reaches {}: {}",
                              where_.host, why));
    }
    return own;
  }

  void run_round(const RunView& view) {
    client_->update([&](NodeReport& report) {
      report.state = NodeReport::State::kRunning;
      report.round = view.round;
    });
    launch::RunOptions options = options_;
    options.place = launch::RunPlace{.node = node_.node,
                                     .addresses = view.addresses,
                                     .job_id = view.job_id,
                                     .run_id = view.run_id};
    NodeOutcome outcome;
    try {
      const launch::RunPlan plan =
          launch::plan_run(options, launch::this_machine(), {}, Environment::process());
      const StopSignals::Given given(signals_);
      outcome = outcome_of(launch::run_once(options, plan, supervision(plan.processes, view)));
    } catch (const Error& error) {
      outcome = {.exit_code = exit_code(error.kind()),
                 .rank = 1,
                 .reasons = {"its tasks could not be started: " + error.message()}};
    }
    client_->update([&](NodeReport& report) {
      report.state = NodeReport::State::kEnded;
      report.outcome = outcome;
    });
  }

  NodeOutcome outcome_of(const launch::Outcome& outcome) {
    if (outcome.stop_signal != 0) stop(outcome.stop_signal);
    return {.exit_code = outcome.exit_code,
            .rank = outcome.rank,
            .address_in_use = outcome.address_in_use,
            .reasons = outcome.reasons};
  }

  launch::SuperviseOptions supervision(const std::vector<launch::ProcessSpec>& tasks,
                                       const RunView& begun) {
    launch::SuperviseOptions supervision = options_.supervise;
    supervision.stop_on_address_in_use = begun.new_ports;
    supervision.others = [this, begun] { return others(begun); };
    supervision.on_exit = [this, &tasks](std::size_t task, const launch::ExitStatus& status) {
      if (status.ok() || tasks[task].beside) return;
      client_->update([&](NodeReport& report) {
        if (report.failing.empty())
          report.failing = fmt::format("{}: {}", tasks[task].name, launch::explain(status));
      });
    };
    return supervision;
  }

  launch::OtherGroups others(const RunView& begun) const {
    if (const auto loss = client_->loss())
      return {.failed =
                  fmt::format("lost the rendezvous at {}: {}", node_.rendezvous, loss->reason)};
    try {
      const RunView view = client_->view();
      const bool same = view.rendezvous == begun.rendezvous && view.round == begun.round;
      if (!same) return {.failed = "the other machines have ended this start of the run"};
      launch::OtherGroups others{.stop_signal = view.stop_signal};
      if (view.done != fmt::format("node {}", node_.node)) others.done = view.done;
      if (view.state == RunView::State::kEnding) others.failed = view.failure;
      return others;
    } catch (const Error& error) {
      return {.failed = error.message()};
    }
  }

  // Notes the round that began last, as the view says. Returns whether it is news.
  bool hears(const RunView& view) {
    if (view.state != RunView::State::kGathering) return false;
    const Heard now{view.rendezvous, view.last_round};
    return std::exchange(heard_, now) != now;
  }

  // Until this start of the tasks has ended on all machines.
  bool wait_for_all(const RunView& begun) {
    return wait("the tasks of the other machines to end", [&](const RunView& view) {
      (void)hears(view);
      return view.state == RunView::State::kGathering || view.rendezvous != begun.rendezvous;
    });
  }

  void stop(int signal) {
    client_->update([&](NodeReport& report) {
      if (report.stop_signal == 0) report.stop_signal = signal;
    });
  }

  // Waits until `done` says so of what was heard last. False when the run is over before.
  template <typename Done>
  bool wait(const char* what, const Done& done) {
    const auto since = Steady::now();
    auto next_report = since + std::chrono::seconds(1);
    std::optional<Steady::time_point> stop_until;
    for (;;) {
      const RunView view = client_->view();
      print_lines(view);
      if (view.state == RunView::State::kOver) return over(view.exit_code);
      if (done(view)) return true;
      if (lost(view, since)) return false;
      if (const int signal = signals_.wait(std::chrono::milliseconds(20)); signal != 0) {
        if (stop_until) return over(128 + signal);  // the second one
        stop(signal);
        stop_until = Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                         std::chrono::duration<double>(kStopSeconds));
      }
      if (stop_until && Steady::now() > *stop_until) return over(kExitTerminated);
      if (Steady::now() < next_report) continue;
      next_report = Steady::now() + kReportEvery;
      log::info(fmt::format("waiting for {}{}", view.missing.empty() ? what : "",
                            fmt::join(view.missing, ", ")) +
                reason_of_wait(view));
    }
  }

  std::string reason_of_wait(const RunView& view) const {
    if (view.rendezvous != 0 && !client_->loss()) return "";
    return fmt::format(" at {}, which the launcher of node 0 serves: {}", node_.rendezvous,
                       client_->last_error());
  }

  bool lost(const RunView& view, Steady::time_point since) {
    const auto loss = client_->loss();
    const double waited = std::chrono::duration<double>(Steady::now() - since).count();
    const bool never = view.rendezvous == 0 && waited > node_.join_time;
    const bool given_up = loss && (loss->ended || loss->seconds > node_.join_time);
    if (!never && !given_up) return false;
    log::error(fmt::format(
        "the rendezvous at {} {}: the launcher of node 0 serves it, and without it the run ends on "
        "all machines. Start the same command on all machines again; it continues from the last "
        "checkpoint",
        node_.rendezvous,
        never ? fmt::format("was not reached within {:g} s ({})", node_.join_time,
                            client_->last_error())
              : fmt::format("is lost ({})", loss->reason)));
    over(kExitRestart);
    return true;
  }

  bool over(int code) {
    code_ = code;
    return false;
  }

  void print_lines(const RunView& view) {
    if (view.rendezvous == 0) return;
    if (view.rendezvous != printed_of_) printed_ = view.first_line;
    printed_of_ = view.rendezvous;
    for (; printed_ < view.first_line + static_cast<int64_t>(view.lines.size()); ++printed_) {
      if (printed_ >= view.first_line) log::warning(view.lines[printed_ - view.first_line]);
    }
  }

  int leave() {
    client_->leave(kLeaveSeconds);
    if (server_) (void)server_->wait_for_all(kGoodbyeSeconds);
    return *code_;
  }

  launch::RunOptions options_;
  const NodeOptions node_;
  const net::HostPort where_;
  const StopSignals signals_;  // before all threads
  std::optional<RendezvousServer> server_;
  std::optional<RendezvousClient> client_;
  std::optional<int> code_;
  // The round that began last in a rendezvous, as this launcher has heard.
  struct Heard {
    uint64_t rendezvous = 0;
    int64_t last_round = 0;
    bool operator==(const Heard&) const = default;
  };
  Heard heard_;
  int64_t printed_ = 0;
  uint64_t printed_of_ = 0;  // the rendezvous whose lines these are
};

}  // namespace

NodeOptions parse_nodes(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto number = [](std::string_view part) { return parse_int(std::string(part)); };
  const auto node = number(text.substr(0, slash));
  const auto nodes =
      slash == std::string_view::npos ? std::nullopt : number(text.substr(slash + 1));
  if (!node || !nodes || *nodes < 1 || *node < 0) {
    throw invalid_argument(fmt::format("--nodes is '{}'", text),
                           "write the number of this machine, from 0, and the number of all "
                           "machines: --nodes=0/3");
  }
  if (*node >= *nodes) {
    throw invalid_argument(
        fmt::format("--nodes={}: there is no machine {} of {}", text, *node, *nodes),
        fmt::format("machines are counted from 0, so the last one is {}/{}", *nodes - 1, *nodes));
  }
  return {.node = static_cast<int>(*node), .nodes = static_cast<int>(*nodes)};
}

namespace {

void check_rendezvous(const std::string& address) {
  const auto refuse = [&](const char* why, const char* fix) {
    return invalid_argument(fmt::format("--rendezvous is '{}'{}", address, why), fix);
  };
  constexpr const char* kForm =
      "write HOST:PORT, with the name or number of machine 0, such as node1:29500";
  net::HostPort where;
  try {
    where = net::split_address(address);
  } catch (const Error&) {
    throw refuse(", which is not a network address", kForm);
  }
  if (where.port == 0) throw refuse("", "choose a port that is free on machine 0, from 1 to 65535");
  if (where.host.find('/') != std::string::npos) throw refuse(", with a slash in its host", kForm);
  // Each machine would look for the rendezvous at itself.
  if (where.host == "0.0.0.0" || where.host == "::")
    throw refuse(", which stands for all addresses of a machine", kForm);
}

}  // namespace

void check_node_options(const launch::RunOptions& options, const NodeOptions& node) {
  launch::check_run_options(options);
  if (node.rendezvous.empty()) {
    throw invalid_argument("--nodes needs --rendezvous",
                           "add --rendezvous=HOST:PORT, with the name of machine 0 and a free port "
                           "of it, the same on all machines");
  }
  check_rendezvous(node.rendezvous);
  if (options.ps > 0) {
    throw invalid_argument("--ps with --nodes is not supported",
                           "start parameter servers on several machines with muster submit, or on "
                           "one machine without --nodes");
  }
  if (options.workers == 0) {
    throw invalid_argument("--workers is 0 with --nodes",
                           "--workers is the number of workers of each machine: at least 1");
  }
  if (options.tls) {
    throw invalid_argument(
        "--tls with --nodes is not supported: its certificates are made on one "
        "machine",
        "make certificates with muster certificates, and set MUSTER_TLS_CERT, "
        "MUSTER_TLS_KEY and MUSTER_TLS_CA on all machines");
  }
}

int run_node(const launch::RunOptions& options, const NodeOptions& node) {
  check_node_options(options, node);
  return NodeRun(options, node).run();
}

}  // namespace muster::inline v0_1::nodes
