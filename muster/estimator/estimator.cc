#include "muster/estimator/estimator.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/manager.h"
#include "muster/summary/event_writer.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/report_hooks.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

using nlohmann::json;

struct Estimator::Impl {
  ModelFn model_fn;
  RunConfig config;
  json params;
  // Made when first needed.
  std::string model_dir;
  std::optional<cluster::ResolvedCluster> cluster;
  ModelRunners eval_runners{[this](Device device) {
    return std::make_unique<ModelRunner>(model_fn, Mode::kEval, seed(), params, device);
  }};
  std::map<std::string, std::unique_ptr<summary::EventWriter>> eval_writers;

  Clock& clock() const { return config.clock != nullptr ? *config.clock : system_clock(); }
  FileSystem& fs() const { return config.fs != nullptr ? *config.fs : local_file_system(); }
  uint64_t seed() const { return config.random_seed.value_or(0); }
  distribute::StrategyPtr strategy() const {
    return config.train_distribute ? config.train_distribute : distribute::one_device();
  }
  distribute::StrategyPtr eval_strategy() const {
    return config.eval_distribute ? config.eval_distribute
                                  : distribute::one_device(strategy()->device().str());
  }

  const cluster::ResolvedCluster& resolve() {
    if (!cluster) {
      const Environment environment =
          config.environment ? *config.environment : Environment::process();
      cluster::ResolveOptions options{.worker_zero_may_be_chief = strategy()->multi_worker() ||
                                                                  eval_strategy()->multi_worker()};
      if (!config.model_dir.empty()) options.model_dir = config.model_dir;
      cluster = cluster::resolve_cluster(environment, options);
      for (const std::string& note : cluster->notes) log::warning(note);
    }
    return *cluster;
  }

  const cluster::ResolvedCluster& resolve_worker(const char* verb) {
    const cluster::ResolvedCluster& resolved = resolve();
    distribute::check_worker(resolved, verb);
    return resolved;
  }

  distribute::StartOptions start_options(const cluster::ResolvedCluster& of) const {
    return {.cluster = of,
            .seed = seed(),
            .join_timeout = config.session_creation_timeout_secs,
            .cancelled = [] { return stop_signal() != 0; }};
  }

  const std::string& directory() {
    if (!model_dir.empty()) return model_dir;
    const auto& from_environment = resolve().model_dir;
    if (!config.model_dir.empty()) {
      model_dir = config.model_dir;
    } else if (from_environment && !from_environment->empty()) {
      model_dir = *from_environment;
    } else {
      const char* base = std::getenv("TMPDIR");
      std::string made =
          std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/muster-XXXXXX";
      if (mkdtemp(made.data()) == nullptr)
        throw from_errno(errno, "cannot make a temporary model_dir at " + made);
      log::warning("no model_dir was given: using the temporary directory " + made);
      model_dir = made;
    }
    return model_dir;
  }

  CheckpointManager checkpoints() {
    return CheckpointManager(directory(), {.fs = config.fs, .clock = config.clock});
  }

  // Values for a runner: those of `path`, else of the latest checkpoint, else none. Returns the
  // prefix they are from, for by now there may be a newer one.
  std::string load(ModelRunner& runner, const std::optional<std::string>& path, const char* what) {
    const CheckpointManager manager(directory(), {.fs = config.fs, .clock = config.clock});
    if (path) {
      const Checkpoint checkpoint = manager.load(*path);
      runner.load(&checkpoint, *path);
      return *path;
    }
    if (const auto loaded = manager.load_latest()) {
      runner.load(&loaded->checkpoint, loaded->prefix);
      return loaded->prefix;
    }
    log::info(fmt::format("there is no checkpoint in {}: {} with freshly initialised variables",
                          directory(), what));
    runner.load(nullptr, "");
    return "";
  }

