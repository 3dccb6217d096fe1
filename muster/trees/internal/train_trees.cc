#include "muster/trees/internal/train_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/float_fit.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/replica_input.h"
#include "muster/distribute/replica_threads.h"
#include "muster/files/file_systems.h"
#include "muster/plan/activity.h"
#include "muster/summary/event_writer.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/engine.h"
#include "muster/train/pace.h"
#include "muster/train/run_driver.h"
#include "muster/train/run_saves.h"
#include "muster/train/save_together.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1::trees {
namespace {

using distribute::Phase;
using distribute::Replica;
using distribute::StepResult;

// The chief's text, on all replicas.
std::string share_text(distribute::Exchange& exchange, const std::string& text) {
  Tensor size = torch::full({1}, static_cast<int64_t>(text.size()), kInt64);
  exchange.broadcast({size});
  Tensor bytes = torch::zeros({std::max<int64_t>(1, size.item<int64_t>())}, kUInt8);
  std::copy_n(text.begin(), std::min<size_t>(text.size(), static_cast<size_t>(bytes.numel())),
              bytes.data_ptr<uint8_t>());
  exchange.broadcast({bytes});
  const auto* data = bytes.data_ptr<uint8_t>();
  return std::string(data, data + size.item<int64_t>());
}

// The chief's checkpoint, on all replicas: its form as text, then its tensors.
Checkpoint share(const Replica& replica, const Checkpoint& mine) {
  nlohmann::json form{{"notes", mine.notes}, {"tensors", nlohmann::json::array()}};
  for (const auto& [name, tensor] : mine.tensors) {
    form["tensors"].push_back({name, static_cast<int>(tensor.scalar_type()), tensor.numel()});
  }
  const nlohmann::json said = nlohmann::json::parse(share_text(replica.exchange(), form.dump()));
  Checkpoint all{.global_step = mine.global_step};
  all.notes = said.at("notes").get<std::map<std::string, std::string>>();
  for (const auto& entry : said.at("tensors")) {
    const auto name = entry.at(0).get<std::string>();
    Tensor tensor = replica.is_chief() ? mine.tensors.at(name).contiguous()
                                       : torch::empty({entry.at(2).get<int64_t>()},
                                                      static_cast<DType>(entry.at(1).get<int>()));
    if (tensor.numel() > 0) replica.exchange().broadcast({tensor});
    all.tensors[name] = tensor;
  }
  return all;
}

CheckpointManagerOptions checkpoints_of(const RunConfig& config) {
  return {.fs = config.fs,
          .clock = config.clock,
          .keep_checkpoint_max = config.keep_checkpoint_max,
          .keep_checkpoint_every_n_hours =
              config.keep_checkpoint_every_n_hours / std::chrono::hours(1)};
}

RunSavesOptions saves_of(const TrainTreesOptions& options) {
  const RunConfig& config = *options.config;
  RunSavesOptions saves{.model_dir = options.model_dir,
                        .manager = checkpoints_of(config),
                        .max_failed_saves = config.max_failed_saves,
                        .asynchronous = config.asynchronous_saves,
                        .cancelled = options.cancelled};
  if (config.save_checkpoints_steps) {
    if (*config.save_checkpoints_steps > 0) saves.every_steps = config.save_checkpoints_steps;
  } else if (config.save_checkpoints_secs != Seconds(0)) {
    saves.every_seconds = config.save_checkpoints_secs.value_or(Seconds(600)).count();
  }
  return saves;
}

// The run of an estimator of trees: a step looks at a layer of a tree, and all rows are a batch.
class TrainTrees final : public RunCourse {
 public:
  TrainTrees(const TrainTreesOptions& options, Replica& replica, TaskWatch& watch)
      : options_(options),
        config_(*options.config),
        replica_(replica),
        watch_(watch),
        clock_(config_.clock != nullptr ? *config_.clock : system_clock()),
        engine_(replica, /*accumulate_steps=*/1),
        pace_(Pace::of(replica)),
        saves_(saves_of(options), replica, *pace_, clock_, engine_.step()),
        driver_(engine_, *pace_, saves_, *this, clock_) {}

