#include "benchmarks/support/compare.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/free_ports.h"
#include "muster/launch/run.h"

extern char** environ;

namespace muster::bench {
namespace {

// Seconds a contestant may take to answer. torch.compile takes minutes for a network of 50 layers.
constexpr int kPatience = 600;

struct Turn {
  double seconds = 0;
  double cpu = 0;
  double loss = 0;
  std::vector<double> steps;
};

// One process of a contestant.
class Player {
 public:
  Player(const launch::ProcessSpec& spec, std::string name, std::string log)
      : name_(std::move(name)), log_(std::move(log)) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
      throw from_errno(errno, "cannot open a pipe");
    }
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, to[0], 0);
    posix_spawn_file_actions_adddup2(&files, from[1], 1);
    posix_spawn_file_actions_addopen(&files, 2, log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    std::map<std::string, std::string> merged = Environment::process().variables();
    for (const std::string& without : spec.without) merged.erase(without);
    for (const auto& [key, value] : spec.environment) merged[key] = value;
    std::vector<std::string> variables, words = spec.argv;
    for (const auto& [key, value] : merged) variables.push_back(key + "=" + value);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> result;
      for (std::string& text : texts) result.push_back(text.data());
      result.push_back(nullptr);
      return result;
    };
    // A child is born where its parent may run.
    cpu_set_t all, own;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&own);
    for (const int core : spec.cores) CPU_SET(core, &own);
    if (!spec.cores.empty()) sched_setaffinity(0, sizeof own, &own);
    // In a session of its own, as launchers start workers: the scheduler may divide the processor
    // between sessions.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    const int failed = posix_spawn(&pid_, words[0].c_str(), &files, &attributes,
                                   pointers(words).data(), pointers(variables).data());
    posix_spawnattr_destroy(&attributes);
    sched_setaffinity(0, sizeof all, &all);
    posix_spawn_file_actions_destroy(&files);
    close(to[0]);
    close(from[1]);
    out_ = to[1];
    in_ = from[0];
    if (failed != 0) throw from_errno(failed, "cannot start " + words[0]);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player() {
    end_input();
    bool ended = false;
    for (int i = 0; i < 100 && !ended; ++i) {
      ended = waitpid(pid_, nullptr, WNOHANG) != 0;
      if (!ended) usleep(100'000);
    }
    if (!ended) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(in_);
  }

  // The end of its input is the end of its work.
  void end_input() {
    if (out_ >= 0) close(out_);
    out_ = -1;
  }
  void go(int steps, int lead_in) {
    const std::string line = fmt::format("{} {}\n", steps, lead_in);
    if (write(out_, line.data(), line.size()) < 0) throw died();
  }
  std::string line() {
    for (;;) {
      const size_t end = pending_.find('\n');
      if (end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      pollfd ready{.fd = in_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, kPatience * 1000) <= 0) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("{} said nothing for {} s{}", name_, kPatience, last_words()));
      }
      char buffer[4096];
      const ssize_t size = read(in_, buffer, sizeof buffer);
      if (size <= 0) throw died();
      pending_.append(buffer, static_cast<size_t>(size));
    }
  }

  // The most memory it ever had, in MiB.
  double peak_mib() const {
    std::ifstream status(fmt::format("/proc/{}/status", pid_));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    }
    throw internal_error("no VmHWM of " + name_);
  }

 private:
  Error died() const {
    return Error(ErrorKind::kUnavailable, name_ + " ended before its time" + last_words());
  }
  std::string last_words() const {
    std::ifstream file(log_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    if (lines.size() > 10) lines.erase(lines.begin(), lines.end() - 10);
    return lines.empty() ? "" : fmt::format("; its last words:\n{}", fmt::join(lines, "\n"));
  }

  std::string name_;
  std::string log_;
  std::string pending_;
  pid_t pid_ = -1;
  int out_ = -1;
  int in_ = -1;
};

