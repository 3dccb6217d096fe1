// What checkpoints cost a run. First how long a run stops for a save of 1 GB, compared with a plain
// copy of as many bytes in the same process a step before. Then what a save every 50 steps costs:
// windows of 50 steps that begin with a save, compared with the windows after them, which have
// none. Both with a thread that writes, without it (RunConfig::asynchronous_saves = false), and of
// torch.distributed.checkpoint.async_save in PyTorch; the stop of ModelCheckpoint too. Then the
// stop of two workers of this machine that each write a part of 1 GB, and of two whose chief writes
// all. Last how fast a disk takes 1 GB from one writer, and in two halves from two writers at the
// same time.
#include <fmt/format.h>
#include <muster/muster.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "muster/base/direct_output.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_memory.h"
#include "muster/checkpoint/manager.h"
#include "muster/launch/run.h"
#include "muster/launch/subprocess.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/save_parts.h"

namespace muster::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestPeer{900};

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// A network of four square layers and Adam: three numbers of four bytes for each weight.
constexpr int64_t kLayers = 4;
int64_t width_of(int64_t megabytes) {
  return static_cast<int64_t>(std::sqrt(static_cast<double>(megabytes) * 1e6 / (12 * kLayers)));
}

struct Shape {
  int64_t megabytes = 0;  // of the state
  int64_t batch = 0;
  int64_t window = 0;   // steps; a save begins every second window
  int64_t saves = 0;    // that are measured, after one that is not
  bool copies = false;  // whether a plain copy is made before each save
};

// Seconds, one entry for each save.
struct Figures {
  std::vector<double> stops{}, copies{};  // of the run, of a plain copy
  std::vector<double> with{}, without{};  // a save in the window
  int64_t late = 0;                       // saves that were not written within their window
};

