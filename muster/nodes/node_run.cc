#include "muster/nodes/node_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <random>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/network_interfaces.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/cluster/job_credentials.h"
#include "muster/net/port.h"
#include "muster/nodes/launcher.h"
#include "muster/nodes/rendezvous_client.h"
#include "muster/nodes/rendezvous_server.h"

namespace muster::inline v0_1::nodes {
namespace {

constexpr double kFirstLine = 1, kLineEvery = 10;  // seconds: lines that say for what it waits

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

// Machine 0 serves the rendezvous. Addresses of other machines may lead to it, such as that of a
// Kubernetes Service.
void warn_of_a_foreign(const std::string& rendezvous) {
  const std::string host = net::split_address(rendezvous).host;
  std::string why;
  const std::vector<std::string> found = addresses_of(host, &why);
  const auto is_here = [](const std::string& address) {
    return net::is_loopback(address) || is_own_address(address);
  };
  if (std::ranges::any_of(found, is_here)) return;
  log::warning(fmt::format(
      "--rendezvous is '{}', and {}. This machine is node 0 and serves the rendezvous: the other "
      "machines must reach it at that address",
      rendezvous,
      found.empty() ? fmt::format("'{}' has no address here ({})", host, why)
                    : fmt::format("{} is not an address of this machine", found.front())));
}

class NodeRun {
 public:
  NodeRun(const launch::RunOptions& options, const NodeOptions& node)
      : options_(options),
        where_(net::split_address(node.rendezvous)),
        job_(cluster::read_job(Environment::process())),
        launcher_({.node = node.node,
                   .nodes = node.nodes,
                   .least = node.least,
                   .host = host_name(),
                   .job_id = job_.id,
                   .flags = flags_of(options)},
                  node.rendezvous, node.join_time) {
    options_.place = launch::RunPlace{.node = node.node};
    if (node.least > 0)
      options_.min_workers = node.least * options.workers + (options.chief ? 1 : 0);
    const uint64_t process = random_number();
    if (node.node == 0) {
      RendezvousOptions of_run{.first = launcher_.report(),
                               .job_id = job_.id,
                               .id = process,
                               .join_timeout = node.join_time,
                               .restarts = {.restarts = options.restart, .seed = process},
                               .tasks = options.workers,
                               .min_tasks = options_.min_workers,
                               .chief = options.chief};
      if (of_run.job_id.empty()) {
        of_run.job_id =
            fmt::format("{}-{}", base_name(options.command.front()), random_secret().substr(0, 6));
      }
      warn_of_a_foreign(node.rendezvous);
      server_.emplace(node.rendezvous, job_, std::move(of_run));
    }
    client_.emplace(ClientOptions{.address = node.rendezvous, .job = job_, .process = process},
                    launcher_.report());
  }

  int run() {
    for (;;) {
      const RunView view = client_->view();
      print_lines(view);
      const Launcher::Next next = launcher_.next(view, client_->loss(), now());
      say();
      if (next == Launcher::Next::kLeave) return leave(view);
      if (next == Launcher::Next::kWait) {
        wait(view);
        continue;
      }
      next == Launcher::Next::kJoin ? launcher_.join(addresses()) : run_tasks(view);
      next_line_ = now() + kFirstLine;
    }
  }

 private:
  static double now() { return to_seconds(system_clock().now().time_since_epoch()); }

  // The client sends what the launcher says.
  void say() {
    client_->update([&](NodeReport& report) { report = launcher_.report(); });
  }

  void wait(const RunView& view) {
    if (const int signal = signals_.wait(std::chrono::milliseconds(20)); signal != 0)
      launcher_.stop(signal, now());
    if (now() < next_line_) return;
    next_line_ = now() + kLineEvery;
    log::info("waiting for " + launcher_.awaited(view, client_->loss()));
  }

  // Where the tasks of the next round will listen.
  std::vector<std::string> addresses() const {
    std::vector<std::string> addresses;
    for (const int port : free_ports(launch::cluster_size(options_)))
      addresses.push_back(net::join_address(own_host(), port));
    return addresses;
  }

  // The address of this machine for the others.
  std::string own_host() const {
    if (launcher_.report().node == 0) return where_.host;
    std::string why;
    const std::string own = own_address_towards(where_.host, &why);
    if (own.empty()) {
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("this machine has no address from which it reaches {}: {}",
                              where_.host, why));
    }
    return own;
  }

