#include "muster/savedmodel/internal/request_graph.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/export/request_columns.h"
#include "muster/savedmodel/internal/dtypes.h"
#include "muster/savedmodel/internal/example_features.h"
#include "muster/savedmodel/internal/request_columns.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

// The names that tf.estimator gives.
constexpr const char* kExamplesNode = "input_example_tensor";
constexpr const char* kExamples = "examples";

class RequestWriter {
 public:
  RequestWriter(const ExportedModel& model, TensorflowGraph& graph, LookupTables& tables)
      : model_(model), graph_(graph), tables_(tables), nodes_(graph) {}

  RequestGraph write() {
    recipe_ = model_.columns ? model_.columns->recipe() : nlohmann::json::array();
    if (model_.columns) {
      reader_ = model_.columns->reader(inputs(), model_.parsing);
      takes_examples_ = reader_->parser().has_value();
    } else {
      takes_examples_ = model_.parsing.has_value();
    }
    if (takes_examples_) add_examples();
    if (reader_) {
      add_features();
    } else if (!takes_examples_) {
      add_words();
    }
    for (const auto& [name, info] : inputs()) {
      if (!written_.inputs.contains(name)) add_input(name, info);
    }
    add_forms();
    return std::move(written_);
  }

 private:
  const std::map<std::string, TensorInfo>& inputs() const {
    return model_.signatures.at(kServingDefault).inputs;
  }

  // A node that a call may feed; if it is not fed, it is `otherwise`, unless that is empty.
  std::string add_fed(const std::string& name, BundleDtype dtype, const Shape& shape,
                      const std::string& otherwise) {
    const Attributes attributes = {{"dtype", type_value(dtype)}, {"shape", shape_value(shape)}};
    if (otherwise.empty()) return graph_.add_outside(name, "Placeholder", {}, attributes, {dtype});
    return graph_.add_outside(name, "PlaceholderWithDefault", {otherwise}, attributes, {dtype});
  }

  void add_examples() {
    examples_.value =
        graph_.add_outside(kExamplesNode, "Placeholder", {},
                           {{"dtype", type_value(kText)}, {"shape", shape_value({-1})}}, {kText});
    examples_.dtype = kText;
    examples_.shape = {-1};
    graph_.set_label("ParseExample");
    parsed_ =
        parse_examples(example_features(recipe_, model_.parsing), examples_.value, recipe_, graph_);
  }

  // The features that columns read, and the inputs that columns make.
  void add_features() {
    std::map<std::string, SignatureTensor> given;
    for (const auto& [key, feature] : reader_->features()) {
      const auto input = inputs().find(key);
      if (input != inputs().end()) {
        add_input(key, input->second);
        features_[key] = {written_.inputs.at(key), tensorflow_dtype(input->second.dtype),
                          input->second.shape};
        continue;
      }
      const auto parsed = parsed_.find(key);
      const BundleDtype dtype = feature.is_text ? kText
                                : at::isFloatingType(feature.dtype)
                                    ? tensorflow_dtype(feature.dtype)
                                    : kId;
      Shape shape = feature.shape;
      // A tf.Example may have more values than the model takes: the columns refuse them.
      if (shape.size() == 2) shape.back() = -1;
      features_[key] = {add_fed(key, dtype, shape,
                                parsed == parsed_.end() ? "" : nodes_.cast(parsed->second, dtype)),
                        dtype, feature.shape};
    }
    ColumnNodes columns(graph_, tables_, !takes_examples_,
                        [this](const std::string& key) { return features_.at(key).value; });
    for (const nlohmann::json& column : recipe_) {
      for (const auto& [name, value] : columns.add(column, inputs())) {
        const TensorInfo& info = inputs().at(name);
        if (!written_.inputs.contains(name)) {
          written_.inputs[name] = add_fed(name, tensorflow_dtype(info.dtype), info.shape, value);
        }
      }
    }
  }

  // Inputs of ids that a client may give as texts.
  void add_words() {
    const Signature& signature = model_.signatures.at(kServingDefault);
    for (const auto& [name, info] : inputs()) {
      const auto words = signature.texts.find(name);
      if (words == signature.texts.end()) {
        add_input(name, info);
        features_[name] = {written_.inputs.at(name), tensorflow_dtype(info.dtype), info.shape};
        continue;
      }
      const std::string table = tables_.add(name, words->second.words);
      const std::string text = add_fed(name + "/text", kText, info.shape, "");
      graph_.set_label(name);
      written_.inputs[name] = add_fed(name, tensorflow_dtype(info.dtype), info.shape,
                                      tables_.find(table, text, words->second.unknown));
      features_[name] = {text, kText, info.shape};
    }
    if (signature.texts.empty()) features_.clear();
  }

  void add_input(const std::string& name, const TensorInfo& info) {
    const BundleDtype dtype = tensorflow_dtype(info.dtype);
    const auto parsed = parsed_.find(name);
    graph_.set_label(name);
    written_.inputs[name] = add_fed(
        name, dtype, info.shape, parsed == parsed_.end() ? "" : nodes_.cast(parsed->second, dtype));
  }

  void add_forms() {
    RequestForm tensors{.prefix = "tensors:"};
    for (const auto& [name, info] : inputs())
      tensors.inputs[name] = {written_.inputs.at(name), tensorflow_dtype(info.dtype), info.shape};
    const RequestForm features{.prefix = "features:", .inputs = features_};
    std::vector<RequestForm>& forms = written_.forms;
    if (takes_examples_) forms.push_back({.of_examples = true, .inputs = {{kExamples, examples_}}});
    if (reader_ && !(takes_examples_ && crosses_in_two_orders(recipe_))) forms.push_back(features);
    forms.push_back(std::move(tensors));
    if (!reader_ && !features_.empty()) forms.push_back(features);
    forms.front().prefix.clear();
  }

  const ExportedModel& model_;
  TensorflowGraph& graph_;
  LookupTables& tables_;
  const Nodes nodes_;
  nlohmann::json recipe_;
  std::unique_ptr<const RequestReader> reader_;
  bool takes_examples_ = false;
  SignatureTensor examples_;
  std::map<std::string, std::string> parsed_;        // by feature
  std::map<std::string, SignatureTensor> features_;  // what a client gives, by key
  RequestGraph written_;
};

}  // namespace

RequestGraph add_requests(const ExportedModel& model, TensorflowGraph& graph,
                          LookupTables& tables) {
  return RequestWriter(model, graph, tables).write();
}

}  // namespace muster::inline v0_1::saved_model::internal