  void write_metrics(const std::string& eval_dir, const EvalResult& result,
                     const std::string& checkpoint) {
    auto& writer = eval_writers[eval_dir];
    if (!writer) writer = std::make_unique<summary::EventWriter>(eval_dir, fs(), clock());
    const auto step = static_cast<int64_t>(result.at("global_step"));
    std::vector<std::pair<std::string, double>> scalars;
    for (const auto& [name, value] : result) {
      if (name != "global_step") scalars.emplace_back(name, value);
    }
    writer->add_scalars(scalars, step);
    if (!checkpoint.empty()) writer->add_text("checkpoint_path", checkpoint, step);
    writer->flush();
  }

  // `run` evaluates; the chief tells what came of it.
  EvalResult evaluate(const InputFn& input_fn, const EvaluateOptions& options, bool is_chief,
                      const std::function<EvalResult(const EvaluateLoop&)>& run) {
    if (!input_fn) throw invalid_argument("evaluate needs an input function");
    if (options.steps && *options.steps <= 0) {
      throw invalid_argument(
          fmt::format("evaluate got steps = {}; it must be more than 0", *options.steps),
          "leave it unset to evaluate all of the data");
    }
    std::string checkpoint;
    EvaluateLoop loop{.input_fn = input_fn,
                      .steps = options.steps,
                      .seed = seed(),
                      .load =
                          [&](ModelRunner& runner) {
                            checkpoint = load(runner, options.checkpoint_path, "evaluating");
                          },
                      .interrupted = [] { return stop_signal() != 0; }};
    TimePoint shown = clock().now();
    if (config.progress_line && log::shows_status()) {
      loop.after_batch = [&](int64_t batch) {
        const TimePoint now = clock().now();
        if (to_seconds(now - shown) < 0.2) return;
        log::status(fmt::format("evaluating: batch {}{}", batch,
                                options.steps ? fmt::format("/{}", *options.steps) : ""));
        shown = now;
      };
    }
    const EvalResult result = run(loop);
    log::status("");
    if (is_chief) report(result, options.name, checkpoint);
    return result;
  }

  // To the log and to TensorBoard.
  void report(const EvalResult& result, const std::string& name, const std::string& checkpoint) {
    std::string text;
    json fields = json::object();
    for (const auto& [metric, value] : result) {
      if (metric == "global_step") continue;
      text += fmt::format("  {} {:.4f}", metric, value);
      fields[metric] = value;
    }
    const auto step = static_cast<int64_t>(result.at("global_step"));
    fields = {{"global_step", step}, {"name", name}, {"metrics", fields}};
    log::event(
        "evaluated", fields,
        fmt::format("evaluated step {}{}:{}", step, name.empty() ? "" : " (" + name + ")", text));
    write_metrics(eval_dir(name), result, checkpoint);
  }

  std::string eval_dir(const std::string& name) {
    return join_path(directory(), name.empty() ? "eval" : "eval_" + name);
  }
};

Estimator::Estimator(ModelFn model_fn, RunConfig config)
    : Estimator(std::move(model_fn), std::move(config), json::object()) {}

Estimator::Estimator(ModelFn model_fn, RunConfig config, const json& params)
    : impl_(std::make_unique<Impl>()) {
  if (!model_fn) throw invalid_argument("an Estimator needs a model function");
  if (!params.is_object()) {
    throw invalid_argument("params must be a JSON object, not " + params.dump());
  }
  config.validate();
  impl_->model_fn = std::move(model_fn);
  impl_->config = std::move(config);
  impl_->params = params;
}

Estimator::~Estimator() = default;
Estimator::Estimator(Estimator&&) noexcept = default;

const RunConfig& Estimator::config() const { return impl_->config; }
const json& Estimator::params() const { return impl_->params; }
const std::string& Estimator::model_dir() const { return impl_->directory(); }
const cluster::ResolvedCluster& Estimator::cluster() const { return impl_->resolve(); }
std::string Estimator::eval_dir(const std::string& name) const { return impl_->eval_dir(name); }

std::optional<std::string> Estimator::latest_checkpoint() const {
  return impl_->checkpoints().latest();
}