// Lets the process run as worker `rank` on its host.
void move_to(const std::vector<Host>& hosts, int rank, const std::vector<int>& ports,
             launch::ProcessSpec* spec) {
  nlohmann::json addresses = nlohmann::json::array();
  for (size_t i = 0; i < hosts.size(); ++i) {
    addresses.push_back(fmt::format("{}:{}", hosts[i].address, ports[i]));
  }
  const nlohmann::json config = {{"cluster", {{"worker", addresses}}},
                                 {"task", {{"type", "worker"}, {"index", rank}}}};
  const Host& host = hosts[static_cast<size_t>(rank)];
  spec->environment.emplace_back("TF_CONFIG", config.dump());
  spec->environment.emplace_back("MASTER_ADDR", hosts.front().address);
  spec->environment.emplace_back("GLOO_SOCKET_IFNAME", host.interface);  // PyTorch's
  // The program that enters the host is another executable.
  if (spec->argv.front() == "/proc/self/exe") {
    spec->argv.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  }
  spec->argv.insert(spec->argv.begin(), host.enter.begin(), host.enter.end());
}

// All processes of a contestant: one team.
class Team {
 public:
  Team(const Contestant& contestant, const std::string& directory, int index)
      : barrier_(SharedBarrier::create()) {
    const launch::Machine machine = launch::this_machine();
    const int n = contestant.workers;
    const int cores = n == 1 ? contestant.cores : n;
    if (static_cast<int>(machine.cores.size()) < cores) {
      throw invalid_argument(fmt::format("{} needs {} cores, and there are {}", contestant.name,
                                         cores, machine.cores.size()));
    }
    const std::vector<int> ports = free_ports(n + 1);
    launch::RunPlan plan = launch::plan_run(
        {.workers = n, .cores_per_task = 1, .threads = 1, .command = contestant.argv}, machine,
        {ports.begin(), ports.begin() + n}, Environment::process());
    for (int rank = 0; rank < n; ++rank) {
      launch::ProcessSpec& spec = plan.processes[static_cast<size_t>(rank)];
      // Alone, on the last core: the first one serves most interrupts.
      if (n == 1) spec.cores = {machine.cores.end() - cores, machine.cores.end()};
      auto& environment = spec.environment;
      environment.insert(environment.end(), contestant.environment.begin(),
                         contestant.environment.end());
      environment.emplace_back("OMP_NUM_THREADS", std::to_string(n == 1 ? cores : 1));
      environment.emplace_back("RANK", std::to_string(rank));
      environment.emplace_back("WORLD_SIZE", std::to_string(n));
      if (contestant.hosts.empty()) {
        environment.emplace_back("MASTER_ADDR", "127.0.0.1");
      } else {
        move_to(contestant.hosts, rank, ports, &spec);
      }
      environment.emplace_back("MASTER_PORT", std::to_string(ports.back()));
      environment.emplace_back("BENCH_BARRIER", std::to_string(barrier_));
      environment.emplace_back("BENCH_MODEL_DIR", fmt::format("{}/model-{}", directory, index));
      players_.push_back(std::make_unique<Player>(
          spec, contestant.name, fmt::format("{}/{}-{}.log", directory, index, rank)));
    }
    for (auto& player : players_) {
      if (const std::string line = player->line(); line != "ready") {
        throw internal_error(contestant.name + " said \"" + line + "\" instead of \"ready\"");
      }
    }
  }
  ~Team() {
    for (auto& player : players_) player->end_input();
    players_.clear();
    close(barrier_);
  }

  Turn take(int steps, int lead_in) {
    for (auto& player : players_) player->go(steps, lead_in);
    Turn turn;
    for (size_t p = 0; p < players_.size(); ++p) {
      std::istringstream line(players_[p]->line());
      double cpu = 0, total = 0, step = 0, loss = 0;
      line >> cpu >> loss;
      while (line >> step) {
        total += step * 1e-9;
        if (p == 0) turn.steps.push_back(step * 1e-9);
      }
      turn.cpu += cpu * 1e-9;
      turn.seconds = std::max(turn.seconds, total);
      if (p == 0) turn.loss = loss;
    }
    if (static_cast<int>(turn.steps.size()) != steps) {
      throw internal_error(fmt::format("{} steps instead of {}", turn.steps.size(), steps));
    }
    return turn;
  }

