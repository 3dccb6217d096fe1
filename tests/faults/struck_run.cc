// Trains examples/mnist twice at the same time, on the same number of workers: a fault strikes one
// run every few seconds, and nothing strikes the other one. SIGTERM stops the whole struck run, and
// the same command is given again at once. Prints how much of its time the struck
// run used well, how long it took to recover from each kind of fault, and how its loss differs from
// that of the other one. docs/reliability.md shows a run of 30 minutes.
//   struck_run [--minutes=30] [--every=15] [--seed=1] [--workers=1:3] [--out=FOLDER]
// FOLDER gets result.json, which docs/drawings/struck_run.py draws, and the logs of both runs.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"

namespace muster::testing {
namespace {

// How often each run says where it is, and how often this program looks.
constexpr const char* kLiveSeconds = "0.1";
constexpr auto kLook = std::chrono::milliseconds(20);
// In a line "[worker 0] I 17:04:33 step 101/400", where its text begins.
constexpr const char* kChief = "[worker 0] I ";
constexpr size_t kTextAt = 22;
// Before a fault, the seconds in which the usual speed of the run is measured.
constexpr double kUndisturbed = 5;
// A run has overcome a fault when it has made so many further steps. The step in progress may end
// before the others see the fault, and the live file lags a few steps.
constexpr int64_t kFurtherSteps = 20;

struct Settings {
  double minutes = 30, every = 15;
  uint64_t seed = 1;
  std::string workers = "1:3", out = "struck_run";
  int64_t batch = 256, train = 60000, save_every = 50;
  double learning_rate = 0.0005;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One of the two runs, and when it first made which step.
class WatchedRun {
 public:
  WatchedRun(const Settings& settings, const std::string& name, const std::string& data)
      : model_(settings.out + "/" + name),
        command_(
            muster_run({"--workers=" + settings.workers, "--restart=4096", "--survivor-time=5"},
                       {binary("mnist"), "--data_dir=" + data, "--model_dir=" + model_,
                        fmt::format("--batch_size={}", settings.batch),
                        fmt::format("--learning_rate={}", settings.learning_rate),
                        fmt::format("--save_checkpoints_steps={}", settings.save_every),
                        "--max_steps=1000000000", "--audit"})),
        began_(seconds_now()) {
    start();
  }

  // Reads where the run is. Throws when it has ended.
  void look() {
    if (!program_->running()) {
      const int code = program_->wait();
      if (!stopped_ || code != 128 + SIGTERM)
        throw internal_error(fmt::format("{} has ended with {}:\n{}", model_, code, log()));
      earlier_ += program_->output();
      start();
    }
    const auto live = nlohmann::json::parse(read_file(model_ + "/live/worker-0.json"), nullptr,
                                            /*allow_exceptions=*/false);
    if (!live.is_object() || live["replicas"].empty()) return;
    const int64_t step = live["replicas"][0]["step"];
    if (step > this->step()) made_.emplace_back(seconds_now() - began_, step);
  }

  // The largest step that it has ever made.
  int64_t step() const { return made_.empty() ? 0 : made_.back().second; }
  // The seconds of the run until it had made `step`; nothing if it has not.
  std::optional<double> seconds_until(int64_t step) const {
    const auto at = std::ranges::lower_bound(made_, step, {}, &std::pair<double, int64_t>::second);
    return at == made_.end() ? std::nullopt : std::optional(at->first);
  }
  // Of the run, so far.
  double seconds() const { return seconds_now() - began_; }
  // Steps a second in the time up to now; 0 where it has not made steps all that time.
  double speed(double time) const {
    const auto first =
        std::ranges::lower_bound(made_, seconds() - time, {}, &std::pair<double, int64_t>::first);
    if (first == made_.end()) return 0;
    const double span = made_.back().first - first->first;
    return span < 0.9 * time ? 0 : static_cast<double>(step() - first->second) / span;
  }

  // Stops it; look() starts it again.
  void stop() {
    program_->signal(SIGTERM);
    stopped_ = true;
  }
  // Ends it by SIGTERM. Returns its last step.
  int64_t end() {
    program_->signal(SIGTERM);
    const int code = program_->wait();
    const std::string text = log(), saved = "stopped by SIGTERM after saving step ";
    const size_t at = text.rfind(saved);
    if (code != 128 + SIGTERM || at == std::string::npos)
      throw internal_error(fmt::format("exit code {} after SIGTERM:\n{}", code, text));
    return std::stoll(text.substr(at + saved.size()));
  }
  // "used once" or what `muster audit` found.
  std::string audit() const {
    const Ran ran = run({binary("muster"), "audit", model_});
    return ran.code == 0 ? "each example used once an epoch" : ran.output;
  }
  // The numbers after `name` in lines of the chief that hold "step N", by step. Of steps that were
  // made again, the last ones.
  std::map<int64_t, double> numbers(const std::string& line, const std::string& name) const {
    std::map<int64_t, double> all;
    std::istringstream stream(log());
    for (std::string text; std::getline(stream, text);) {
      const size_t at = text.find(line), number = text.find(name + " ");
      if (!text.starts_with(kChief) || at != kTextAt || number == std::string::npos) continue;
      all[std::stoll(text.substr(at + line.size()))] =
          std::stod(text.substr(number + name.size() + 1));
    }
    return all;
  }
  std::string log() const { return earlier_ + program_->output(); }
  // Throws NotFound when there is none.
  pid_t worker(int index) const { return program_->task("worker", index); }

