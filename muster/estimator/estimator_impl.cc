#include "muster/estimator/internal/estimator_impl.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/uri.h"
#include "muster/cluster/elastic.h"
#include "muster/distribute/elastic_run.h"
#include "muster/estimator/internal/evaluation_input.h"
#include "muster/estimator/run_end.h"
#include "muster/summary/tuning_report.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/optimizer_tensors.h"
#include "muster/train/progress_line.h"
#include "muster/train/report_hooks.h"
#include "muster/train/serve_parameters.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

using nlohmann::json;

namespace {

void check_train(const InputFn& input_fn, const TrainOptions& options) {
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
}

EndReason reason_of(const TrainResult& result, const TrainOptions& options) {
  if (options.max_steps && result.global_step >= *options.max_steps) return EndReason::kMaxSteps;
  if (options.steps && result.steps >= *options.steps) return EndReason::kSteps;
  return result.end_of_input ? EndReason::kEndOfInput : EndReason::kHook;
}

// The checkpoint that a caller has named.
Checkpoint load_named(const CheckpointManager& manager, const std::string& checkpoint_path) {
  try {
    return manager.load(checkpoint_path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    std::vector<std::string> names;
    for (const std::string& prefix : manager.all()) names.emplace_back(base_name(prefix));
    throw not_found("checkpoint_path: " + error.message(),
                    names.empty() ? "model_dir has no checkpoint either: train first"
                                  : "model_dir has " + join_quoted(names));
  }
}

// The parameters as TensorBoard's HParams page takes them: lists and objects as their JSON text.
std::map<std::string, formats::HParam> hparams_of(const json& params) {
  std::map<std::string, formats::HParam> hparams;
  for (const auto& [name, value] : params.items()) {
    if (value.is_null()) continue;
    if (value.is_boolean()) {
      hparams[name] = value.get<bool>();
    } else if (value.is_number()) {
      hparams[name] = value.get<double>();
    } else if (value.is_string()) {
      hparams[name] = value.get<std::string>();
    } else {
      hparams[name] = value.dump(-1, ' ', false, json::error_handler_t::replace);
    }
  }
  return hparams;
}

}  // namespace

void check_evaluation_name(const char* field, const std::string& name) {
  if (name.find('/') == std::string::npos) return;
  throw invalid_argument(fmt::format("{} is \"{}\"; it must hold no slash", field, name),
                         "events go to the folder eval_<name> of model_dir");
}

distribute::StrategyPtr Estimator::Impl::strategy() const {
  return config.train_distribute ? config.train_distribute : distribute::one_device();
}

distribute::StrategyPtr Estimator::Impl::eval_strategy() const {
  return config.eval_distribute ? config.eval_distribute
                                : distribute::one_device(strategy()->device().str());
}

const cluster::ResolvedCluster& Estimator::Impl::resolve() {
  if (!cluster) {
    cluster::ResolveOptions options{
        .worker_zero_may_be_chief = strategy()->multi_worker() || eval_strategy()->multi_worker(),
        .wants_servers = strategy()->needs_servers()};
    if (!config.model_dir.empty()) options.model_dir = config.model_dir;
    cluster = cluster::resolve_cluster(environment(), options);
    cluster::announce(*cluster);
  }
  return *cluster;
}

const cluster::ResolvedCluster& Estimator::Impl::resolve_worker(const char* verb) {
  const cluster::ResolvedCluster& resolved = resolve();
  distribute::check_worker(resolved, verb);
  return resolved;
}

distribute::StartOptions Estimator::Impl::start_options(const cluster::ResolvedCluster& of,
                                                        const char* call) const {
  return {.cluster = of,
          .seed = seed(),
          .call = call,
          .join_timeout = config.join_timeout.count(),
          .cancelled = [asked = stop] {
            return asked ? asked->asked_or_signalled() : stop_signal() != 0;
          }};
}

const std::string& Estimator::Impl::directory() {
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
  // In a store "run//eval" and "run/eval" are two places: what is made of it by adding "/eval" must
  // be one.
  if (is_remote(model_dir)) model_dir = without_trailing_slashes(model_dir);
  return model_dir;
}

Error Estimator::Impl::not_trained(const std::string& more) {
  const Result<bool> exists = fs().exists(directory());
  if (!exists.ok()) return exists.error();
  return not_found(fmt::format("could not find a trained model in model_dir: {} {}", directory(),
                               exists.value() ? "holds no checkpoint" : "does not exist"),
                   "check model_dir for a misspelling, or train() there first" + more);
}

CheckpointManager::Loaded Estimator::Impl::trained() {
  std::optional<CheckpointManager::Loaded> loaded = checkpoints().load_latest();
  if (!loaded) throw not_trained();
  return *std::move(loaded);
}

std::string Estimator::Impl::version_of(const std::string& prefix, bool use_ema) const {
  const std::string file = checkpoint_file(prefix);
  const Result<FileInfo> info = fs().info(file);
  if (!info.ok()) return "";
  return fmt::format("{}|{}|{}|{}", file, info.value().size, info.value().modified_seconds,
                     use_ema);
}

std::string Estimator::Impl::load(ModelRunner& runner, const Values& values, const char* what) {
  if (values.in_memory != nullptr) {
    runner.load(values.in_memory, "the weights in training");
    return "";
  }
  const CheckpointManager manager = checkpoints();
  const std::optional<std::string> newest =
      values.checkpoint_path ? values.checkpoint_path : manager.latest();
  // Of before the file is read: one that is replaced meanwhile is another one.
  const std::string version = newest ? version_of(*newest, values.use_ema) : "";
  if (runner.holds(version)) {
    log::debug(fmt::format("{} is loaded already: {} with these weights", *newest, what));
    return *newest;
  }
  const auto give = [&](Checkpoint checkpoint, const std::string& name) {
    if (values.use_ema) use_moving_averages(checkpoint, name);
    runner.load(&checkpoint, name, name == newest ? version : "");
    return name;
  };
  if (values.checkpoint_path) {
    unreadable.reset();
    try {
      return give(load_named(manager, *values.checkpoint_path), *values.checkpoint_path);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kCorrupt)
        unreadable = error;
      throw;
    }
  }
  if (auto loaded = manager.load_latest())
    return give(std::move(loaded->checkpoint), loaded->prefix);
  if (config.warm_start_from) {
    log::info(fmt::format("no checkpoint in {}: {} with the weights of {}", directory(), what,
                          config.warm_start_from->settings().ckpt_to_initialize_from));
    runner.warm_start(config.warm_start_from->settings(), fs());
    return "";
  }
  if (!values.allow_untrained)
    throw not_trained("; {.allow_untrained = true} takes freshly initialised variables");
  log::info(
      fmt::format("no checkpoint in {}: {} with freshly initialised variables", directory(), what));
  runner.load(nullptr, "");
  return "";
}

