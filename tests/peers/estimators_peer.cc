// Canned estimators from a checkpoint of TensorFlow: tools/peers/cases/estimators.py and heads.py.
#include <memory>
#include <stdexcept>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/muster.h"
#include "tests/peers/columns.h"
#include "tests/peers/estimator_parts.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

losses::Reduction estimator_reduction(const Json& head) {
  return head.value("loss_reduction", "") == "sum" ? losses::Reduction::kSum
                                                   : losses::Reduction::kSumOverBatchSize;
}

// What heads and the classifiers and regressors that make one of them have in common.
template <typename Options>
Options with_weights(const Json& head) {
  Options options;
  options.loss_reduction = estimator_reduction(head);
  take_option<std::string>(head, "weight_column", options.weight_column);
  return options;
}

template <typename Options>
Options of_classes(const Json& head) {
  Options options = with_weights<Options>(head);
  take_option<std::vector<std::string>>(head, "label_vocabulary", options.label_vocabulary);
  if constexpr (requires { options.n_classes; }) {
    take_option<int64_t>(head, "n_classes", options.n_classes);
  }
  return options;
}

template <typename Options>
Options of_numbers(const Json& head) {
  Options options = with_weights<Options>(head);
  take_option<int64_t>(head, "label_dimension", options.label_dimension);
  return options;
}

template <typename Options>
Options named(Options options, const Json& head) {
  take_option<std::string>(head, "name", options.name);
  if constexpr (requires { options.thresholds; }) {
    take_option<std::vector<double>>(head, "thresholds", options.thresholds);
  }
  return options;
}

// The functions that tools/peers/head_parts.py names.
HeadLossFn loss_fn_of(const Json& head) {
  const std::string kind = head.at("type"), name = head.at("loss_fn");
  return [kind, name, classes = head.value("n_classes", int64_t{2}),
          scaled = head.value("scaled", false)](const Tensor& labels, const Tensor& logits,
                                                const Features& features) {
    const bool one_of_many = kind == "MultiClassHead";
    const Tensor y =
        (one_of_many ? at::one_hot(labels.to(kInt64).reshape({-1}), classes) : labels).to(kFloat32);
    Tensor each;
    if (name == "poisson") {
      each = logits.exp() - y * logits;
    } else if (kind == "RegressionHead") {
      each = (y - logits).abs();
    } else if (name == "hinge") {
      each = (1 - (2 * y - 1) * logits).relu();
    } else {
      each = (y - (one_of_many ? logits.softmax(-1) : logits.sigmoid())).square();
    }
    if (one_of_many || kind == "MultiLabelHead") each = each.mean(-1, /*keepdim=*/true);
    return scaled ? each * (1 + features.value("scale").tensor()) : each;
  };
}

template <typename Options>
Options with_functions(Options options, const Json& head) {
  if (head.contains("loss_fn")) options.loss_fn = loss_fn_of(head);
  if constexpr (requires { options.inverse_link_fn; }) {
    if (head.contains("inverse_link_fn")) {
      const bool exponential = head.at("inverse_link_fn") == "exp";
      options.inverse_link_fn = [exponential](const Tensor& logits) {
        return exponential ? logits.exp() : at::softplus(logits);
      };
    }
  }
  return options;
}

