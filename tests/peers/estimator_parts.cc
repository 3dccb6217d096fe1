#include "tests/peers/estimator_parts.h"

#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/features/column_receiver.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/columns.h"
#include "tests/peers/peer_values.h"

namespace muster::inline v0_1 {

using Json = nlohmann::json;

Element peer_labels(const Json& labels) {
  std::vector<std::pair<std::string, Element>> entries;
  if (labels.contains("rows")) {
    const Element all = peer_features({{"labels", labels}}, {}, false);
    // Lists stay with their lengths.
    return labels.value("dense", false) ? all.at("labels") : all;
  }
  for (const auto& [name, one] : labels.items()) entries.emplace_back(name, peer_labels(one));
  return Element::dict(std::move(entries));
}

namespace {

// The names for each of the rows, as TensorFlow gives them.
PeerArray repeated(const std::vector<std::string>& names, int64_t rows) {
  PeerArray array{"string", {rows, static_cast<int64_t>(names.size())}, Json::array()};
  for (int64_t row = 0; row < rows; ++row) {
    for (const std::string& name : names) array.values.push_back(name);
  }
  return array;
}

}  // namespace

void add_predictions(Estimator& estimator, const InputFn& input, PeerArrays& got,
                     const std::map<std::string, Head>& heads) {
  std::map<std::string, std::vector<Tensor>> rows;
  Predictions predictions = estimator.predict(input);
  while (const auto prediction = predictions.next()) {
    for (const auto& [key, value] : *prediction) rows[key].push_back(value);
  }
  for (const auto& [key, each] : rows) got["prediction " + key] = PeerArray::of(torch::stack(each));
  for (const auto& [prefix, head] : heads) {
    const std::vector<std::string> all = head.classes();
    if (!all.empty() && rows.contains(prefix + "logits") && !rows.contains(prefix + "class_ids")) {
      got["prediction " + prefix + "classes"] =
          repeated(all, static_cast<int64_t>(rows.at(prefix + "logits").size()));
    }
    for (const auto& [ids, classes] :
         {std::pair("class_ids", "classes"), std::pair("all_class_ids", "all_classes")}) {
      const auto found = rows.find(prefix + ids);
      if (found == rows.end()) continue;
      got["prediction " + prefix + classes] =
          peer_array(head.class_names(torch::stack(found->second)));
    }
  }
}

void add_signatures(Estimator& estimator, const std::vector<FeatureColumn>& columns,
                    const std::vector<std::string>& examples, PeerArrays& got) {
  ServingInputReceiver receiver = feature_column::serving_input_receiver(columns);
  for (auto& [name, feature] : receiver.features) {
    // Examples of the cases have fewer ids than this.
    if (name.ends_with("/ids") || name.ends_with("/weights")) feature.shape = {16};
  }
  const TempDirectory directory;
  const Servable servable(*estimator.export_model(directory.path(), receiver));
  std::vector<std::string> serialized, names;
  for (const std::string& example : examples) serialized.push_back(bytes_of_hex(example));
  const auto rows = static_cast<int64_t>(examples.size());
  for (const auto& [name, signature] : servable.signatures()) {
    names.push_back(name + " " + method_name(signature.method));
    for (const auto& [key, output] : servable.run_examples(name, serialized))
      got["signature " + name + "/" + key] = PeerArray::of(output);
    if (signature.classes.empty()) continue;
    got["signature " + name + "/classes"] = repeated(signature.classes, rows);
  }
  got["signatures"] = PeerArray::of(names);
}

}  // namespace muster::inline v0_1
