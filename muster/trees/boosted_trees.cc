#include "muster/trees/boosted_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/manager.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/estimator/estimator.h"
#include "muster/export/write_version.h"
#include "muster/files/file_systems.h"
#include "muster/summary/event_writer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/stop_request.h"
#include "muster/trees/internal/outputs.h"
#include "muster/trees/internal/read_features.h"
#include "muster/trees/internal/servable_trees.h"
#include "muster/trees/internal/train_trees.h"

namespace muster::inline v0_1 {
namespace {

using trees::Loss;

template <typename T>
void require(bool holds, const char* option, const T& value, const char* rule) {
  if (holds) return;
  throw invalid_argument(
      fmt::format("{} of a boosted trees model is {}; it must be {}", option, value, rule));
}

template <typename Options>
trees::TrainTreesOptions settings_of(const Options& options) {
  require(options.n_trees >= 1, "n_trees", options.n_trees, "at least 1");
  require(options.max_depth >= 1 && options.max_depth <= 16, "max_depth", options.max_depth,
          "from 1 to 16");
  require(options.learning_rate > 0 && std::isfinite(options.learning_rate), "learning_rate",
          options.learning_rate, "more than 0 and finite");
  const std::pair<const char*, double> penalties[] = {
      {"l1_regularization", options.l1_regularization},
      {"l2_regularization", options.l2_regularization},
      {"tree_complexity", options.tree_complexity},
      {"min_node_weight", options.min_node_weight}};
  for (const auto& [name, value] : penalties)
    require(value >= 0 && std::isfinite(value), name, value, "0 or more and finite");
  const bool prunes = options.pruning_mode != trees::PruningMode::kNone;
  if (prunes != (options.tree_complexity > 0)) {
    throw invalid_argument(
        fmt::format("a boosted trees model has {} pruning_mode, and tree_complexity {}",
                    prunes ? "a" : "no", options.tree_complexity),
        "pruning needs a tree_complexity above 0, and tree_complexity needs pruning");
  }
  trees::TrainTreesOptions settings;
  settings.form.weight_column = options.weight_column;
  settings.form.feature_names = options.feature_names;
  settings.n_trees = options.n_trees;
  settings.center_bias = options.center_bias;
  settings.grow = {.max_depth = options.max_depth,
                   .learning_rate = options.learning_rate,
                   .tree_complexity = options.tree_complexity,
                   .pruning_mode = options.pruning_mode,
                   .regularization = {.l1 = options.l1_regularization,
                                      .l2 = options.l2_regularization,
                                      .min_node_weight = options.min_node_weight}};
  settings.categorical_features = options.categorical_features;
  return settings;
}

trees::TrainTreesOptions settings_of_classifier(const BoostedTreesClassifierOptions& options) {
  trees::TrainTreesOptions settings = settings_of(options);
  require(options.n_classes >= 2, "n_classes", options.n_classes, "at least 2");
  if (options.center_bias && options.n_classes > 2) {
    throw invalid_argument(
        fmt::format("not supported: center_bias with n_classes = {}", options.n_classes),
        "omit center_bias, or use two classes");
  }
  const size_t words = options.label_vocabulary.size();
  if (words != 0 && words != static_cast<size_t>(options.n_classes)) {
    throw invalid_argument(
        fmt::format("label_vocabulary has {} entries for {} classes", words, options.n_classes),
        "give one for each class");
  }
  std::set<std::string> different(options.label_vocabulary.begin(), options.label_vocabulary.end());
  if (different.size() != words) {
    throw invalid_argument(
        "label_vocabulary has an entry twice: " + join_quoted(options.label_vocabulary),
        "give each class a different name");
  }
  settings.form.loss = options.n_classes == 2 ? Loss::kLogistic : Loss::kSoftmax;
  settings.form.n_classes = options.n_classes;
  settings.form.label_vocabulary = options.label_vocabulary;
  return settings;
}

trees::TrainTreesOptions settings_of_regressor(const BoostedTreesRegressorOptions& options) {
  trees::TrainTreesOptions settings = settings_of(options);
  settings.form.loss = Loss::kSquared;
  return settings;
}

void check_config(const RunConfig& config) {
  if (config.accumulate_steps != 1)
    throw invalid_argument("not supported: RunConfig.accumulate_steps with boosted trees",
                           "a tree is made of all data anyway");
  if (config.keep_best || config.warm_start_from) {
    throw invalid_argument(
        "not supported: RunConfig.keep_best and warm_start_from with boosted trees",
        "leave them unset");
  }
}

// The model function of trees: it has no variables to train.
EstimatorSpec no_model(const Features&, const Labels&, Mode, ModelContext&) {
  throw internal_error("boosted trees have no model function");
}

}  // namespace

struct BoostedTrees::Impl {
  Impl(trees::TrainTreesOptions given, const RunConfig& config)
      : settings(std::move(given)), place(no_model, config) {
    check_config(config);
  }

  trees::TrainTreesOptions settings;
  // Which task this is, and where its files are.
  Estimator place;