std::vector<std::string> Estimator::get_variable_names() const {
  const auto loaded = impl_->checkpoints().load_latest();
  if (!loaded)
    throw not_found("the model in " + model_dir() + " was not trained: there is no checkpoint");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : loaded->checkpoint.tensors) names.push_back(name);
  return names;
}

Tensor Estimator::get_variable_value(const std::string& name) const {
  const auto loaded = impl_->checkpoints().load_latest();
  if (!loaded)
    throw not_found("the model in " + model_dir() + " was not trained: there is no checkpoint");
  const auto found = loaded->checkpoint.tensors.find(name);
  if (found == loaded->checkpoint.tensors.end()) {
    throw not_found(fmt::format("{} holds no variable \"{}\"", loaded->prefix, name),
                    "get_variable_names() lists those there are");
  }
  return found->second;
}

TrainResult Estimator::train(const InputFn& input_fn, const TrainOptions& options) {
  return train(input_fn, options, {});
}

TrainResult Estimator::train(const InputFn& input_fn, const TrainOptions& options,
                             const Listener& listener) {
  if (!input_fn) throw invalid_argument("train needs an input function");
  if (options.steps && options.max_steps) {
    throw invalid_argument(
        fmt::format("train got both steps ({}) and max_steps ({})", *options.steps,
                    *options.max_steps),
        "steps counts from the latest checkpoint, max_steps is the step to end at: give one");
  }
  for (const auto& [name, value] :
       {std::pair{"steps", options.steps}, std::pair{"max_steps", options.max_steps}}) {
    if (value && *value <= 0) {
      throw invalid_argument(
          fmt::format("train got {} = {}; it must be more than 0", name, *value));
    }
  }
  const cluster::ResolvedCluster& cluster = impl_->resolve_worker("train");
  set_threads(0);
  const RunConfig& config = impl_->config;
  TrainerOptions trainer;
  trainer.model_dir = impl_->directory();
  trainer.strategy = impl_->strategy();
  trainer.start = impl_->start_options(cluster);
  trainer.params = &impl_->params;
  trainer.steps = options.steps;
  trainer.max_steps = options.max_steps;
  trainer.accumulate_steps = config.accumulate_steps;
  if (config.save_checkpoints_steps) {
    if (*config.save_checkpoints_steps > 0)
      trainer.save_checkpoints_steps = config.save_checkpoints_steps;
  } else if (config.save_checkpoints_secs.value_or(600) > 0) {
    trainer.save_checkpoints_secs = config.save_checkpoints_secs.value_or(600);
  }
  trainer.keep_checkpoint_max = config.keep_checkpoint_max;
  trainer.keep_checkpoint_every_n_hours = config.keep_checkpoint_every_n_hours;
  trainer.hooks = options.hooks;
  trainer.metrics_every_steps = config.log_step_count_steps;
  trainer.trace = config.trace;
  trainer.fs = config.fs;
  trainer.clock = config.clock;
  trainer.after_save = listener.after_save;
  trainer.at_end = listener.at_end;
  const bool live = config.progress_line && log::shows_status();
  if (cluster.is_chief) {
    trainer.chief_hooks.push_back(std::make_shared<ProgressHook>(
        ProgressOptions{.every_steps = config.log_step_count_steps, .live = live}, impl_->clock()));
    trainer.chief_hooks.push_back(std::make_shared<SummaryHook>(
        std::make_shared<summary::EventWriter>(impl_->directory(), impl_->fs(), impl_->clock()),
        config.save_summary_steps, config.log_step_count_steps, impl_->clock()));
  } else if (live) {
    trainer.hooks.push_back(std::make_shared<WorkerStatusHook>(impl_->clock()));
  }
  return muster::train(impl_->model_fn, input_fn, trainer);
}

EvalResult Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options) {
  const distribute::StrategyPtr strategy = impl_->eval_strategy();
  // A strategy of one process evaluates here, whatever cluster this is a task of.
  const bool alone = !strategy->multi_worker();
  const cluster::ResolvedCluster cluster =
      alone ? cluster::ResolvedCluster() : impl_->resolve_worker("evaluate");
  set_threads(0);
  return impl_->evaluate(input_fn, options, cluster.is_chief, [&](const EvaluateLoop& loop) {
    return muster::evaluate(impl_->eval_runners, *strategy, impl_->start_options(cluster), loop);
  });
}