  double peak_mib() const {
    double sum = 0;
    for (const auto& player : players_) sum += player->peak_mib();
    return sum;
  }

 private:
  int barrier_;
  std::vector<std::unique_ptr<Player>> players_;
};

void check_same(const std::vector<Result>& results, const std::vector<double>& losses) {
  for (size_t a = 0; a < results.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const Contestant &left = results[a].contestant, &right = results[b].contestant;
      if (left.same.empty() || left.same != right.same) continue;
      if (std::abs(losses[a] - losses[b]) <= 0.01 * std::abs(losses[b])) continue;
      throw internal_error(fmt::format("{} and {} do not compute the same: loss {} and {}",
                                       left.name, right.name, losses[a], losses[b]));
    }
  }
}

std::string readable(const Estimate& e) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", e.median, e.low, e.high);
}

}  // namespace

std::vector<Result> compare(const std::vector<Contestant>& contestants, const Plan& plan) {
  signal(SIGPIPE, SIG_IGN);
  std::vector<Result> results;
  for (const Contestant& contestant : contestants) results.push_back({.contestant = contestant});
  for (int launch = 0; launch < plan.launches; ++launch) {
    const Scratch directory;
    std::vector<std::unique_ptr<Team>> teams;
    std::vector<double> losses;
    for (size_t c = 0; c < contestants.size(); ++c) {
      teams.push_back(std::make_unique<Team>(contestants[c], directory.path, static_cast<int>(c)));
      losses.push_back(teams[c]->take(plan.warm_up, plan.lead_in).loss);
    }
    check_same(results, losses);
    for (int pair = 0; pair < plan.pairs; ++pair) {
      std::vector<Turn> sums(contestants.size());
      for (int turn = 0; turn < plan.turns; ++turn) {
        for (size_t i = 0; i < teams.size(); ++i) {
          // There and back, so that none always comes after the same neighbour.
          const size_t c = turn % 2 == 0 ? i : teams.size() - 1 - i;
          Turn taken = teams[c]->take(plan.steps, plan.lead_in);
          sums[c].seconds += taken.seconds;
          sums[c].cpu += taken.cpu;
          results[c].loss += taken.loss / static_cast<double>(plan.samples() * plan.turns);
          auto& steps = results[c].steps;
          steps.insert(steps.end(), taken.steps.begin(), taken.steps.end());
        }
      }
      const auto steps = static_cast<double>(plan.steps_per_sample());
      for (size_t c = 0; c < teams.size(); ++c) {
        results[c].seconds.push_back(sums[c].seconds / steps);
        results[c].cpu.push_back(sums[c].cpu / steps);
      }
    }
    for (size_t c = 0; c < teams.size(); ++c)
      results[c].peak_mib = std::max(results[c].peak_mib, teams[c]->peak_mib());
  }
  return results;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

Estimate estimate(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  // The largest k for which k values or fewer on one side have at most 2.5 % probability.
  double probability = std::pow(0.5, static_cast<double>(n)), cumulative = 0;
  size_t k = 0;
  while (k < n / 2 && cumulative + probability <= 0.025) {
    cumulative += probability;
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  const size_t low = k == 0 ? 0 : k - 1;
  return {quantile(values, 0.5), values[low], values[n - 1 - low]};
}

Estimate estimate_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return estimate(std::move(ratios));
}

void print_speed_against(const Result& result, const Result& other) {
  const Estimate e = estimate_ratio(other.seconds, result.seconds);
  const Estimate cpu = estimate_ratio(other.cpu, result.cpu);
  fmt::print(
      "{}: {:.1f} % of the speed of \"{}\" (95 % interval {:.1f} to {:.1f} %); by CPU time {:.1f} "
      "% "
      "({:.1f} to {:.1f} %).\n",
      result.contestant.name, 100 * e.median, other.contestant.name, 100 * e.low, 100 * e.high,
      100 * cpu.median, 100 * cpu.low, 100 * cpu.high);
}

void print_memory(const std::string& benchmark, const std::string& title,
                  const std::vector<Result>& results, size_t reference,
                  const std::string& json_path) {
  fmt::print("\n### {}\n\n| | MiB | ratio |\n|---|---:|---:|\n", title);
  std::ofstream json;
  if (!json_path.empty()) json.open(json_path, std::ios::app);
  for (const Result& result : results) {
    const double ratio = result.peak_mib / results[reference].peak_mib;
    fmt::print("| {} | {:.0f} | {:.2f} |\n", result.contestant.name, result.peak_mib, ratio);
    if (!json.is_open()) continue;
    json << nlohmann::ordered_json{{"benchmark", benchmark},
                                   {"contestant", result.contestant.name},
                                   {"peak_mib", result.peak_mib},
                                   {"reference", results[reference].contestant.name},
                                   {"ratio", ratio}}
                .dump()
         << '\n';
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void print_table(const std::string& benchmark, const std::string& title,
                 const std::vector<Result>& results, size_t reference,
                 const std::string& json_path) {
  fmt::print("\n### {}\n\n", title);
  fmt::print("| | examples/s | ms a step | p50 | p95 | CPU ms | speed (95 % interval) |\n");
  fmt::print("|---|---:|---:|---:|---:|---:|---:|\n");
  std::ofstream json;
  if (!json_path.empty()) json.open(json_path, std::ios::app);
  for (const Result& result : results) {
    const double seconds = quantile(result.seconds, 0.5);
    const double rate = static_cast<double>(result.contestant.rows) / seconds;
    const double p50 = quantile(result.steps, 0.5), p95 = quantile(result.steps, 0.95);
    const double cpu = quantile(result.cpu, 0.5);
    const Estimate speed = estimate_ratio(results[reference].seconds, result.seconds);
    fmt::print("| {} | {:.0f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {} |\n", result.contestant.name,
               rate, 1e3 * seconds, 1e3 * p50, 1e3 * p95, 1e3 * cpu,
               &result == &results[reference] ? "1" : readable(speed));
    if (!json.is_open()) continue;
    json << nlohmann::ordered_json{{"benchmark", benchmark},
                                   {"contestant", result.contestant.name},
                                   {"workers", result.contestant.workers},
                                   {"rows_per_step", result.contestant.rows},
                                   {"examples_per_second", rate},
                                   {"step_ms", 1e3 * seconds},
                                   {"step_ms_p50", 1e3 * p50},
                                   {"step_ms_p95", 1e3 * p95},
                                   {"cpu_ms", 1e3 * cpu},
                                   {"loss", result.loss},
                                   {"reference", results[reference].contestant.name},
                                   {"speed", speed.median},
                                   {"speed_low", speed.low},
                                   {"speed_high", speed.high},
                                   {"samples", result.seconds.size()}}
                .dump()
         << '\n';
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void compare_with_first(const std::string& benchmark, const std::string& title,
                        const std::vector<Contestant>& contestants, const Plan& plan,
                        const std::string& json_path) {
  const std::vector<Result> results = compare(contestants, plan);
  print_table(benchmark, "One core: " + title, results, 0, json_path);
  for (size_t other = 1; other < results.size(); ++other) {
    const Estimate ratio = estimate_ratio(results[other].seconds, results[0].seconds);
    fmt::print("{} against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}).\n",
               results[0].contestant.name, results[other].contestant.name, ratio.median, ratio.low,
               ratio.high);
  }
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
  print_memory(benchmark, "Peak memory: " + title, results, 0, json_path);
}

}  // namespace muster::bench