  int64_t step() const { return engine_.step(); }

  TrainResult operator()(const InputFn& input_fn) {
    if (!replica_.device().is_cpu()) {
      throw invalid_argument("not supported: boosted trees on " + replica_.device().str(),
                             "train them on the CPU: mirrored({.replicas = n}) or "
                             "multi_worker_mirrored(), without devices");
    }
    distribute::check_in_step(replica_, "boosted trees");
    replica_.group().report(Phase::kBuilding, 0);
    distribute::check_same(replica_.group(), replica_.place(), settings());
    open_model_dir();
    Ensemble ensemble = restore();
    const int64_t start_step = step();
    last_step_ = options_.max_steps;
    if (options_.steps) last_step_ = start_step + *options_.steps;
    if (done(ensemble)) {
      if (speaks_here()) {
        log::info(
            fmt::format("the checkpoint is at step {} and has {} of {} trees: nothing to train",
                        start_step, ensemble.rounds(), options_.n_trees));
      }
      engine_.finish();
      return {.global_step = start_step};
    }
    plan::this_activity().enter(plan::Activity::kInput);
    Rows rows = read(input_fn);
    plan::this_activity().enter(plan::Activity::kStarting);
    distribute::check_same(replica_, {{"the columns", join_quoted(rows.features, 1000)}});
    narrow(&rows);
    Boosting boosting = begin(std::move(rows), std::move(ensemble));
    boosting_ = &boosting;
    replica_.group().report(Phase::kTraining, start_step);
    begun_ = clock_.now();
    told_ = start_step;
    driver_.run(
        {.last_step = last_step_.value_or(-1), .continues = restored_, .saves_first = false});
    engine_.finish();
    return {.global_step = step(), .steps = step() - start_step};
  }

 private:
  bool speaks_here() const { return replica_.place().local == 0; }

  distribute::Settings settings() const {
    const GrowOptions& grow = options_.grow;
    const auto text = [](const auto& value) { return fmt::format("{}", value); };
    return {{"objective", std::string(loss_name(options_.form.loss))},
            {"n_classes", text(options_.form.n_classes)},
            {"label_vocabulary", join_quoted(options_.form.label_vocabulary)},
            {"random_seed", text(config_.random_seed.value_or(0))},
            {"n_trees", text(options_.n_trees)},
            {"max_depth", text(grow.max_depth)},
            {"learning_rate", text(grow.learning_rate)},
            {"l1_regularization", text(grow.regularization.l1)},
            {"l2_regularization", text(grow.regularization.l2)},
            {"tree_complexity", text(grow.tree_complexity)},
            {"min_node_weight", text(grow.regularization.min_node_weight)},
            {"pruning_mode", text(static_cast<int>(grow.pruning_mode))},
            {"center_bias", text(options_.center_bias)},
            {"weight_column", options_.form.weight_column.key()},
            {"feature_names", join_quoted(options_.form.feature_names)},
            {"categorical_features", join_quoted(options_.categorical_features)},
            {"steps", text(options_.steps.value_or(-1))},
            {"max_steps", text(options_.max_steps.value_or(-1))},
            {"save_checkpoints_steps", text(config_.save_checkpoints_steps.value_or(-1))},
            {"asynchronous_saves", config_.asynchronous_saves ? "set" : "unset"},
            {"save_checkpoints_secs",
             text(config_.save_checkpoints_secs.value_or(Seconds(600)).count())},
            {"log_step_count_steps", text(config_.log_step_count_steps)}};
  }