  FileSystem& fs() const {
    return place.config().fs != nullptr ? *place.config().fs : file_systems();
  }

  // The trees of a checkpoint, of the latest when none is named, and its step.
  std::pair<trees::Ensemble, int64_t> load(const std::optional<std::string>& path) const {
    const CheckpointManager manager(place.model_dir(), {.fs = place.config().fs});
    if (path) {
      const Checkpoint checkpoint = manager.load(*path);
      return {checked(checkpoint, *path), checkpoint.global_step};
    }
    const auto loaded = manager.load_latest();
    if (!loaded) {
      throw not_found("could not find trained trees in model_dir: " + place.model_dir() +
                          " holds no checkpoint",
                      "check model_dir for a misspelling, or train() there first");
    }
    return {checked(loaded->checkpoint, loaded->prefix), loaded->checkpoint.global_step};
  }

  trees::Ensemble checked(const Checkpoint& checkpoint, const std::string& where) const {
    trees::Ensemble ensemble = trees::Ensemble::from_checkpoint(checkpoint, where);
    trees::check_trees(ensemble, settings.form, where);
    return ensemble;
  }
};

BoostedTrees::BoostedTrees(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BoostedTrees::~BoostedTrees() = default;
BoostedTrees::BoostedTrees(BoostedTrees&&) noexcept = default;

TrainResult BoostedTrees::train(const InputFn& input_fn, const BoostedTreesTrainOptions& options) {
  if (!input_fn) throw invalid_argument("train needs an input function");
  if (options.steps && options.max_steps) {
    throw invalid_argument(fmt::format("train got both steps ({}) and max_steps ({})",
                                       *options.steps, *options.max_steps),
                           "steps counts from the latest checkpoint, max_steps is the step to end "
                           "at: give one");
  }
  for (const auto& [name, value] :
       {std::pair{"steps", options.steps}, std::pair{"max_steps", options.max_steps}}) {
    if (value && *value <= 0)
      throw invalid_argument(
          fmt::format("train got {} = {}; it must be more than 0", name, *value));
  }
  const RunConfig& config = impl_->place.config();
  const cluster::ResolvedCluster& task = impl_->place.cluster();
  distribute::check_worker(task, "train");
  set_threads(0);
  trees::TrainTreesOptions settings = impl_->settings;
  settings.steps = options.steps;
  settings.max_steps = options.max_steps;
  settings.model_dir = impl_->place.model_dir();
  settings.config = &config;
  const distribute::StrategyPtr strategy =
      config.train_distribute ? config.train_distribute : distribute::one_device();
  const StopRequest request(config.cancelled);
  settings.asked_to_end = [&request] { return request.asked(); };
  settings.cancelled = [&request] { return request.asked_or_signalled(); };
  return trees::train_trees(input_fn, settings, *strategy,
                            {.cluster = task,
                             .seed = config.random_seed.value_or(0),
                             .call = "BoostedTrees::train()",
                             .join_timeout = config.join_timeout.count(),
                             .cancelled = settings.cancelled});
}

EvalResult BoostedTrees::evaluate(const InputFn& input_fn,
                                  const BoostedTreesEvaluateOptions& options) {
  if (!input_fn) throw invalid_argument("evaluate needs an input function");
  if (options.steps && *options.steps <= 0)
    throw invalid_argument(
        fmt::format("evaluate got steps = {}; it must be more than 0", *options.steps),
        "leave it unset to evaluate all of the data");
  set_threads(0);
  const trees::InputForm& form = impl_->settings.form;
  const auto [ensemble, step] = impl_->load(options.checkpoint_path);
  const Dataset dataset = input_fn({});
  const auto iterator = dataset.iterator({.seed = impl_->place.config().random_seed.value_or(0)});
  trees::Measures measures(form.loss);
  int64_t seen = 0;
  while (!options.steps || measures.batches() < *options.steps) {
    const std::optional<Element> element = iterator->next();
    if (!element) break;
    const Batch batch = to_batch(*element);
    refuse_weights(batch);
    if (batch.rows() == 0) continue;
    const Tensor matrix = trees::matrix_for(batch.features, ensemble, form);
    measures.add(trees::logits_of(ensemble, matrix), trees::labels_of(batch, form, seen),
                 trees::weights_of(batch.features, form, seen));
    seen += batch.rows();
  }
  if (measures.batches() == 0)
    throw invalid_argument("the input function gave no data: " + dataset.describe(),
                           "check the data directory and the transformations");
  EvalResult results = measures.results();
  std::vector<std::pair<std::string, double>> scalars(results.begin(), results.end());
  results["global_step"] = static_cast<double>(step);
  if (impl_->place.is_chief()) {
    summary::EventWriter events(impl_->place.eval_dir(options.name), impl_->fs(), system_clock());
    events.add_scalars(scalars, step);
  }
  return results;
}

struct BoostedTreesPredictions::Impl {
  trees::InputForm form;
  trees::Ensemble ensemble;
  BoostedTreesPredictOptions options;
  std::unique_ptr<Iterator> iterator{};
  Prediction::Outputs batch;
  int64_t rows = 0;
  int64_t at = 0;  // the next row of the batch

  bool read() {
    const std::optional<Element> element = iterator->next();
    if (!element) return false;
    const Features features = to_batch(*element).features;
    const Tensor matrix = trees::matrix_for(features, ensemble, form);
    batch = trees::predictions_of(form.loss, trees::logits_of(ensemble, matrix));
    if (options.with_explanations) trees::add_explanations(ensemble, matrix, &batch);
    choose();
    rows = features.rows();
    at = 0;
    return true;
  }

  void choose() {
    if (options.predict_keys.empty()) return;
    const Prediction all(batch);
    batch.clear();
    for (const std::string& key : options.predict_keys) batch[key] = all.at(key);
  }
};

BoostedTreesPredictions::BoostedTreesPredictions(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
BoostedTreesPredictions::~BoostedTreesPredictions() = default;
BoostedTreesPredictions::BoostedTreesPredictions(BoostedTreesPredictions&&) noexcept = default;

std::optional<Prediction> BoostedTreesPredictions::next() {
  if (!impl_->options.yield_single_examples) {
    if (!impl_->read()) return std::nullopt;
    return Prediction(impl_->batch);
  }
  while (impl_->at == impl_->rows) {
    if (!impl_->read()) return std::nullopt;
  }
  Prediction::Outputs row;
  for (const auto& [name, values] : impl_->batch) row[name] = values[impl_->at];
  ++impl_->at;
  return Prediction(std::move(row));
}

BoostedTreesPredictions BoostedTrees::predict(const InputFn& input_fn,
                                              const BoostedTreesPredictOptions& options) {
  if (!input_fn) throw invalid_argument("predict needs an input function");
  auto impl = std::make_unique<BoostedTreesPredictions::Impl>();
  impl->form = impl_->settings.form;
  impl->ensemble = impl_->load(options.checkpoint_path).first;
  impl->options = options;
  impl->iterator = input_fn({}).iterator({.seed = impl_->place.config().random_seed.value_or(0)});
  return BoostedTreesPredictions(std::move(impl));
}

std::vector<std::pair<std::string, double>> BoostedTrees::feature_importances(
    bool normalize) const {
  auto importances = trees::gains_by_feature(ensemble());
  double total = 0;
  for (const auto& [name, gain] : importances) total += gain;
  if (normalize && total > 0) {
    for (auto& [name, gain] : importances) gain /= total;
  }
  return importances;
}

Explanation BoostedTrees::explain() const {
  const trees::Ensemble made = ensemble();
  std::map<std::string, int64_t> splits;
  for (const trees::Tree& tree : made.trees) {
    for (const trees::Node& node : tree.nodes) {
      if (node.feature >= 0)
        ++splits[trees::feature_of(made.features[static_cast<size_t>(node.feature)])];
    }
  }
  const auto gains = trees::gains_by_feature(made);
  double total = 0;
  for (const auto& [name, gain] : gains) total += gain;
  Explanation result{.measures = {"gain", "share", "splits"}};
  for (const auto& [name, gain] : gains) {
    result.rows.push_back(
        {.column = name,
         .value = {},
         .output = {},
         .numbers = {gain, total > 0 ? gain / total : 0.0, static_cast<double>(splits[name])}});
  }
  return result;
}

std::optional<std::string> BoostedTrees::export_model(const std::string& export_dir,
                                                      const ServingInputReceiver& receiver,
                                                      const BoostedTreesExportOptions& options) {
  if (!is_chief()) return std::nullopt;
  set_threads(0);
  const trees::InputForm& form = impl_->settings.form;
  const auto [ensemble, step] = impl_->load(options.checkpoint_path);
  const RunConfig& config = impl_->place.config();
  Clock& clock = config.clock != nullptr ? *config.clock : system_clock();
  ServableSource source =
      trees::servable_of(ensemble, form, receiver, step,
                         options.checkpoint_path.value_or(latest_checkpoint().value_or("")));
  source.formats = options.formats;
  return write_version(impl_->fs(), export_dir, static_cast<int64_t>(clock.wall_seconds()), source);
}

std::vector<std::string> BoostedTrees::column_names() const { return ensemble().features; }
trees::Ensemble BoostedTrees::ensemble() const { return impl_->load({}).first; }
bool BoostedTrees::is_chief() const { return impl_->place.is_chief(); }
const std::string& BoostedTrees::model_dir() const { return impl_->place.model_dir(); }
std::optional<std::string> BoostedTrees::latest_checkpoint() const {
  return impl_->place.latest_checkpoint();
}

BoostedTreesClassifier::BoostedTreesClassifier(const BoostedTreesClassifierOptions& options,
                                               const RunConfig& config)
    : BoostedTrees(std::make_unique<Impl>(settings_of_classifier(options), config)) {}

BoostedTreesRegressor::BoostedTreesRegressor(const BoostedTreesRegressorOptions& options,
                                             const RunConfig& config)
    : BoostedTrees(std::make_unique<Impl>(settings_of_regressor(options), config)) {}

}  // namespace muster::inline v0_1