  void run_tasks(const RunView& view) {
    launch::RunOptions options = options_;
    options.place->addresses = view.addresses;
    options.place->job_id = view.job_id;
    options.place->run_id = view.run_id;
    options.place->joins = view.joins;
    try {
      const launch::RunPlan plan =
          launch::plan_run(options, launch::this_machine(), {}, Environment::process());
      const StopSignals::Given given(signals_);
      const launch::Outcome outcome = launch::run_once(options, plan, supervision(view.new_ports));
      launcher_.ended({.exit_code = outcome.exit_code,
                       .rank = outcome.rank,
                       .address_in_use = outcome.address_in_use,
                       .reasons = outcome.reasons},
                      outcome.stop_signal);
    } catch (const Error& error) {
      launcher_.ended({.exit_code = exit_code(error.kind()),
                       .rank = view.joins ? launch::kSparedRank : 1,
                       .reasons = {"its tasks could not be started: " + error.message()}},
                      /*stop_signal=*/0);
    }
  }

  launch::SuperviseOptions supervision(bool new_ports) {
    launch::SuperviseOptions supervision = options_.supervise;
    supervision.stop_on_address_in_use = new_ports;
    supervision.asks_others = options_.min_workers > 0;
    supervision.others = [this](const launch::GroupState& own) -> launch::OtherGroups {
      launcher_.tasks_are(own);
      say();
      try {
        const RunView view = client_->view();
        print_lines(view);
        return launcher_.others(view, client_->loss());
      } catch (const Error& error) {
        return {.failed = error.message()};
      }
    };
    return supervision;
  }

  void print_lines(const RunView& view) {
    if (view.rendezvous == 0) return;
    if (view.rendezvous != printed_of_) printed_ = view.first_line;
    printed_of_ = view.rendezvous;
    for (; printed_ < view.first_line + static_cast<int64_t>(view.lines.size()); ++printed_) {
      if (printed_ >= view.first_line) log::warning(view.lines[printed_ - view.first_line]);
    }
  }

  int leave(const RunView& view) {
    if (!launcher_.failure().empty()) log::error(launcher_.failure());
    if (view.rendezvous != 0) {
      client_->leave(Launcher::kLeaveTime);
      if (server_) (void)server_->wait_for_all(Launcher::kGoodbyeTime);
    }
    return launcher_.exit_code();
  }

  launch::RunOptions options_;
  const net::HostPort where_;
  const cluster::Job job_;
  Launcher launcher_;
  const StopSignals signals_;  // before all threads
  std::optional<RendezvousServer> server_;
  std::optional<RendezvousClient> client_;
  double next_line_ = now() + kFirstLine;
  int64_t printed_ = 0;
  uint64_t printed_of_ = 0;  // the rendezvous whose lines these are
};

}  // namespace

NodeOptions parse_nodes(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto number = [](const std::string& part) { return parse_int(part); };
  const auto node = number(std::string(text.substr(0, slash)));
  const std::vector<std::string> bounds =
      split(slash == std::string_view::npos ? "" : std::string(text.substr(slash + 1)), ':');
  const auto least = number(bounds.front()), nodes = number(bounds.back());
  if (!node || !least || !nodes || *nodes < 1 || *node < 0 || bounds.size() > 2) {
    throw invalid_argument(fmt::format("--nodes is '{}'", text),
                           "write the number of this machine, from 0, and the number of all "
                           "machines: --nodes=0/3; or 0/2:3 for a run that continues with 2 of 3");
  }
  if (*node >= *nodes) {
    throw invalid_argument(
        fmt::format("--nodes={}: there is no machine {} of {}", text, *node, *nodes),
        fmt::format("machines are counted from 0, so the last one is {}/{}", *nodes - 1, *nodes));
  }
  if (*least < 1 || *least > *nodes) {
    throw invalid_argument(
        fmt::format("--nodes={}: the minimum of {} machines is {}", text, *nodes, *least),
        fmt::format("write I/MIN:MAX with a MIN from 1 to MAX, such as {}/1:{}", *node, *nodes));
  }
  return {.node = static_cast<int>(*node),
          .nodes = static_cast<int>(*nodes),
          .least = bounds.size() == 2 ? static_cast<int>(*least) : 0};
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
  if (options.min_workers > 0) {
    throw invalid_argument(
        "not supported: --workers=MIN:MAX with --nodes: the minimum is a number of machines",
        fmt::format("write --nodes={}/MIN:{} --workers={}; the run continues while as many workers "
                    "are left as MIN machines have",
                    node.node, node.nodes, options.workers));
  }
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