void Estimator::Impl::write_metrics(const std::string& eval_dir, const EvalResult& result,
                                    const std::string& checkpoint,
                                    std::vector<formats::SummaryValue> summaries) {
  auto& writer = eval_writers[eval_dir];
  if (!writer) writer = std::make_unique<summary::EventWriter>(eval_dir, fs(), clock());
  const auto step = static_cast<int64_t>(result.at("global_step"));
  std::vector<std::pair<std::string, double>> scalars;
  for (const auto& [name, value] : result) {
    if (name != "global_step") scalars.emplace_back(name, value);
  }
  writer->add_scalars(scalars, step);
  summary::report_to_tuner(environment(), clock(), std::string(base_name(eval_dir)), scalars, step);
  std::erase_if(summaries,
                [&](const formats::SummaryValue& value) { return result.contains(value.tag); });
  writer->add_values(std::move(summaries), step);
  if (!checkpoint.empty()) writer->add_text("checkpoint_path", checkpoint, step);
  writer->flush();
}

Estimator::Impl::Evaluated Estimator::Impl::evaluate(const InputFn& input_fn,
                                                     const EvaluateOptions& options) {
  const UnderWay here(*this);
  distribute::StrategyPtr strategy = eval_strategy();
  // An evaluator is not part of the cluster, and takes part in no meeting.
  if (strategy->multi_worker() && resolve().is_evaluator)
    strategy = distribute::one_device(this->strategy()->device().str());
  // A strategy of one process evaluates here, whatever cluster this is a task of.
  const bool alone = !strategy->multi_worker();
  const cluster::ResolvedCluster of =
      alone ? cluster::ResolvedCluster() : resolve_worker("evaluate");
  set_threads(0);
  return evaluate_by(
      [&](const EvaluateLoop& loop) {
        return muster::evaluate(eval_runners, *strategy, start_options(of, "Estimator::evaluate()"),
                                loop);
      },
      input_fn, options, values_of(options), of.is_chief);
}

