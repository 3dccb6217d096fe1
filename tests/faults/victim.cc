// A small training run that says which phase it is in and stays there a moment, so that a test can
// strike it there. FAULT_PHASE names the phase and FAULT_TASK the task that says so, as "worker 1".
// With FAULT_GATES, a folder, the chief waits after each step until a file there has its number,
// and each task says when it starts, for which it waits while a file "hold" is there; a checkpoint
// of the phases "save" and "write" is not there while a file "hold_save" is.
// With FAULT_STEPS it makes so many steps, of FAULT_STEP_SECONDS each, saves every
// FAULT_SAVE_EVERY of them, and the chief says when it has made each. With FAULT_PARTS all workers
// write parts of its checkpoints. With FAULT_AUDIT it records which examples it uses. With
// FAULT_PATIENCE its heartbeat_timeout is that many seconds. Where the file FAULT_OTHER exists, it
// starts with another seed. With FAULT_SERVED it trains on parameter servers, which wait that many
// seconds for a task that may be started again. With FAULT_KERAS, a file, it is a fit() on
// parameter servers, whose backups fail while the file is there; with FAULT_FIT, a file, a fit()
// that ends with the epoch in which the file is there, counts the uses of each example, and has the
// phase "write" of a part. With FAULT_SCHEDULED, "calls" or "loop", it makes steps on parameter
// servers without end, and saves a large table now and then. When the file FAULT_TRIGGER appears,
// the task FAULT_STRUCK strikes itself with FAULT_BLOW (blow.h). Without them it is a program as
// any other.
#include <muster/muster.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <torch/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/fault_file_system.h"
#include "muster/train/save_parts.h"

using namespace muster;