  void open_model_dir() {
    saves_.open();
    if (replica_.is_chief() && config_.save_summary_steps > 0) {
      events_ = std::make_unique<summary::EventWriter>(
          options_.model_dir, config_.fs != nullptr ? *config_.fs : file_systems(), clock_);
    }
  }

  // The trees there are, on all replicas.
  Ensemble restore() {
    std::optional<CheckpointManager::Loaded> found;
    if (replica_.is_chief()) found = saves_.checkpoints().load_latest();
    const std::string where = share_text(replica_.exchange(), found ? found->prefix : "");
    const int64_t outputs = outputs_of(options_.form);
    if (where.empty()) {
      return {.objective = std::string(loss_name(options_.form.loss)),
              .outputs = outputs,
              .bias = std::vector<double>(size_t(outputs))};
    }
    Tensor at = torch::full({1}, found ? found->checkpoint.global_step : 0, kInt64);
    replica_.exchange().broadcast({at});
    engine_.follow(at.item<int64_t>());
    restored_ = true;
    Ensemble ensemble =
        Ensemble::from_checkpoint(share(replica_, found ? found->checkpoint : Checkpoint()), where);
    check_trees(ensemble, options_.form, where);
    if (speaks_here()) {
      log::info(fmt::format("continuing from {}: {} of {} trees", where, ensemble.rounds(),
                            options_.n_trees));
    }
    return ensemble;
  }

  bool done(const Ensemble& ensemble) const {
    return ensemble.rounds() >= options_.n_trees || (last_step_ && step() >= *last_step_);
  }

  // This replica's part of the data; columns of integers and doubles are in double.
  Rows read(const InputFn& input_fn) {
    const Dataset dataset = input_fn(replica_.input_context());
    if (dataset.cardinality() == kInfinite) {
      throw invalid_argument("the input never ends: " + dataset.describe(),
                             "boosted trees read the data once; leave repeat() out");
    }
    distribute::ReplicaInput input(replica_, dataset, input_fn.shards_itself());
    if (!input.agree_on_form()) {
      throw invalid_argument("the input function gave no data: " + dataset.describe(),
                             "check the data directory and the transformations");
    }
    const InputForm& form = options_.form;
    Rows rows;
    rows.features = columns_of(to_batch(input.batches().peek()).features, form);
    rows.columns.resize(rows.features.size());
    rows.doubles.resize(rows.features.size());
    // Until all are read, columns that may need it are kept in double.
    rows.in_double =
        may_be_in_double(to_batch(input.batches().peek()).features, rows.features, form);
    int64_t seen = 0;
    while (const auto element = input.batches().next()) {
      const Batch batch = to_batch(*element);
      refuse_weights(batch);
      if (batch.rows() == 0) continue;
      add(batch, matrix_of(batch.features, rows.features, form), seen, &rows);
      seen += batch.rows();
      if (rows.size() > std::numeric_limits<uint32_t>::max()) {
        throw invalid_argument(
            fmt::format("this replica has more than {} rows", std::numeric_limits<uint32_t>::max()),
            "train on more workers");
      }
    }
    return rows;
  }

  // Leaves those columns in double that float32 does not hold, on all replicas the same ones.
  void narrow(Rows* rows) const {
    const size_t width = rows->features.size();
    Tensor mine = torch::empty({1, static_cast<int64_t>(width), FloatFit::kNumbers}, kFloat64);
    auto* numbers = mine.data_ptr<double>();
    for (size_t f = 0; f < width; ++f, numbers += FloatFit::kNumbers) {
      FloatFit fit;
      for (const double number : rows->doubles[f]) fit.add(number);
      fit.store(numbers);
    }
    std::vector<FloatFit> fits(width);
    for (const Tensor& of : replica_.exchange().gather(mine, 0)) {
      const Tensor there = of.contiguous();
      for (size_t f = 0; f < width; ++f)
        fits[f].merge(FloatFit::load(there.data_ptr<double>() + f * FloatFit::kNumbers));
    }
    bool any = false;
    for (size_t f = 0; f < width; ++f) {
      if (!rows->in_double[f] || !fits[f].fits()) {
        any = any || rows->in_double[f];
        continue;
      }
      rows->in_double[f] = false;
      rows->columns[f].assign(rows->doubles[f].begin(), rows->doubles[f].end());
      rows->doubles[f] = {};
    }
    if (any) return;
    rows->in_double.clear();
    rows->doubles.clear();
  }