 private:
  void start() {
    stopped_ = false;
    program_.emplace(command_,
                     Variables{{"MUSTER_LIVE_SECONDS", kLiveSeconds}, {"MUSTER_THREADS", "1"}});
  }

  const std::string model_;
  const Words command_;
  const double began_;
  bool stopped_ = false;  // by stop(), and not started again
  std::string earlier_;   // printed by the programs before
  std::optional<Program> program_;
  std::vector<std::pair<double, int64_t>> made_;  // seconds of the run, step
};

struct Fault {
  std::string kind, task;
  double at = 0;     // seconds of the run
  int64_t step = 0;  // the largest one that was made before
  // Until kFurtherSteps were made, without the time they usually take; nothing if the end came.
  std::optional<double> seconds{};
};

// Strikes tasks of a run, the same ones in each run with the same seed.
class Striker {
 public:
  Striker(const Settings& settings, WatchedRun& run)
      : run_(run),
        random_(derive_key(settings.seed, {id_of("struck_run")})),
        workers_(std::stoi(settings.workers.substr(settings.workers.find(':') + 1))) {}

  // One fault. Returns false when its task is not there: it is being started again.
  bool strike() {
    if (!next_) next_ = drawn();
    const int index = next_->index;
    pid_t process = 0;
    try {
      process = run_.worker(index);
    } catch (const Error&) {
      return false;
    }
    const bool all = next_->signal == SIGTERM;
    Fault fault{.kind = next_->kind,
                .task = all          ? "run"
                        : index == 0 ? "chief"
                                     : fmt::format("worker {}", index),
                .at = run_.seconds(),
                .step = run_.step()};
    if (all) {
      run_.stop();
    } else if (next_->signal == 0) {
      cut_connections(process);
    } else {
      ::kill(process, next_->signal);
    }
    if (next_->signal == SIGSTOP) paused_[process] = seconds_now() + next_->pause;
    std::printf("%7.1f s  step %-7lld %s: %s\n", fault.at, static_cast<long long>(fault.step),
                fault.kind.c_str(), fault.task.c_str());
    std::fflush(stdout);
    faults_.push_back(std::move(fault));
    next_.reset();
    return true;
  }

  // Continues tasks whose pause is over.
  void look() {
    std::erase_if(paused_, [](const auto& paused) {
      if (seconds_now() < paused.second) return false;
      ::kill(paused.first, SIGCONT);
      return true;
    });
  }
  // How long the run took to overcome each fault, if it usually makes so many steps a second.
  void tell_recoveries(double speed) {
    for (Fault& fault : faults_) {
      const auto until = run_.seconds_until(fault.step + kFurtherSteps);
      if (until) fault.seconds = std::max(0.0, *until - fault.at - kFurtherSteps / speed);
    }
  }
  void continue_all() {
    for (const auto& [process, end] : paused_) ::kill(process, SIGCONT);
    paused_.clear();
  }
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  struct Next {
    std::string kind;
    int index = 0, signal = 0;
    double pause = 0;
  };
  Next drawn() {
    const int any = static_cast<int>(random_.uniform_below(workers_));
    const int other = 1 + static_cast<int>(random_.uniform_below(workers_ - 1));
    const double pause = 2 + 8 * random_.uniform();
    switch (random_.uniform_below(5)) {
      case 0:
        return {"SIGKILL", other, SIGKILL};
      case 1:
        return {"SIGKILL", 0, SIGKILL};
      case 2:
        return {"SIGSTOP", any, SIGSTOP, pause};
      case 3:
        return {"SIGTERM, started again", 0, SIGTERM};
      default:
        return {"connections cut", any};
    }
  }