namespace {

constexpr auto kPause = std::chrono::milliseconds(700);
constexpr auto kLate = std::chrono::milliseconds(2000);  // how late the others join
constexpr int64_t kSteps = 12, kSaveEvery = 4, kStrikeStep = 6;
// While the chief writes the checkpoint of this step, which nobody evaluates, the steps after it
// are made. They take a while.
constexpr int64_t kWrittenStep = 8;
constexpr auto kStepWhileWriting = std::chrono::milliseconds(60);
// With FAULT_STEPS.
constexpr int64_t kPacedSaveEvery = 50;
constexpr double kPacedStepSeconds = 0.01;
constexpr double kJoinSeconds = 20;  // as cell.h has it; a run of users waits for 600 s
// In the phase "hang" a step takes so long, and the watchdog reports steps of a second.
constexpr auto kHang = std::chrono::milliseconds(3500);
constexpr int kStepsBeforeHang = 30;
// On servers, where each worker is quick, and the steps of all are counted.
constexpr int64_t kServedSteps = 60, kServedSaveEvery = 15, kServedStrikeStep = 20;
constexpr auto kServedStep = std::chrono::milliseconds(5);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_served() { return !variable("FAULT_SERVED").empty(); }

int64_t steps() {
  const std::string given = variable("FAULT_STEPS");
  if (!given.empty()) return std::stoll(given);
  return is_served() ? kServedSteps : kSteps;
}

int64_t save_every() {
  const std::string given = variable("FAULT_SAVE_EVERY");
  if (!given.empty()) return std::stoll(given);
  if (!variable("FAULT_STEPS").empty()) return kPacedSaveEvery;
  return is_served() ? kServedSaveEvery : kSaveEvery;
}

// "worker 1"
std::string own_task() {
  const auto config = nlohmann::json::parse(variable("TF_CONFIG"), nullptr, false);
  if (config.is_discarded()) return "worker 0";
  return config["task"]["type"].get<std::string>() + " " +
         std::to_string(config["task"]["index"].get<int>());
}

bool is_struck(const std::string& phase) {
  return variable("FAULT_PHASE") == phase && variable("FAULT_TASK") == own_task();
}

bool writes_slowly() {
  const std::string phase = variable("FAULT_PHASE");
  return phase == "save" || phase == "write";
}

bool is_other() {
  const std::string file = variable("FAULT_OTHER");
  return !file.empty() && std::filesystem::exists(file);
}

// Says once that this task has come to `phase`, and stays there for `pause`.
void reach(const std::string& phase, std::chrono::milliseconds pause = kPause) {
  static std::atomic<bool> said = false;
  if (!is_struck(phase) || said.exchange(true)) return;
  std::fprintf(stderr, "phase: %s\n", phase.c_str());
  std::this_thread::sleep_for(pause);
}

// Says that the chief has made `step`, and waits until the test lets it go on.
void pass_gate(int64_t step) {
  const std::string folder = variable("FAULT_GATES");
  if (folder.empty() || own_task() != "worker 0") return;
  constexpr auto kMost = std::chrono::seconds(60);
  std::fprintf(stderr, "gate: %lld\n", static_cast<long long>(step));
  const auto end = std::chrono::steady_clock::now() + kMost;
  while (!std::filesystem::exists(folder + "/" + std::to_string(step))) {
    if (std::chrono::steady_clock::now() > end)
      throw Error(ErrorKind::kTimeout, "nobody opened the gate of step " + std::to_string(step));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Waits while the test lets the file `name` be there.
void wait_while_there(const std::string& name) {
  const std::string folder = variable("FAULT_GATES");
  while (!folder.empty() && std::filesystem::exists(folder + "/" + name))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void start_by_gates() {
  if (variable("FAULT_GATES").empty()) return;
  wait_while_there("hold");
  std::fprintf(stderr, "starts\n");
}

// On a clock that all processes of this machine share.
void tell_time(int64_t step) {
  if (variable("FAULT_STEPS").empty()) return;
  const std::string seconds = variable("FAULT_STEP_SECONDS");
  // The length of a step is part of what is measured: a real model would compute meanwhile.
  std::this_thread::sleep_for(Seconds(seconds.empty() ? kPacedStepSeconds : std::stod(seconds)));
  if (own_task() != "worker 0") return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::fprintf(stderr, "made: %lld at %.3f\n", static_cast<long long>(step), now.count());
}

// All is written, and nothing of it has its name yet.
class PausingWriter final : public StagedWriter {
 public:
  explicit PausingWriter(std::unique_ptr<StagedWriter> base) : base_(std::move(base)) {}
  Status append(Bytes bytes) override { return base_->append(bytes); }
  Status sync() override { return base_->sync(); }
  Status commit() override {
    reach(variable("FAULT_PHASE"));
    wait_while_there("hold_save");
    return base_->commit();
  }
  Status discard() override { return base_->discard(); }

 private:
  std::unique_ptr<StagedWriter> base_;
};

// The files of this machine. A checkpoint takes a while to be written: the first one that was
// trained, for which the run waits since it is evaluated, or one that a thread writes.
class PausingFiles final : public FaultFileSystem {
 public:
  PausingFiles() : FaultFileSystem(local_file_system()) {}
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    auto writer = FaultFileSystem::open_staged(path);
    // On servers the numbers differ from run to run.
    const bool trained =
        is_served() ? path.find("ckpt-0.") == std::string::npos
                    : path.find("ckpt-" + std::to_string(step_) + ".") != std::string::npos;
    if (!writer.ok() || path.find("ckpt-") == std::string::npos || !trained) return writer;
    return std::unique_ptr<StagedWriter>(
        std::make_unique<PausingWriter>(std::move(writer.value())));
  }

 private:
  const int64_t step_ = variable("FAULT_PHASE") == "write" ? kWrittenStep : kSaveEvery;
};

// All files of a task that has to do with its disk.
PausingFiles& own_files() {
  static PausingFiles files;
  return files;
}

bool is_disk_full_some_day() { return variable("FAULT_BLOW") == "disk full"; }

// Both sides see the end of each connection of this process.
void cut_connections() {
  constexpr int kMostDescriptors = 4096;
  for (int fd = 3; fd < kMostDescriptors; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0)
      ::shutdown(fd, SHUT_RDWR);
  }
}

// Waits for the file that says when, and strikes this process.
void strike_when_told() {
  if (variable("FAULT_STRUCK") != own_task() || variable("FAULT_TRIGGER").empty()) return;
  std::thread([] {
    // A look each 2 ms: the phase lasts for 700 ms.
    while (!std::filesystem::exists(variable("FAULT_TRIGGER")))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    is_disk_full_some_day() ? own_files().set_plan({.no_space_from = 0}) : cut_connections();
  }).detach();
}

class PhaseHook final : public Hook {
 public:
  void after_step(const StepInfo& info) override {
    if (info.global_step == kStrikeStep) reach("step");
    if (info.global_step > kWrittenStep && variable("FAULT_PHASE") == "write")
      std::this_thread::sleep_for(kStepWhileWriting);
    if (is_served()) {
      // Its gradients are there; those of the others come all the while.
      if (info.global_step >= kServedStrikeStep) reach("push");
      std::this_thread::sleep_for(kServedStep);
    }
    tell_time(info.global_step);
    pass_gate(info.global_step);
  }
  void end(int64_t) override { reach("end"); }
};

// Exports nothing, and takes a while.
class PausingExporter final : public Exporter {
 public:
  const std::string& name() const override { return name_; }
  std::optional<std::string> export_model(Estimator&, const std::string&, const std::string&,
                                          const EvalResult&, bool) override {
    reach("export");
    return std::nullopt;
  }

 private:
  const std::string name_ = "pausing";
};

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  if (mode == Mode::kTrain) reach("build");
  // The weights were brought for it.
  constexpr int kPulls = 5;
  static std::atomic<int> trained = 0;
  if (mode == Mode::kTrain && ++trained > kPulls) reach("pull");
  if (trained > kStepsBeforeHang) reach("hang", kHang);
  if (mode == Mode::kEval) reach("evaluate");
  auto model = context.model("small", [] {
    return Sequential({Dense(16, {.activation = activations::relu}), Dense(1)});
  });
  Tensor y = model(features);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"y", y}});
  Tensor loss = losses::mean_squared_error(labels, y);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  auto adam = context.optimizer(optim::adam({.learning_rate = 0.01}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

Dataset points() {
  const Tensor x = torch::linspace(-1, 1, 256 * 8).view({256, 8});
  return Dataset::from_tensor_slices(Element::tuple({x, x.sin().sum(1, true)}));
}

// The examples of training. In the phase "input" one of them takes a while to come.
Dataset training_points() {
  const Dataset examples = points().shuffle(256).repeat();
  if (variable("FAULT_PHASE") != "input") return examples;
  constexpr int kPromptExamples = 60;
  const auto given = std::make_shared<std::atomic<int>>(0);
  return examples.map([given](Element example) {
    if (++*given > kPromptExamples) reach("input");
    return example;
  });
}

std::vector<ExporterPtr> exporters() {
  if (variable("FAULT_PHASE") != "export") return {};
  return {std::make_shared<PausingExporter>()};
}

// Quick to notice who stands still.
distribute::StrategyPtr strategy() {
  if (const std::string patience = variable("FAULT_PATIENCE"); !patience.empty())
    return distribute::multi_worker_mirrored({.heartbeat_timeout = Seconds(std::stod(patience))});
  if (!is_served()) return distribute::strategy_by_name("multi_worker");
  return distribute::parameter_server(
      {.heartbeat_interval = Seconds(0.3),
       .heartbeat_timeout = Seconds(1.5),
       .restart_timeout = Seconds(std::stod(variable("FAULT_SERVED"))),
       .rejoin_timeout = Seconds(10)});
}

// What it keeps in addition to each backup can be written now and then.
class FailingCallback final : public keras::Callback {
 public:
  void on_epoch_end(int64_t, keras::Logs&) override { std::this_thread::sleep_for(kEpoch); }
  std::string name() const override { return "failing"; }
  std::map<std::string, Tensor> tensors() const override {
    if (std::filesystem::exists(variable("FAULT_KERAS")))
      throw Error(ErrorKind::kUnavailable, "there is no space left");
    return {{"nothing", torch::zeros({1})}};
  }

 private:
  // For an epoch at least: without it, few epochs would take less time than the watcher of the
  // backups needs to see one and to end this process in the middle of the run.
  static constexpr auto kEpoch = std::chrono::milliseconds(30);
};

void fit_on_servers(const Flags& flags) {
  keras::Model model(Sequential({Dense(4), Dense(1)}),
                     {.strategy = distribute::parameter_server(), .seed = 3});
  model.compile(
      {.optimizer = optim::adam({.learning_rate = 0.01}), .loss = keras::MeanSquaredError()});
  const keras::History history = model.fit(
      points().batch(64),
      {.epochs = flags.epochs,
       .callbacks = {std::make_shared<FailingCallback>(),
                     std::make_shared<keras::BackupAndRestore>(
                         flags.model_dir + "/backup",
                         keras::BackupAndRestoreOptions{.max_failed_saves = 1'000'000})}});
  if (!model.is_chief()) return;
  print_result({{"global_step", static_cast<double>(model.step())},
                {"epochs_known", static_cast<double>(history.epoch.size())}});
}

void fit_until_told(const Flags& flags) {
  constexpr int64_t kExamples = 96, kBatch = 12;
  constexpr auto kStep = std::chrono::milliseconds(20);
  // A weight for each example, to which each use in an update adds 1.
  keras::Model model(
      Sequential({Dense(1, {.use_bias = false, .kernel_initializer = initializers::zeros()})}),
      {.strategy = strategy(), .seed = 3});
  model.compile({.optimizer = optim::sgd({.learning_rate = kBatch}), .loss = "mae"});
  const Dataset data =
      Dataset::from_tensor_slices(
          Element::tuple({torch::eye(kExamples), torch::full({kExamples, 1}, 1e6)}))
          .shuffle(kExamples)
          .global_batch(kBatch);
  const auto paced = std::make_shared<keras::LambdaCallback>(
      keras::LambdaCallback::Functions{.on_epoch_end =
                                           [&](int64_t, keras::Logs&) {
                                             if (std::filesystem::exists(variable("FAULT_FIT")))
                                               model.stop_training();
                                           },
                                       .on_batch_end =
                                           [&](const keras::BatchInfo&) {
                                             if (model.is_chief())
                                               std::this_thread::sleep_for(kStep);
                                           }});
  // While a part waits to be written, some steps are made.
  const auto save_freq =
      variable("FAULT_PARTS").empty() ? std::nullopt : std::optional<int64_t>(20);
  const keras::History history = model.fit(
      data, {.epochs = 100'000,
             .callbacks = {paced, std::make_shared<keras::BackupAndRestore>(
                                      flags.model_dir + "/backup",
                                      keras::BackupAndRestoreOptions{.save_freq = save_freq})}});
  const Tensor uses = model.get_weights().front().second;
  if (!model.is_chief()) return;
  print_result({{"global_step", static_cast<double>(model.step())},
                {"epochs_known", static_cast<double>(history.epoch.size())},
                {"least_uses", uses.min().item<double>()},
                {"most_uses", uses.max().item<double>()}});
}

// A ClusterCoordinator, or a loop by hand, of which each server holds 64 MB.
void save_without_end(const Flags& flags) {
  constexpr int64_t kRows = 8 << 20, kStepsBetween = 20;
  const Tensor ids = torch::arange(256).view({256, 1});
  const Dataset data =
      Dataset::from_tensor_slices(Element::tuple({ids, ids.to(kFloat32)})).repeat().batch(16);
  const Layer table = Embedding(kRows, 4);
  const auto sgd = optim::sgd({.learning_rate = 0.01});
  const auto train = [&](const Features& x, const Labels& y) {
    sgd.minimize(losses::mean_squared_error(y, table(x).sum(-1)));
  };
  const auto strategy = distribute::parameter_server();
  if (variable("FAULT_SCHEDULED") == "calls") {
    distribute::ClusterCoordinator coordinator(strategy, {.model_dir = flags.model_dir});
    const auto step =
        coordinator.define("step",
                           [&](const distribute::RemoteCall& call) -> std::vector<Tensor> {
                             train(call.batch().features, call.batch().labels);
                             return {};
                           },
                           {.training = true, .data = coordinator.distribute("data", data)});
    if (coordinator.serve()) return;
    while (true) {
      for (int64_t made = 0; made < kStepsBetween; ++made) coordinator.schedule(step);
      coordinator.join();
      coordinator.save({.asynchronous = true});
    }
  }
  const auto scope = strategy->scope({.model_dir = flags.model_dir});
  if (scope.serve(train)) return;
  scope.restore(flags.model_dir);
  for (const auto& batch : strategy->distribute(data)) {
    strategy->run(train, batch);
    if (scope.step() % kStepsBetween == 0) scope.save(flags.model_dir, {.asynchronous = true});
    if (!scope.should_stop()) continue;
    scope.save(flags.model_dir);
    scope.stop();
  }
}

void program(const Flags& flags) {
  if (!variable("FAULT_SCHEDULED").empty()) return save_without_end(flags);
  if (!variable("FAULT_KERAS").empty()) return fit_on_servers(flags);
  if (!variable("FAULT_PARTS").empty()) internal::divide_states_from(1);
  if (!variable("FAULT_FIT").empty()) return fit_until_told(flags);
  start_by_gates();
  strike_when_told();
  reach("start");
  reach("join", std::chrono::milliseconds(0));
  // A process that is struck while it joins must still be waiting for the others.
  if (variable("FAULT_PHASE") == "join" && !is_struck("join")) std::this_thread::sleep_for(kLate);
  Estimator estimator(model_fn,
                      {.model_dir = flags.model_dir,
                       .random_seed = is_other() ? 4 : 3,
                       .save_checkpoints_steps = save_every(),
                       .train_distribute = strategy(),
                       .join_timeout = Seconds(kJoinSeconds),
                       .audit = !variable("FAULT_AUDIT").empty(),
                       .watchdog = Seconds(variable("FAULT_PHASE") == "hang" ? 1 : 30),
                       .fs = writes_slowly() || is_disk_full_some_day() ? &own_files() : nullptr});
  train_and_evaluate(estimator,
                     {.input_fn = [] { return training_points().batch(16); },
                      .max_steps = steps(),
                      .hooks = {std::make_shared<PhaseHook>()}},
                     {.input_fn = [] { return points().batch(64); },
                      .steps = std::nullopt,
                      .exporters = exporters(),
                      // Then only the first checkpoint and the last one are evaluated.
                      .throttle_secs = Seconds(variable("FAULT_PHASE") == "write" ? 3600 : 0)});
}

}  // namespace

// In place of the system's: backups of fit() take no file system of a program. All of a part is
// written, and it has no name yet.
extern "C" int fsync(int file) {
  std::error_code unknown;
  const auto path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), unknown).string();
  if (!variable("FAULT_FIT").empty() && path.find(".part-") != std::string::npos) reach("write");
  return static_cast<int>(::syscall(SYS_fsync, file));
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program, {.uses = {"model_dir", "epochs"}});
}