Head peer_head(const Json& head) {
  const std::string type = head.at("type");
  if (type == "BinaryClassHead") {
    return BinaryClassHead(
        with_functions(named(of_classes<BinaryClassHeadOptions>(head), head), head));
  }
  if (type == "MultiClassHead") {
    return MultiClassHead(
        with_functions(named(of_classes<MultiClassHeadOptions>(head), head), head));
  }
  if (type == "MultiLabelHead") {
    auto options = with_functions(named(of_classes<MultiLabelHeadOptions>(head), head), head);
    for (const Json& one : head.value("classes_for_class_based_metrics", Json::array())) {
      if (one.is_string()) {
        options.classes_for_class_based_metrics.emplace_back(one.get<std::string>());
      } else {
        options.classes_for_class_based_metrics.emplace_back(one.get<int64_t>());
      }
    }
    return MultiLabelHead(std::move(options));
  }
  if (type == "RegressionHead") {
    return RegressionHead(
        with_functions(named(of_numbers<RegressionHeadOptions>(head), head), head));
  }
  if (type == "PoissonRegressionHead") {
    auto options = named(of_numbers<PoissonRegressionHeadOptions>(head), head);
    take_option<bool>(head, "compute_full_loss", options.compute_full_loss);
    return PoissonRegressionHead(std::move(options));
  }
  if (type == "LogisticRegressionHead") {
    return LogisticRegressionHead(named(with_weights<LogisticRegressionHeadOptions>(head), head));
  }
  if (type == "MultiHead") {
    MultiHeadOptions options;
    for (const Json& one : head.at("heads")) options.heads.push_back(peer_head(one));
    take_option<std::vector<double>>(head, "head_weights", options.head_weights);
    return MultiHead(std::move(options));
  }
  throw std::runtime_error("no head is called " + type);
}