  WatchedRun& run_;
  Random random_;
  const int workers_;
  std::optional<Next> next_;
  std::map<pid_t, double> paused_;  // and until when
  std::vector<Fault> faults_;
};

// Rows of a table: how many faults of each kind, and the seconds until the next new step.
std::string recovery_table(const std::vector<Fault>& faults) {
  std::map<std::string, std::vector<double>> seconds;
  for (const Fault& fault : faults) {
    const std::string task = fault.task.starts_with("worker") ? "another worker" : fault.task;
    if (!fault.seconds) continue;
    for (const std::string& row : {fault.kind + " | " + task, std::string("~all | ")})
      seconds[row].push_back(*fault.seconds);
  }
  std::string table =
      "| fault | of | faults | seconds to recover, median | worst |\n|---|---|---|---|---|\n";
  // "~" is after all letters.
  for (const auto& [row, values] : seconds)
    table += fmt::format("| {} | {} | {:.1f} | {:.1f} |\n", row[0] == '~' ? row.substr(1) : row,
                         values.size(), median(values), *std::ranges::max_element(values));
  return table;
}

nlohmann::json points(const std::map<int64_t, double>& values) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [step, value] : values) all.push_back({step, value});
  return all;
}

// The largest difference at a step that both have, and how many there are.
std::pair<double, int> difference(const std::map<int64_t, double>& one,
                                  const std::map<int64_t, double>& other) {
  double most = 0;
  int count = 0;
  for (const auto& [step, value] : one) {
    const auto at = other.find(step);
    if (at == other.end()) continue;
    most = std::max(most, std::abs(value - at->second));
    ++count;
  }
  return {most, count};
}

int compare(const Settings& settings) {
  const std::string data = settings.out + "/digits";
  const Ran made = run({binary("muster"), "data", "digits", "--out", data, "--train",
                        std::to_string(settings.train), "--test", "200"});
  if (made.code != 0) throw internal_error(made.output);
  WatchedRun struck(settings, "struck", data), untouched(settings, "untouched", data);
  Striker striker(settings, struck);
  std::vector<double> speeds;  // of the struck run, where nothing had struck it for a while
  double next = settings.every;
  while (struck.seconds() < settings.minutes * 60) {
    std::this_thread::sleep_for(kLook);  // between two looks at the runs
    struck.look();
    untouched.look();
    striker.look();
    const bool due = struck.seconds() >= next && struck.step() > 0;
    if (!due) continue;
    if (struck.speed(kUndisturbed) > 0) speeds.push_back(struck.speed(kUndisturbed));
    // A second later, if the task is not there.
    next = struck.seconds() + (striker.strike() ? settings.every : 1);
  }
  striker.continue_all();
  const double seconds = struck.seconds();
  const int64_t steps = struck.end(), others = untouched.end();
  striker.tell_recoveries(median(speeds));
  const double ettr = static_cast<double>(steps) / (median(speeds) * seconds);
  const auto loss = struck.numbers("step ", "loss"), plain = untouched.numbers("step ", "loss");
  const auto tested = struck.numbers("evaluated step ", "loss"),
             plain_tested = untouched.numbers("evaluated step ", "loss");
  const auto [training, training_steps] = difference(loss, plain);
  const auto [test, test_steps] = difference(tested, plain_tested);
  const std::string text =
      recovery_table(striker.faults()) +
      fmt::format(
          "\nin {:.0f} s: {} steps with {} faults, {} steps in the run that nothing struck\n"
          "ETTR {:.1f} %: {} steps at {:.1f} steps/s, the median of the {:.0f} s before each "
          "fault\n"
          "largest difference of the loss at the same step: {:.4f} in training ({} steps), {:.4f} "
          "in evaluations ({})\n"
          "struck: {}\nuntouched: {}\n",
          seconds, steps, striker.faults().size(), others, 100 * ettr, steps, median(speeds),
          kUndisturbed, training, training_steps, test, test_steps, struck.audit(),
          untouched.audit());
  std::printf("\n%s", text.c_str());
  nlohmann::json faults = nlohmann::json::array();
  for (const Fault& fault : striker.faults())
    faults.push_back({{"kind", fault.kind},
                      {"task", fault.task},
                      {"at", fault.at},
                      {"step", fault.step},
                      {"seconds", fault.seconds.value_or(-1)}});
  write_file(settings.out + "/result.json",
             nlohmann::json({{"faults", faults},
                             {"struck", points(loss)},
                             {"untouched", points(plain)},
                             {"struck_test", points(tested)},
                             {"untouched_test", points(plain_tested)},
                             {"steps", steps},
                             {"seconds", seconds},
                             {"ettr", ettr}})
                 .dump());
  write_file(settings.out + "/result.md", text);
  write_file(settings.out + "/struck.log", struck.log());
  write_file(settings.out + "/untouched.log", untouched.log());
  return 0;
}

int main_of(int argc, char** argv) {
  CLI::App app("A run that faults strike, and one that nothing strikes");
  Settings settings;
  app.add_option("--minutes", settings.minutes, "Minutes of both runs");
  app.add_option("--every", settings.every, "Seconds between two faults");
  app.add_option("--seed", settings.seed, "Seed of the faults");
  app.add_option("--workers", settings.workers, "MIN:MAX workers of each run, MAX at least 2");
  app.add_option("--batch", settings.batch, "Examples in a step");
  app.add_option("--train", settings.train, "Training images");
  app.add_option("--save-every", settings.save_every, "Steps between two saves");
  app.add_option("--learning-rate", settings.learning_rate, "Learning rate");
  app.add_option("--out", settings.out, "Folder of the results");
  CLI11_PARSE(app, argc, argv);
  return compare(settings);
}

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  try {
    return muster::testing::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