Estimator::Impl::Evaluated Estimator::Impl::evaluate_by(const EvaluateFn& run,
                                                        const InputFn& input_fn,
                                                        const EvaluateOptions& options,
                                                        const Values& values, bool is_chief,
                                                        bool shared) {
  check_hooks(options.hooks, "EvaluateOptions.hooks");
  if (!input_fn) throw invalid_argument("evaluate needs an input function");
  check_evaluation_name("EvaluateOptions.name", options.name);
  if (options.steps && *options.steps <= 0) {
    throw invalid_argument(
        fmt::format("evaluate got steps = {}; it must be more than 0", *options.steps),
        "leave it unset to evaluate all of the data");
  }
  // Replicas that share an evaluation would have to agree: theirs goes to its end.
  const auto stop_of_evaluation = shared ? nullptr : stop;
  Evaluated evaluated;
  EvaluateLoop loop{
      .input_fn = input_fn,
      .steps = options.steps,
      .seed = seed(),
      .load =
          [&](ModelRunner& runner) { evaluated.checkpoint = load(runner, values, "evaluating"); },
      .interrupted =
          [asked = stop_of_evaluation] {
            return asked ? asked->asked_or_signalled() : stop_signal() != 0;
          },
      .hooks = options.hooks,
      .model_dir = directory(),
      .name = options.name};
  std::vector<formats::SummaryValue> summaries;
  if (config.save_summary_steps > 0) {
    loop.summarize = [&](std::vector<formats::SummaryValue> values) {
      summaries = std::move(values);
    };
  }
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
  evaluated.result = run(loop);
  log::status("");
  if (is_chief) report(evaluated.result, options.name, evaluated.checkpoint, std::move(summaries));
  return evaluated;
}

void Estimator::Impl::report(const EvalResult& result, const std::string& name,
                             const std::string& checkpoint,
                             std::vector<formats::SummaryValue> summaries) {
  std::string text;
  json fields = json::object();
  for (const auto& [metric, value] : result) {
    if (metric == "global_step") continue;
    text += fmt::format("  {} {}", metric, value_text(value));
    fields[metric] = value;
  }
  const auto step = static_cast<int64_t>(result.at("global_step"));
  fields = {{"global_step", step}, {"name", name}, {"metrics", fields}};
  log::event(
      "evaluated", fields,
      fmt::format("evaluated step {}{}:{}", step, name.empty() ? "" : " (" + name + ")", text));
  // Workers that each evaluate for themselves would write the same points.
  const cluster::ResolvedCluster& task = resolve();
  if (task.is_chief || task.is_evaluator) {
    if (more_values) {
      for (formats::SummaryValue& value : more_values(checkpoint))
        summaries.push_back(std::move(value));
    }
    write_metrics(eval_dir(name), result, checkpoint, std::move(summaries));
  }
  if (training) evaluations.push_back({step, name, result});
}

bool Estimator::Impl::was_asked_to_stop(const Error& error) const {
  return error.kind() == ErrorKind::kCancelled && stop_signal() == 0 && stop && stop->asked();
}

TrainResult Estimator::Impl::train(const InputFn& input_fn, const TrainOptions& options,
                                   const TrainCallbacks& callbacks) {
  const UnderWay under_way(*this);
  try {
    return train_to_end(input_fn, options, callbacks);
  } catch (const Error& error) {
    if (!was_asked_to_stop(error)) throw;
    log::info(fmt::format("stopped by its program: {}", error.message()));
    const std::optional<std::string> newest = checkpoints().latest();
    return {.global_step = newest ? checkpoint_step(*newest) : 0, .stopped = true};
  }
}