OptimizerChoice optimizer_of(const Json& given) {
  if (given.is_string()) return given.get<std::string>();
  const std::string name = given.at("name");
  const auto take = [&](const char* option, auto& field) {
    take_option<std::decay_t<decltype(field)>>(given, option, field);
  };
  const double rate = given.at("learning_rate");
  if (name == "SGD") {
    optim::SgdOptions options{.learning_rate = rate};
    take("momentum", options.momentum);
    take("nesterov", options.nesterov);
    return optim::sgd(options);
  }
  if (name == "Adagrad") {
    optim::AdagradOptions options{.learning_rate = rate};
    take("initial_accumulator_value", options.initial_accumulator_value);
    take("epsilon", options.epsilon);
    return optim::adagrad(options);
  }
  if (name == "Adam") {
    optim::AdamOptions options{.learning_rate = rate};
    take("beta_1", options.beta_1);
    take("beta_2", options.beta_2);
    take("epsilon", options.epsilon);
    take("amsgrad", options.amsgrad);
    return optim::adam(options);
  }
  if (name == "RMSprop") {
    optim::RmspropOptions options{.learning_rate = rate};
    take("rho", options.rho);
    take("momentum", options.momentum);
    take("epsilon", options.epsilon);
    take("centered", options.centered);
    return optim::rmsprop(options);
  }
  if (name != "Ftrl") throw std::runtime_error("no optimizer is called " + name);
  optim::FtrlOptions options{.learning_rate = rate};
  take("learning_rate_power", options.learning_rate_power);
  take("initial_accumulator_value", options.initial_accumulator_value);
  take("l1_regularization_strength", options.l1_regularization_strength);
  take("l2_regularization_strength", options.l2_regularization_strength);
  take("l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength);
  take("beta", options.beta);
  return optim::ftrl(options);
}

// The model that a program describes.
struct PeerEstimator {
  const Json& program;
  std::vector<FeatureColumn> columns;      // of the linear part
  std::vector<FeatureColumn> dnn_columns;  // of the network
  std::vector<FeatureColumn> sequence_columns;
  std::vector<FeatureColumn> context_columns;
  RunConfig config;

  const Json& head() const { return program.at("head"); }

  template <typename Options>
  Options linear(Options options) const {
    options.feature_columns = columns;
    options.optimizer.reset();
    if (!program.at("optimizer").is_null())
      options.optimizer = optimizer_of(program.at("optimizer"));
    if (program.contains("sparse_combiner")) {
      options.sparse_combiner = peer_combiner(program.at("sparse_combiner"));
    }
    return options;
  }
  template <typename Options>
  Options dnn(Options options) const {
    options.hidden_units = program.at("hidden_units").get<std::vector<int64_t>>();
    options.feature_columns = dnn_columns;
    options.optimizer = optimizer_of(program.at("optimizer"));
    if (program.contains("activation_fn")) {
      options.activation_fn = activation(program.at("activation_fn").get<std::string>());
    }
    take_option<bool>(program, "batch_norm", options.batch_norm);
    return options;
  }
  template <typename Options>
  Options combined(Options options) const {
    options.linear_feature_columns = columns;
    options.linear_optimizer = optimizer_of(program.at("linear_optimizer"));
    options.dnn_feature_columns = dnn_columns;
    options.dnn_optimizer = optimizer_of(program.at("optimizer"));
    options.dnn_hidden_units = program.at("hidden_units").get<std::vector<int64_t>>();
    if (program.contains("activation_fn")) {
      options.dnn_activation_fn = activation(program.at("activation_fn").get<std::string>());
    }
    take_option<bool>(program, "batch_norm", options.batch_norm);
    if (program.contains("sparse_combiner")) {
      options.linear_sparse_combiner = peer_combiner(program.at("sparse_combiner"));
    }
    return options;
  }
  template <typename Options>
  Options baseline(Options options) const {
    options.optimizer = optimizer_of(program.at("optimizer"));
    return options;
  }
  template <typename Options>
  Options recurrent(Options options) const {
    options.sequence_feature_columns = sequence_columns;
    options.context_feature_columns = context_columns;
    options.units = program.at("units").get<std::vector<int64_t>>();
    options.cell_type = program.at("cell_type").get<std::string>();
    options.optimizer = optimizer_of(program.at("optimizer"));
    return options;
  }
  Estimator estimator() const;
};

Estimator PeerEstimator::estimator() const {
  const std::string kind = program.at("estimator");
  const Json& h = head();
  if (kind == "LinearClassifier") {
    return LinearClassifier(linear(of_classes<LinearClassifierOptions>(h)), config);
  }
  if (kind == "LinearRegressor") {
    return LinearRegressor(linear(of_numbers<LinearRegressorOptions>(h)), config);
  }
  if (kind == "LinearEstimator") {
    return LinearEstimator(peer_head(h), linear(LinearEstimatorOptions()), config);
  }
  if (kind == "DNNClassifier") {
    return DNNClassifier(dnn(of_classes<DNNClassifierOptions>(h)), config);
  }
  if (kind == "DNNRegressor") {
    return DNNRegressor(dnn(of_numbers<DNNRegressorOptions>(h)), config);
  }
  if (kind == "DNNEstimator") {
    return DNNEstimator(peer_head(h), dnn(DNNEstimatorOptions()), config);
  }
  if (kind == "DNNLinearCombinedClassifier") {
    return DNNLinearCombinedClassifier(combined(of_classes<DNNLinearCombinedClassifierOptions>(h)),
                                       config);
  }
  if (kind == "DNNLinearCombinedRegressor") {
    return DNNLinearCombinedRegressor(combined(of_numbers<DNNLinearCombinedRegressorOptions>(h)),
                                      config);
  }
  if (kind == "DNNLinearCombinedEstimator") {
    return DNNLinearCombinedEstimator(peer_head(h), combined(DNNLinearCombinedEstimatorOptions()),
                                      config);
  }
  if (kind == "BaselineClassifier") {
    return BaselineClassifier(baseline(of_classes<BaselineClassifierOptions>(h)), config);
  }
  if (kind == "BaselineRegressor") {
    return BaselineRegressor(baseline(of_numbers<BaselineRegressorOptions>(h)), config);
  }
  if (kind == "BaselineEstimator") {
    return BaselineEstimator(peer_head(h), baseline(BaselineEstimatorOptions()), config);
  }
  if (kind == "RNNClassifier") {
    return RNNClassifier(recurrent(of_classes<RNNClassifierOptions>(h)), config);
  }
  if (kind == "RNNEstimator") {
    return RNNEstimator(peer_head(h), recurrent(RNNEstimatorOptions()), config);
  }
  throw std::runtime_error("no estimator is called " + kind);
}

class RecordLosses : public Hook {
 public:
  void after_step(const StepInfo& step) override { losses.push_back(step.loss); }
  std::vector<double> losses;
};

// Puts the checkpoint next to the case into a model_dir, as TensorFlow has it there.
void begin_with_checkpoint(const PeerCase& a_case, const std::string& model_dir) {
  FileSystem& files = local_file_system();
  for (const std::string end : {".index", ".data-00000-of-00001"}) {
    const std::string from = join_path(a_case.folder, a_case.name + ".ckpt-0" + end);
    files
        .write_atomically(join_path(model_dir, "model.ckpt-0" + end), files.read_file(from).value())
        .value();
  }
  files
      .write_atomically(join_path(model_dir, "checkpoint"),
                        std::string_view("model_checkpoint_path: \"model.ckpt-0\"\n"
                                         "all_model_checkpoint_paths: \"model.ckpt-0\"\n"))
      .value();
}

// The heads with names of classes, by what stands before their keys in predictions.
std::map<std::string, Head> heads_of(const Json& head) {
  if (!head.contains("heads")) return {{"", peer_head(head)}};
  std::map<std::string, Head> heads;
  for (const Json& one : head.at("heads"))
    heads.emplace(one.at("name").get<std::string>() + "/", peer_head(one));
  return heads;
}

PeerArrays run_estimator(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const TempDirectory vocabularies, directory;
  begin_with_checkpoint(a_case, directory.path());
  const auto columns_of = [&](const char* name) {
    return peer_columns(program.value(name, Json::array()), vocabularies.path());
  };
  const PeerEstimator model{.program = program,
                            .columns = columns_of("columns"),
                            .dnn_columns = columns_of("dnn_columns"),
                            .sequence_columns = columns_of("sequence_columns"),
                            .context_columns = columns_of("context_columns"),
                            .config = {.model_dir = directory.path(), .save_summary_steps = 0}};
  Estimator estimator = model.estimator();
  const Dataset rows = Dataset::from_tensor_slices(Element::tuple(
      {peer_features(program.at("features"), {}, false), peer_labels(program.at("labels"))}));
  const auto ready = [&](const Dataset& batches) {
    if (!program.value("resolved", false)) return batches;
    std::vector<FeatureColumn> all;
    for (const auto* some :
         {&model.columns, &model.dnn_columns, &model.sequence_columns, &model.context_columns}) {
      all.insert(all.end(), some->begin(), some->end());
    }
    return batches.map(feature_column::resolve(all));
  };
  const bool fixed = program.at("estimator").get<std::string>().starts_with("Baseline");
  const InputFn training = [&] {
    return ready(rows.repeat().batch(program.at("batch"), {.drop_remainder = fixed}));
  };
  const InputFn once = [&] {
    return ready(rows.batch(program.at("eval_batch"), {.drop_remainder = fixed}));
  };
  const auto record = std::make_shared<RecordLosses>();
  estimator.train(training, {.max_steps = program.at("steps").get<int64_t>(), .hooks = {record}});
  PeerArrays got;
  got["losses"] = PeerArray::of(torch::tensor(record->losses, kFloat64));
  for (const std::string& name : estimator.get_variable_names()) {
    got["variable " + name] = PeerArray::of(estimator.get_variable_value(name));
  }
  for (const auto& [name, value] : estimator.evaluate(once)) {
    got["metric " + name] = PeerArray::of(value);
  }
  add_predictions(estimator, once, got, heads_of(program.at("head")));
  if (program.value("export", false)) {
    std::vector<FeatureColumn> all = model.columns;
    all.insert(all.end(), model.dnn_columns.begin(), model.dnn_columns.end());
    add_signatures(estimator, all, a_case.inputs.at("examples").texts(), got);
  }
  return got;
}

const PeerKind kEstimators("estimators", run_estimator);
const PeerKind kHeads("heads", run_estimator);

}  // namespace
}  // namespace muster::inline v0_1