  // Examples of weight 0 are none.
  void add(const Batch& batch, const Tensor& matrix, int64_t seen, Rows* rows) const {
    const std::vector<float> labels = labels_of(batch, options_.form, seen);
    const std::vector<float> weights = weights_of(batch.features, options_.form, seen);
    const auto* in = matrix.data_ptr<double>();
    const size_t width = rows->columns.size();
    for (size_t f = 0; f < width; ++f) {
      const bool in_double = rows->in_double[f];
      for (size_t r = 0; r < labels.size(); ++r) {
        if (!weights.empty() && weights[r] == 0) continue;
        if (in_double) {
          rows->doubles[f].push_back(in[r * width + f]);
        } else {
          rows->columns[f].push_back(static_cast<float>(in[r * width + f]));
        }
      }
    }
    for (size_t r = 0; r < labels.size(); ++r) {
      if (!weights.empty() && weights[r] == 0) continue;
      rows->labels.push_back(labels[r]);
      if (!weights.empty()) rows->weights.push_back(weights[r]);
    }
  }

  // Keeps the rows as the trees that there are ask them.
  static void ask_as(const std::vector<bool>& in_double, Rows* rows) {
    if (rows->in_double == in_double) return;
    const size_t width = rows->features.size();
    rows->in_double.resize(width);
    rows->doubles.resize(width);
    for (size_t f = 0; f < width; ++f) {
      const bool wanted = !in_double.empty() && in_double[f];
      if (wanted == rows->in_double[f]) continue;
      if (wanted) {
        rows->doubles[f].assign(rows->columns[f].begin(), rows->columns[f].end());
        rows->columns[f] = {};
      } else {
        rows->columns[f].assign(rows->doubles[f].begin(), rows->doubles[f].end());
        rows->doubles[f] = {};
      }
      rows->in_double[f] = wanted;
    }
  }

  Boosting begin(Rows rows, Ensemble ensemble) const {
    if (ensemble.trees.empty()) {
      ensemble.features = rows.features;
      ensemble.in_double = rows.in_double;
    } else if (ensemble.features != rows.features) {
      throw invalid_argument(
          fmt::format("the trees in {} ask {}; the input has {}", options_.model_dir,
                      join_quoted(ensemble.features), join_quoted(rows.features)),
          "continue with the same features, or train in another model_dir");
    } else {
      ask_as(ensemble.in_double, &rows);
    }
    std::vector<std::string> names;
    for (const std::string& column : rows.features) names.push_back(feature_of(column));
    for (const std::string& name : options_.categorical_features) {
      if (std::ranges::find(names, name) == names.end())
        throw unknown_name("the input", "categorical feature", name, names);
    }
    BoostingOptions boosting{.loss = options_.form.loss,
                             .center_bias = options_.center_bias,
                             .category = std::vector<bool>(names.size()),
                             .speaks = speaks_here(),
                             .grow = options_.grow};
    for (size_t f = 0; f < names.size(); ++f) {
      boosting.category[f] = std::ranges::find(options_.categorical_features, names[f]) !=
                             options_.categorical_features.end();
    }
    return Boosting(std::move(rows), boosting, std::move(ensemble), replica_.exchange(),
                    replica_.num_replicas_in_sync());
  }