class Watch final : public Hook {
 public:
  Watch(const Shape& shape, std::string model_dir)
      : shape_(shape), model_dir_(std::move(model_dir)) {
    if (!shape.copies) return;
    from_ = torch::ones({shape.megabytes * 250'000});
    to_ = torch::ones_like(from_);
  }

  void after_step(const StepInfo& info) override {
    const int64_t step = info.global_step, place = step % (2 * shape_.window);
    if (place == 0) begun_ = steady_clock::now();
    if (step < 2 * shape_.window) return;
    if (place == shape_.window) {
      with_ = seconds_since(begun_);
      begun_ = steady_clock::now();
      late_ = saved_ < step - shape_.window;
    }
    if (place != 2 * shape_.window - 1) return;
    // The first save asks the system for the memory of the copy, and is not measured.
    if (step > 4 * shape_.window) {
      figures.with.push_back(with_);
      // This window lacks its last step.
      figures.without.push_back(seconds_since(begun_) * static_cast<double>(shape_.window) /
                                static_cast<double>(shape_.window - 1));
      figures.late += late_ ? 1 : 0;
    }
    if (shape_.copies) copy();
  }
  void after_save(int64_t step, const std::string&) override { saved_ = step; }
  void after_pause(Seconds time) override { figures.stops.push_back(time.count()); }

  Figures figures;

 private:
  void copy() {
    // Until no thread writes.
    while (last_written() < saves_begun_ * 2 * shape_.window)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++saves_begun_;
    const auto begin = steady_clock::now();
    to_.copy_(from_);
    figures.copies.push_back(seconds_since(begin));
  }
  int64_t last_written() const {
    const auto latest = CheckpointManager(model_dir_).latest();
    return latest ? checkpoint_step(*latest) : -1;
  }

  const Shape shape_;
  const std::string model_dir_;
  Tensor from_, to_;
  steady_clock::time_point begun_;
  double with_ = 0;
  bool late_ = false;
  int64_t saved_ = -1, saves_begun_ = 1;
};

ModelFn tower_of(int64_t width) {
  return [=](const Features& features, const Labels& labels, Mode, ModelContext& context) {
    auto model = context.model("tower", [=] {
      std::vector<Layer> layers;
      for (int64_t i = 0; i < kLayers; ++i)
        layers.push_back(Dense(width, {.activation = activations::relu}));
      return Sequential(std::move(layers));
    });
    const Tensor loss = losses::mean_squared_error(labels, model(features));
    return EstimatorSpec::train(
        loss, context.optimizer(optim::adam({.learning_rate = 1e-5})).minimize(loss));
  };
}

InputFn rows_of(int64_t batch, int64_t width) {
  return [=] {
    const Tensor rows = torch::rand({batch, width});
    return Dataset::from_tensor_slices(Element::tuple({rows, rows.flip({0})}))
        .batch(batch)
        .repeat();
  };
}

Figures train(const Shape& shape, bool asynchronous) {
  const Scratch scratch;
  const int64_t width = width_of(shape.megabytes);
  const auto watch = std::make_shared<Watch>(shape, scratch.path);
  Estimator(tower_of(width), {.model_dir = scratch.path,
                              .save_checkpoints_steps = 2 * shape.window,
                              .keep_checkpoint_max = 1,
                              .asynchronous_saves = asynchronous})
      .train(rows_of(shape.batch, width),
             {.max_steps = 2 * shape.window * (shape.saves + 2), .hooks = {watch}});
  Figures figures = watch->figures;
  // Without the first save of the run, which waits, the save after it, which asks for memory, and
  // the one at the last step.
  figures.stops.erase(figures.stops.begin(), figures.stops.begin() + 2);
  figures.stops.resize(static_cast<size_t>(shape.saves));
  figures.copies.resize(shape.copies ? static_cast<size_t>(shape.saves) : 0);
  return figures;
}

// Of one worker of two: prints a line for each save with the seconds of its stop, and the seconds
// from its begin until the checkpoint had its name.
class WorkerWatch final : public Hook {
 public:
  void before_save(int64_t) override {
    tell();
    written_.clear();
    begun_ = std::chrono::system_clock::now();
  }
  void after_pause(Seconds time) override { stop_ = time.count(); }
  void after_save(int64_t, const std::string& prefix) override { written_ = prefix; }
  void end(int64_t) override { tell(); }

 private:
  void tell() {
    struct stat file {};
    if (written_.empty() || ::stat((written_ + ".safetensors").c_str(), &file) != 0) return;
    const auto named =
        std::chrono::seconds(file.st_ctim.tv_sec) + std::chrono::nanoseconds(file.st_ctim.tv_nsec);
    fmt::print("parts {} {}\n", stop_,
               std::chrono::duration<double>(named - begun_.time_since_epoch()).count());
    std::fflush(stdout);
  }

  std::string written_;
  std::chrono::system_clock::time_point begun_;
  double stop_ = 0;
};

void be_worker(const std::string& model_dir, int64_t megabytes, int64_t saves, bool in_parts) {
  constexpr int64_t kSteps = 6;  // from save to save: the checkpoint is written meanwhile
  if (!in_parts) internal::divide_states_from(int64_t{1} << 60);
  const int64_t width = width_of(megabytes);
  Estimator(tower_of(width), {.model_dir = model_dir,
                              .save_checkpoints_steps = kSteps,
                              .keep_checkpoint_max = 1,
                              .train_distribute = distribute::multi_worker_mirrored(),
                              .progress_line = false})
      .train(rows_of(8, width),
             {.max_steps = kSteps * (saves + 2), .hooks = {std::make_shared<WorkerWatch>()}});
}

// The stops, and in `with` the seconds until the checkpoints were there.
Figures train_two_workers(int64_t megabytes, int64_t saves, bool in_parts) {
  const Scratch scratch;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  Figures figures;
  const auto begin = steady_clock::now();
  const launch::CompletedProcess ran = launch::run_by_lines(
      {self.parent_path() / "muster", "run", "--workers=2", "--", self,
       "--worker_dir=" + scratch.path, fmt::format("--megabytes={}", megabytes),
       fmt::format("--saves={}", saves), in_parts ? "--in_parts" : "--one_writer"},
      [&](std::string_view line) {
        double stop = 0, there = 0;
        const size_t at = line.find("parts ");
        if (at == line.npos ||
            std::sscanf(std::string(line.substr(at)).c_str(), "parts %lf %lf", &stop, &there) != 2)
          return;
        figures.stops.push_back(stop);
        figures.with.push_back(there);
      },
      [&] { return steady_clock::now() - begin > kLongestPeer; });
  if (!ran.status.ok() || std::ssize(figures.stops) < saves)
    throw internal_error(fmt::format("two workers failed: {}", ran.err));
  // Without the first save, which waits, and the next one, which asks for memory.
  for (std::vector<double>* each : {&figures.stops, &figures.with}) {
    each->erase(each->begin(), each->begin() + 2);
    each->resize(std::min(each->size(), static_cast<size_t>(saves)));
  }
  return figures;
}

// Lines of "stop copy with without late".
std::optional<Figures> train_in_python(const Shape& shape, bool reuses) {
  const Scratch scratch;
  Contestant peer = python_peer(
      "PyTorch",
      {"saves_torch.py", "--dir=" + scratch.path,
       fmt::format("--width={}", width_of(shape.megabytes)), fmt::format("--layers={}", kLayers),
       fmt::format("--batch={}", shape.batch), fmt::format("--window={}", shape.window),
       fmt::format("--saves={}", shape.saves), reuses ? "--reuse" : "--default"});
  if (!in_environment("today", &peer)) return std::nullopt;
  std::vector<std::string> argv = {"/usr/bin/env"};
  for (const auto& [name, value] : peer.environment) argv.push_back(name + "=" + value);
  argv.insert(argv.end(), peer.argv.begin(), peer.argv.end());
  Figures figures;
  const auto begin = steady_clock::now();
  const launch::CompletedProcess ran = launch::run_by_lines(
      argv,
      [&](std::string_view line) {
        double stop = 0, copy = 0, with = 0, without = 0;
        int late = 0;
        if (std::sscanf(std::string(line).c_str(), "figures %lf %lf %lf %lf %d", &stop, &copy,
                        &with, &without, &late) != 5)
          return;
        figures.stops.push_back(stop);
        figures.copies.push_back(copy);
        figures.with.push_back(with);
        figures.without.push_back(without);
        figures.late += late;
      },
      [&] { return steady_clock::now() - begin > kLongestPeer; });
  if (!ran.status.ok() || figures.stops.empty())
    throw internal_error(fmt::format("saves_torch.py failed: {}", ran.err));
  return figures;
}

// Of ModelCheckpoint in fit(), of weights and slots: only the stops and the copies.
Figures fit(const Shape& shape, bool asynchronous) {
  const Scratch scratch;
  const int64_t width = width_of(shape.megabytes), every = 2 * shape.window;
  std::vector<Layer> layers;
  for (int64_t i = 0; i < kLayers; ++i)
    layers.push_back(Dense(width, {.activation = activations::relu}));
  keras::Model model(Sequential(std::move(layers)));
  model.compile({.optimizer = optim::adam({.learning_rate = 1e-5}), .loss = "mse"});
  const Tensor from = torch::ones({shape.megabytes * 250'000});
  Tensor to = torch::ones_like(from);
  Figures figures;
  steady_clock::time_point begun;
  const auto before = [&](const keras::BatchInfo&) { begun = steady_clock::now(); };
  const auto after = [&](const keras::BatchInfo& info) {
    const int64_t step = info.batch + 1;
    if (step % every == 0) figures.stops.push_back(seconds_since(begun));
    if (step % every != every - 1) return;
    const auto is_written = [&] {
      const auto latest = CheckpointManager(scratch.path).latest();
      return step < every || (latest && checkpoint_step(*latest) > step - every);
    };
    while (!is_written()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto begin = steady_clock::now();
    to.copy_(from);
    figures.copies.push_back(seconds_since(begin));
  };
  const auto calls = [](std::function<void(const keras::BatchInfo&)> call) {
    return std::make_shared<keras::LambdaCallback>(
        keras::LambdaCallback::Functions{.on_batch_end = std::move(call)});
  };
  const Tensor rows = torch::rand({shape.batch, width});
  (void)model.fit(
      Dataset::from_tensor_slices(Element::tuple({rows, rows.flip({0})}))
          .batch(shape.batch)
          .repeat(),
      {.steps_per_epoch = every * (shape.saves + 2),
       .callbacks = {calls(before),
                     std::make_shared<keras::ModelCheckpoint>(
                         scratch.path, keras::ModelCheckpointOptions{.save_freq = every,
                                                                     .asynchronous = asynchronous}),
                     calls(after)},
       .verbose = keras::Verbose::kSilent});
  // As in train(): the first save waits, and the next one asks for memory.
  for (std::vector<double>* each : {&figures.stops, &figures.copies})
    each->erase(each->begin(), each->begin() + 2);
  return figures;
}

std::string interval(const Estimate& e, double scale, double minus) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", scale * (e.median - minus),
                     scale * (e.low - minus), scale * (e.high - minus));
}

void print_stop(const std::string& name, const Figures& figures) {
  fmt::print("| {} | {:.0f} | {:.0f} | {} |\n", name, 1e3 * estimate(figures.stops).median,
             1e3 * estimate(figures.copies).median,
             interval(estimate_ratio(figures.stops, figures.copies), 1, 0));
  std::fflush(stdout);
}

void print_cost(const std::string& name, const Shape& shape, const Figures& figures) {
  fmt::print("| {} | {:.0f} | {:.0f} | {} | {} |\n", name,
             1e3 * estimate(figures.without).median / static_cast<double>(shape.window),
             1e3 * estimate(figures.stops).median,
             interval(estimate_ratio(figures.with, figures.without), 100, 1),
             figures.late == 0 ? "" : fmt::format("{} were written later", figures.late));
  std::fflush(stdout);
}

void for_each_way(const Shape& shape,
                  const std::function<void(const std::string&, const Figures&)>& print) {
  print("Muster", train(shape, true));
  print("Muster, asynchronous_saves = false", train(shape, false));
  if (const auto peer = train_in_python(shape, false)) print("PyTorch, async_save", *peer);
  // Its steps go on as those before.
  if (!shape.copies) return;
  if (const auto peer = train_in_python(shape, true))
    print("PyTorch, async_save into memory that it keeps", *peer);
}

// Seconds in which each of the pieces of memory becomes a file, all at the same time.
double write_files(const std::vector<Bytes>& pieces) {
  const Scratch scratch;
  const auto begin = steady_clock::now();
  std::vector<std::future<void>> writers;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string path = fmt::format("{}/{}", scratch.path, i);
    writers.push_back(std::async(std::launch::async, [path, piece = pieces[i]] {
      local_file_system().write_atomically(path, piece).value();
    }));
  }
  for (std::future<void>& writer : writers) writer.get();
  return seconds_since(begin);
}

void compare_writers(int64_t megabytes, int64_t turns) {
  const auto memory =
      checkpoint_memory({{"state", {.shape = {megabytes * 250'000}, .dtype = kFloat32}}});
  torch::Tensor(memory.at("state")).uniform_();
  const Bytes all = memory_of(memory);
  // Both halves begin a block, as files do.
  const size_t half = all.size() / 2 / DirectOutput::kBlock * DirectOutput::kBlock;
  std::vector<double> one, two;
  for (int64_t turn = 0; turn < turns; ++turn) {
    one.push_back(write_files({all}));
    two.push_back(write_files({all.first(half), all.subspan(half)}));
  }
  fmt::print("\n### One writer of {} MB, and two writers of half as much at the same time\n\n",
             megabytes);
  fmt::print("| one, ms | two, ms | two / one |\n|---|---|---|\n| {:.0f} | {:.0f} | {} |\n",
             1e3 * estimate(one).median, 1e3 * estimate(two).median,
             interval(estimate_ratio(two, one), 1, 0));
}

void compare_parts(int64_t megabytes, int64_t turns) {
  constexpr int64_t kSaves = 5;
  Figures one, parts;
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (Figures* each : {&one, &parts}) {
      const Figures more = train_two_workers(megabytes, kSaves, each == &parts);
      each->stops.insert(each->stops.end(), more.stops.begin(), more.stops.end());
      each->with.insert(each->with.end(), more.with.begin(), more.with.end());
    }
  }
  // Of the same number: the last save of a run may be missing.
  const size_t count = std::min(one.stops.size(), parts.stops.size());
  for (Figures* each : {&one, &parts}) {
    each->stops.resize(count);
    each->with.resize(count);
  }
  fmt::print("\n### Two workers and a state of {} MB\n\n", megabytes);
  fmt::print("| | the chief writes all, ms | each writes a part, ms | parts / all |\n");
  fmt::print("|---|---|---|---|\n");
  const auto row = [](const char* name, const std::vector<double>& all,
                      const std::vector<double>& in_parts) {
    fmt::print("| {} | {:.0f} | {:.0f} | {} |\n", name, 1e3 * estimate(all).median,
               1e3 * estimate(in_parts).median, interval(estimate_ratio(in_parts, all), 1, 0));
  };
  row("stop of the run", one.stops, parts.stops);
  row("until the checkpoint is there", one.with, parts.with);
}

void run(const std::string& only, bool quick) {
  if (only.empty() || only == "stop") {
    const Shape shape{.megabytes = quick ? 100 : 1000,
                      .batch = 8,
                      .window = 3,
                      .saves = quick ? 5 : 15,
                      .copies = true};
    fmt::print("\n### The stop of a run for one save of {} MB\n\n", shape.megabytes);
    fmt::print("| | stop, ms | plain copy, ms | stop / copy |\n|---|---|---|---|\n");
    for_each_way(shape, print_stop);
    print_stop("fit(), ModelCheckpoint", fit(shape, true));
    print_stop("fit(), ModelCheckpoint, asynchronous = false", fit(shape, false));
  }
  if (only.empty() || only == "cost") {
    const Shape shape{.megabytes = quick ? 30 : 300,
                      .batch = quick ? 16 : 128,
                      .window = 50,
                      .saves = quick ? 5 : 11};
    fmt::print("\n### A save of {} MB every 50 steps, batches of {}\n\n", shape.megabytes,
               shape.batch);
    fmt::print("| | ms a step | stop, ms | cost, % | |\n|---|---|---|---|---|\n");
    for_each_way(shape, [&](const std::string& name, const Figures& figures) {
      print_cost(name, shape, figures);
    });
  }
  if (only.empty() || only == "parts") compare_parts(quick ? 600 : 1000, quick ? 1 : 3);
  if (only.empty() || only == "writers") compare_writers(quick ? 100 : 1000, quick ? 5 : 15);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster;
  CLI::App app("What checkpoints cost a run");
  std::string only;
  bool quick = false;
  app.add_option("--only", only, "One part: stop, cost, parts or writers")
      ->check(CLI::IsMember({"stop", "cost", "parts", "writers"}));
  app.add_flag("--quick", quick, "Small and few saves: to see that it works");
  // Of the two workers, which this program starts.
  std::string worker_dir;
  int64_t megabytes = 0, saves = 0;
  bool in_parts = false;
  app.add_option("--worker_dir", worker_dir)->group("");
  app.add_option("--megabytes", megabytes)->group("");
  app.add_option("--saves", saves)->group("");
  app.add_flag("--in_parts,!--one_writer", in_parts)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    worker_dir.empty() ? bench::run(only, quick)
                       : bench::be_worker(worker_dir, megabytes, saves, in_parts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