EvalResult Estimator::evaluate(const InputFn& input_fn, const EvaluateOptions& options,
                               distribute::Replica& replica) {
  return impl_->evaluate(input_fn, options, replica.is_chief(), [&](const EvaluateLoop& loop) {
    ModelRunner& runner =
        impl_->eval_runners.get(static_cast<size_t>(replica.place().local), replica.device());
    return muster::evaluate(runner, replica, loop);
  });
}

struct Predictions::Impl {
  explicit Impl(std::unique_ptr<ModelRunner> model)
      : runner(std::move(model)), copy(runner->device()) {}

  const std::unique_ptr<ModelRunner> runner;
  const DeviceCopier copy;
  std::function<std::unique_ptr<Iterator>()> open;  // at the first call
  std::unique_ptr<Iterator> iterator;
  PredictOptions options;
  Prediction batch;
  int64_t batches = 0;
  int64_t row = 0;
  int64_t rows = 0;

  bool next_batch() {
    Element element;
    if (!iterator) iterator = open();
    if (!iterator->next(&element)) return false;
    const DeviceScope here(runner->device());
    const Batch input = to_batch(copy(element));
    EstimatorSpec spec = runner->run({input.features, Labels()}, batches++);
    batch.clear();
    for (auto& [name, tensor] : spec.predictions) {
      if (!options.predict_keys.empty() &&
          std::find(options.predict_keys.begin(), options.predict_keys.end(), name) ==
              options.predict_keys.end()) {
        continue;
      }
      batch[name] = tensor.cpu();
    }
    if (batch.empty()) {
      std::string known;
      for (const auto& [name, tensor] : spec.predictions)
        known += (known.empty() ? "" : ", ") + name;
      throw invalid_argument(
          fmt::format("none of the predict_keys ({}) is a prediction of this model",
                      muster::join(options.predict_keys, ", ")),
          "it gives: " + known);
    }
    rows = batch.begin()->second.size(0);
    row = 0;
    for (const auto& [name, tensor] : batch) {
      if (options.yield_single_examples && tensor.size(0) != rows) {
        rows = 0;
        throw invalid_argument(
            fmt::format("the predictions \"{}\" ({}) and \"{}\" ({}) have different batch sizes",
                        batch.begin()->first, describe(batch.begin()->second), name,
                        describe(tensor)),
            "set yield_single_examples = false to get whole batches");
      }
    }
    return true;
  }
};

Predictions::Predictions(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Predictions::~Predictions() = default;
Predictions::Predictions(Predictions&&) noexcept = default;

bool Predictions::next(Prediction* out) {
  if (!impl_->options.yield_single_examples) {
    if (!impl_->next_batch()) return false;
    *out = impl_->batch;
    return true;
  }
  while (impl_->row == impl_->rows) {
    if (!impl_->next_batch()) return false;
  }
  out->clear();
  for (const auto& [name, tensor] : impl_->batch) (*out)[name] = tensor[impl_->row];
  ++impl_->row;
  return true;
}

Predictions Estimator::predict(const InputFn& input_fn, const PredictOptions& options) {
  if (!input_fn) throw invalid_argument("predict needs an input function");
  set_threads(0);
  auto impl = std::make_unique<Predictions::Impl>(
      std::make_unique<ModelRunner>(impl_->model_fn, Mode::kPredict, impl_->seed(), impl_->params,
                                    impl_->eval_strategy()->device()));
  impl->options = options;
  Predictions::Impl* state = impl.get();
  // Not `this`: an Estimator may be moved.
  impl->open = [estimator = impl_.get(), input_fn, state] {
    estimator->load(*state->runner, state->options.checkpoint_path, "predicting");
    return input_fn(InputContext{}).iterator({.seed = estimator->seed()});
  };
  return Predictions(std::move(impl));
}

}  // namespace muster::inline v0_1