  void tell() {
    const double loss = boosting_->loss();
    told_ = step();
    if (!replica_.is_chief()) return;
    if (events_) {
      events_->add_scalar("loss", loss, told_);
      events_->flush();
    }
    const int64_t trees = boosting_->ensemble().rounds();
    log::event("trained", {{"global_step", told_}, {"trees", trees}, {"loss", loss}},
               fmt::format("step {}: {} of {} trees, loss {:.6g}, {:.1f} s", told_, trees,
                           options_.n_trees, loss, to_seconds(clock_.now() - begun_)));
  }

  // --- called by its driver ---
  bool wants_to_stop() const override { return options_.asked_to_end && options_.asked_to_end(); }

  StepResult make_step() override {
    if (done(boosting_->ensemble())) return {.any_data = false};
    Requests requests{.stop = driver_.wants_to_stop(), .save = driver_.wants_to_save()};
    plan::ActivityRecord& activity = plan::this_activity();
    activity.enter(plan::Activity::kCompute);
    engine_.follow(step() + boosting_->round(&requests));
    activity.enter(plan::Activity::kOther);
    activity.end_step(step());
    replica_.group().report(Phase::kTraining, step());
    return {.stop = requests.stop, .save = requests.save};
  }

  void after_step(const StepResult&) override {
    if (step() >= told_ + config_.log_step_count_steps) tell();
    if (speaks_here()) watch_.tell(last_step_.value_or(-1));
  }

  void after_last_step() override {
    if (told_ != step()) tell();
  }

  Saved write(const SaveWay& way) override {
    return save_together(
        replica_, [&]() -> CheckpointWriter& { return saves_.writer(); },
        [&] { return boosting_->ensemble().to_checkpoint(step()); }, /*saved=*/{}, way);
  }

  const TrainTreesOptions& options_;
  const RunConfig& config_;
  Replica& replica_;
  TaskWatch& watch_;
  Clock& clock_;
  Engine engine_;
  const std::unique_ptr<Pace> pace_;
  RunSaves saves_;
  RunDriver driver_;
  bool restored_ = false;                         // the run continues one
  std::unique_ptr<summary::EventWriter> events_;  // on the chief
  std::optional<int64_t> last_step_;
  Boosting* boosting_ = nullptr;
  TimePoint begun_;
  int64_t told_ = 0;  // the last reported step
};

TrainResult train_replica(const InputFn& input_fn, const TrainTreesOptions& options,
                          Replica& replica, TaskWatch& watch,
                          const std::function<void()>& failing) {
  const plan::ActivityScope activity(replica.place().name(), watch.run());
  const bool tells = replica.place().local == 0;
  TrainTrees run(options, replica, watch);
  TrainResult result;
  try {
    guarded(
        replica, [&] { result = run(input_fn); }, failing,
        [&] { return fmt::format("after step {}", run.step()); });
  } catch (...) {
    const Error error = current_error();
    if (tells) watch.end(&error);
    throw;
  }
  plan::this_activity().enter(plan::Activity::kDone);
  if (tells) watch.end(nullptr);
  return result;
}

}  // namespace

TrainResult train_trees(const InputFn& input_fn, const TrainTreesOptions& options,
                        const distribute::Strategy& strategy,
                        const distribute::StartOptions& start) {
  const std::vector<std::unique_ptr<Replica>> replicas = strategy.start_replicas(start);
  TaskWatch watch({.place = replicas[0]->place(),
                   .folder = options.model_dir,
                   .fs = options.config->fs,
                   .watchdog = options.config->watchdog.count()});
  watch.begin(/*trains=*/true);
  if (replicas.size() == 1) return train_replica(input_fn, options, *replicas[0], watch, [] {});
  const InputFn shared = called_once(input_fn);
  TrainResult result;
  distribute::ReplicaThreads threads(replicas.size());
  threads.run([&](size_t replica, const std::function<void()>& failing) {
    const TrainResult mine = train_replica(shared, options, *replicas[replica], watch, failing);
    if (replica == 0) result = mine;
  });
  return result;
}

}  // namespace muster::inline v0_1::trees
