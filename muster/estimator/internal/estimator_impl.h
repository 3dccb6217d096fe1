// The parts of an Estimator, for the calls that are split over several sources. Thread safety: as
// Estimator; evaluate_on() is called by all replicas of a run together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/manager.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/internal/best_list.h"
#include "muster/files/file_systems.h"
#include "muster/summary/event_writer.h"
#include "muster/train/evaluator.h"
#include "muster/train/stop_request.h"
#include "muster/train/stop_signal.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {

// The callbacks of a driver while an Estimator trains; see TrainerOptions.
struct TrainCallbacks {
  std::function<void(int64_t global_step, const Saved&, distribute::Replica&)> after_save;
  std::function<void(int64_t global_step, bool trained, distribute::Replica&)> at_end;
  // Asked on the chief for evaluations that another task has made since it was asked last.
  std::function<std::vector<Evaluation>()> other_evaluations;
};

// Throws InvalidArgument, calling the name `field`, when no folder can have it.
void check_evaluation_name(const char* field, const std::string& name);

struct Estimator::Impl {
  using EvaluateFn = std::function<EvalResult(const EvaluateLoop&)>;

  ModelFn model_fn{};
  RunConfig config{};
  nlohmann::json params{};
  // Made when first needed.
  std::string model_dir{};
  std::optional<cluster::ResolvedCluster> cluster{};
  ModelRunners eval_runners{[this](Device device) {
    return std::make_unique<ModelRunner>(model_fn, Mode::kEval, seed(), params, device);
  }};
  std::map<std::string, std::unique_ptr<summary::EventWriter>> eval_writers{};
  // On the chief, from the begin of a training run on, and on an evaluator.
  std::optional<internal::BestList> best{};
  bool training = false;
  std::optional<TrainerOptions::EarlierCall> earlier_call{};  // of train()
  std::vector<Evaluation> evaluations{};  // while training, the evaluations that hooks have not
                                          // received yet
  // Values that are written with the metrics of an evaluation of that checkpoint; unset: none.
  std::function<std::vector<formats::SummaryValue>(const std::string& prefix)> more_values{};
  // Who may ask the call that is under way to stop.
  std::shared_ptr<StopRequest> stop{};
  // Makes `stop`, until it ends; a call inside of another one has that one's.
  class UnderWay {
   public:
    explicit UnderWay(Impl& impl) : impl_(impl), outermost_(impl.stop == nullptr) {
      if (outermost_) impl_.stop = std::make_shared<StopRequest>(impl_.config.cancelled);
    }
    ~UnderWay() {
      if (outermost_) impl_.stop.reset();
    }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    Impl& impl_;
    const bool outermost_;
  };
  // Whether `error` ended a wait or an evaluation because the program asked, and no signal.
  bool was_asked_to_stop(const Error& error) const;
  // Whether the program asks, or a signal.
  bool stops() const { return stop ? stop->asked_or_signalled() : stop_signal() != 0; }

  // Why the checkpoint that was requested last could not be read; nothing if it could.
  std::optional<Error> unreadable{};

  Clock& clock() const { return config.clock != nullptr ? *config.clock : system_clock(); }
  FileSystem& fs() const { return config.fs != nullptr ? *config.fs : file_systems(); }
  uint64_t seed() const { return config.random_seed.value_or(0); }
  distribute::StrategyPtr strategy() const;
  distribute::StrategyPtr eval_strategy() const;
  Environment environment() const {
    return config.environment ? *config.environment : Environment::process();
  }
  // Names this start of all tasks; empty if the environment does not.
  std::string run_id() const { return environment().get_or("MUSTER_RUN_ID", ""); }
  const cluster::ResolvedCluster& resolve();
  const cluster::ResolvedCluster& resolve_worker(const char* verb);
  distribute::StartOptions start_options(const cluster::ResolvedCluster& of,
                                         const char* call) const;
  const std::string& directory();
  CheckpointManager checkpoints() {
    return CheckpointManager(directory(), {.fs = config.fs, .clock = config.clock});
  }
  // The latest checkpoint. Throws NotFound when there is none.
  CheckpointManager::Loaded trained();
  // The error for a model_dir without a checkpoint.
  Error not_trained(const std::string& more = {});
  // The values that a runner gets; taken from the options of a call.
  struct Values {
    std::optional<std::string> checkpoint_path{};
    bool allow_untrained = false;
    bool use_ema = false;
    const Checkpoint* in_memory = nullptr;  // these and no others
  };
  template <typename Options>
  static Values values_of(const Options& options) {
    return {options.checkpoint_path, options.allow_untrained, options.use_ema};
  }
  // Values for a runner: from the path, else from the latest checkpoint, else, if allowed, none.
  // Returns the prefix they are from, because by now there may be a newer one.
  std::string load(ModelRunner& runner, const Values& values, const char* what);
  void write_metrics(const std::string& eval_dir, const EvalResult& result,
                     const std::string& checkpoint, std::vector<formats::SummaryValue> summaries);
  // Distinguishes the values of a checkpoint from all others; empty if its file cannot be read.
  std::string version_of(const std::string& prefix, bool use_ema) const;
  // The result of an evaluation.
  struct Evaluated {
    EvalResult result{};
    std::string checkpoint{};  // the prefix of the evaluated checkpoint; on the chief, empty
                               // without one
  };
  // Evaluates on the replicas of eval_strategy().
  Evaluated evaluate(const InputFn& input_fn, const EvaluateOptions& options);
  // `run` evaluates `values`; the chief reports the result.
  // `shared`: several replicas take part.
  Evaluated evaluate_by(const EvaluateFn& run, const InputFn& input_fn,
                        const EvaluateOptions& options, const Values& values, bool is_chief,
                        bool shared = false);
  // To the log and to TensorBoard.
  void report(const EvalResult& result, const std::string& name, const std::string& checkpoint,
              std::vector<formats::SummaryValue> summaries);
  std::string eval_dir(const std::string& name) {
    return join_path(directory(), name.empty() ? "eval" : "eval_" + name);
  }

  // train() that calls back after each save and at the end.
  TrainResult train(const InputFn& input_fn, const TrainOptions& options,
                    const TrainCallbacks& callbacks);
  // The same; throws Cancelled where a request of the program ended a wait.
  TrainResult train_to_end(const InputFn& input_fn, const TrainOptions& options,
                           const TrainCallbacks& callbacks);
  // Evaluates on the replicas of a training run, which make this call together.
  Evaluated evaluate_on(const InputFn& input_fn, const EvaluateOptions& options,
                        distribute::Replica& replica);
  // Reads which checkpoints are the best, if RunConfig wants to know.
  void read_best();
  // Which checkpoints are kept for being good, as RunConfig says.
  void keep_best(TrainerOptions& trainer, bool is_chief);
  // Progress lines and summaries.
  void add_report_hooks(TrainerOptions& trainer, bool is_chief);
};

namespace internal {

// Access to the parts of an Estimator, for the code that drives it.
struct EstimatorAccess {
  using Impl = Estimator::Impl;
  static Impl& impl(Estimator& estimator) { return *estimator.impl_; }
};

}  // namespace internal

// A batch of features by name, without labels.
Batch batch_of_features(const std::map<std::string, Tensor>& features);

}  // namespace muster::inline v0_1