TrainResult Estimator::Impl::train_to_end(const InputFn& input_fn, const TrainOptions& options,
                                          const TrainCallbacks& callbacks) {
  check_train(input_fn, options);
  check_hooks(options.hooks, "TrainOptions.hooks");
  const bool serves = resolve().task.type == "ps";
  const cluster::ResolvedCluster& task = serves ? resolve() : resolve_worker("train");
  set_threads(0);
  TrainerOptions trainer;
  trainer.model_dir = directory();
  trainer.strategy = strategy();
  trainer.start = start_options(task, "Estimator::train()");
  trainer.start.model_dir = directory();
  trainer.start.fs = config.fs;
  trainer.start.elastic = distribute::ElasticRun::of(
      task, *strategy(),
      config.min_workers > 0 ? config.min_workers
                             : cluster::min_workers(environment(), task.source));
  trainer.asked_to_end = [asked = stop] { return asked->asked(); };
  // A request of the program ends the waits before the first step. Later all replicas learn of it
  // in a step: one that left a wait by itself would leave the others there.
  const auto joined = std::make_shared<std::atomic<bool>>(false);
  trainer.start.cancelled = [asked = stop, joined] {
    return stop_signal() != 0 || (!*joined && asked->asked());
  };
  trainer.params = &params;
  if (serves) {
    serve_parameters(model_fn, trainer);
    return {};
  }
  trainer.steps = options.steps;
  trainer.max_steps = options.max_steps;
  trainer.restart_input = config.restart_input;
  trainer.earlier_call = earlier_call;
  trainer.accumulate_steps = config.accumulate_steps;
  if (config.warm_start_from) trainer.warm_start_from = config.warm_start_from->settings();
  if (config.save_checkpoints_steps) {
    if (*config.save_checkpoints_steps > 0)
      trainer.save_checkpoints_steps = config.save_checkpoints_steps;
  } else if (config.save_checkpoints_secs != Seconds(0)) {
    trainer.save_checkpoints_secs = config.save_checkpoints_secs.value_or(Seconds(600)).count();
  }
  trainer.keep_checkpoint_max = config.keep_checkpoint_max;
  trainer.keep_checkpoint_every_n_hours =
      config.keep_checkpoint_every_n_hours / std::chrono::hours(1);
  trainer.max_failed_saves = config.max_failed_saves;
  trainer.asynchronous_saves = config.asynchronous_saves;
  trainer.hooks = options.hooks;
  trainer.non_finite = config.non_finite;
  trainer.non_finite_limit = config.non_finite_limit;
  trainer.metrics_every_steps = config.log_step_count_steps;
  trainer.summary_every_steps = config.save_summary_steps;
  trainer.trace = config.trace;
  trainer.audit = config.audit;
  trainer.watchdog_seconds = config.watchdog.count();
  trainer.fs = config.fs;
  trainer.clock = config.clock;
  trainer.after_save = callbacks.after_save;
  trainer.at_end = callbacks.at_end;
  trainer.take_evaluations = [this, others = callbacks.other_evaluations] {
    std::vector<Evaluation> news = std::exchange(evaluations, {});
    if (!others) return news;
    for (Evaluation& each : others()) news.push_back(std::move(each));
    return news;
  };
  keep_best(trainer, task.is_chief);
  add_report_hooks(trainer, task.is_chief);
  struct WhileTraining {
    explicit WhileTraining(Impl& impl) : impl(impl) { impl.training = true; }
    ~WhileTraining() {
      impl.training = false;
      impl.evaluations.clear();
    }
    Impl& impl;
  } here(*this);
  // model_dir says how the last run ended, and nothing while one goes on.
  const bool marks =
      task.is_chief && (trainer.save_checkpoints_steps || trainer.save_checkpoints_secs);
  if (marks) remove_run_end(directory(), fs());
  const TrainResult result = muster::train(
      model_fn, internal::preceded_by(input_fn, [joined] { *joined = true; }), trainer);
  earlier_call = {result.global_step, result.end_of_input};
  if (marks) {
    write_run_end(directory(), {reason_of(result, options), result.global_step, run_id()}, fs());
  }
  return result;
}

void Estimator::Impl::read_best() {
  best.reset();
  if (config.keep_best) best.emplace(directory(), *config.keep_best, fs());
}

void Estimator::Impl::keep_best(TrainerOptions& trainer, bool is_chief) {
  best.reset();
  if (!config.keep_best || !is_chief) return;
  read_best();
  trainer.keep_checkpoint = [this](const std::string& prefix) { return best->holds(prefix); };
}

void Estimator::Impl::add_report_hooks(TrainerOptions& trainer, bool is_chief) {
  const bool live = config.progress_line && log::shows_status();
  if (is_chief) {
    trainer.chief_hooks.push_back(std::make_shared<ProgressHook>(
        ProgressOptions{.every_steps = config.log_step_count_steps, .live = live}, clock()));
    trainer.chief_hooks.push_back(std::make_shared<SummaryHook>(
        std::make_shared<summary::EventWriter>(directory(), fs(), clock()),
        config.save_summary_steps, config.log_step_count_steps, clock(), hparams_of(params)));
  } else {
    trainer.hooks.push_back(std::make_shared<WorkerStatusHook>(clock(), live));
  }
}

Estimator::Impl::Evaluated Estimator::Impl::evaluate_on(const InputFn& input_fn,
                                                        const EvaluateOptions& options,
                                                        distribute::Replica& replica) {
  return evaluate_by(
      [&](const EvaluateLoop& loop) {
        ModelRunner& runner =
            eval_runners.get(static_cast<size_t>(replica.place().local), replica.device());
        return muster::evaluate(runner, replica, loop);
      },
      input_fn, options, values_of(options), replica.is_chief(),
      replica.num_replicas_in_sync() > 1);
}

}  // namespace muster::inline v0_1
