#include "muster/hdf/keras_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/formats/keras_file.h"

namespace muster::inline v0_1::hdf {
namespace {

using nlohmann::json;

constexpr std::string_view kVars = "vars";
constexpr std::array<std::string_view, 3> kCells = {"lstm_cell", "gru_cell", "simple_rnn_cell"};

// The weights of the layers of a class, in the order in which Keras numbers them. A class may have
// several rows: the number of weights chooses.
struct ClassRow {
  std::string_view group;
  std::vector<std::string_view> weights;
};
const std::vector<ClassRow>& classes() {
  static const std::vector<ClassRow> kRows = [] {
    std::vector<ClassRow> rows;
    for (const char* group : {"dense", "einsum_dense", "conv1d", "conv2d", "conv3d",
                              "conv1d_transpose", "conv2d_transpose", "conv3d_transpose"})
      rows.push_back({group, {"kernel", "bias"}});
    for (const char* group :
         {"lstm", "gru", "simple_rnn", "lstm_cell", "gru_cell", "simple_rnn_cell"})
      rows.push_back({group, {"kernel", "recurrent_kernel", "bias"}});
    rows.push_back({"depthwise_conv2d", {"depthwise_kernel", "bias"}});
    rows.push_back({"separable_conv2d", {"depthwise_kernel", "pointwise_kernel", "bias"}});
    rows.push_back({"embedding", {"embeddings"}});
    rows.push_back({"p_re_lu", {"alpha"}});
    return rows;
  }();
  return kRows;
}

// The class in the name of a group: "dense" of "dense_1".
std::string class_of_group(const std::string& group) {
  const size_t end = group.find_last_not_of("0123456789");
  if (end != std::string::npos && end + 1 < group.size() && group[end] == '_')
    return group.substr(0, end);
  return group;
}

// A flag of a layer's configuration; `otherwise` where there is no configuration.
std::optional<bool> flag_of(const json* config, const char* name) {
  if (config == nullptr || !config->is_object()) return std::nullopt;
  const auto inner = config->find("config");
  if (inner == config->end() || !inner->is_object()) return std::nullopt;
  const auto found = inner->find(name);
  if (found == inner->end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

// The names of the `count` weights of a layer; empty where nothing says them.
std::vector<std::string_view> weights_of(const std::string& layer_class, const json* config,
                                         size_t count) {
  for (const ClassRow& row : classes()) {
    if (row.group == layer_class && count <= row.weights.size())
      return {row.weights.begin(), row.weights.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  const bool batch = layer_class == "batch_normalization";
  if (!batch && layer_class != "layer_normalization") return {};
  const size_t moving = batch ? 2 : 0;
  if (count < moving || count > moving + 2) return {};
  const bool both = count == moving + 2, none = count == moving;
  const auto scale = flag_of(config, "scale");
  if (!both && !none && !scale) return {};
  std::vector<std::string_view> names;
  if (both || (!none && *scale)) names.push_back("gamma");
  if (both || (!none && !*scale)) names.push_back("beta");
  if (batch) {
    names.push_back("moving_mean");
    names.push_back("moving_variance");
  }
  return names;
}

const json* member(const json* value, const char* name) {
  if (value == nullptr || !value->is_object()) return nullptr;
  const auto found = value->find(name);
  return found == value->end() ? nullptr : &*found;
}

std::string text_of_member(const json* value, const char* name) {
  const json* found = member(value, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

// The configurations of a model's layers by the groups that Keras saves them in: the class, with a
// number from the second on.
std::map<std::string, const json*> groups_of(const json* config) {
  std::map<std::string, const json*> groups;
  std::map<std::string, int> used;
  const json* layers = member(member(config, "config"), "layers");
  if (layers == nullptr || !layers->is_array()) return groups;
  for (const json& layer : *layers) {
    const std::string group = formats::keras_group(text_of_member(&layer, "class_name"));
    const int number = used[group]++;
    groups[number == 0 ? group : fmt::format("{}_{}", group, number)] = &layer;
  }
  return groups;
}

// What is known of the object that a group holds.
struct Place {
  std::string path{};  // of its group
  std::string name{};  // of its weights, in front of the last '/'
  std::string layer_class{};
  const json* config = nullptr;
};

std::string joined(const std::string& scope, const std::string& name) {
  if (scope.empty() || name.empty()) return scope + name;
  return scope + "/" + name;
}

// Names the arrays of a file that Keras 3 wrote, or Keras 2.12 to 2.15.
class Namer {
 public:
  Namer(const HdfListing& listing, const json* config) : listing_(listing), config_(config) {
    for (const HdfArray& array : listing.arrays) ++counts_[group_of(array.path)];
  }

  KerasNames name() {
    for (size_t i = 0; i < listing_.arrays.size(); ++i) add(i);
    return std::move(names_);
  }

 private:
  static std::string group_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
  }

  void add(size_t index) {
    const std::string& path = listing_.arrays[index].path;
    std::vector<std::string> parts = split(path, '/');
    if (parts.front() == "optimizer") {
      ++names_.of_optimizer;
      return;
    }
    const bool is_state = parts.front() == "metrics" || parts.front().ends_with("_metrics") ||
                          parts.front() == "loss_tracker" ||
                          std::ranges::count(parts, "seed_generator") > 0;
    if (is_state) {
      ++names_.of_others;
      return;
    }
    const std::string number = parts.back();
    parts.pop_back();
    std::string name = path;
    if (parts.size() > 1 && parts.back() == kVars) {
      parts.pop_back();
      const Place place = follow(parts);
      const auto weights = weights_of(place.layer_class, place.config, counts_.at(group_of(path)));
      const std::optional<int64_t> at = parse_int(number);
      const bool known = at && *at >= 0 && static_cast<size_t>(*at) < weights.size();
      name = joined(place.name, known ? std::string(weights[static_cast<size_t>(*at)]) : number);
    }
    if (!names_.places.emplace(name, index).second) names_.places.emplace(path, index);
  }

  // The object at a path of groups.
  Place follow(const std::vector<std::string>& parts) {
    Place place{.config = config_};
    for (size_t i = 0; i < parts.size(); ++i) {
      place.path = joined(place.path, parts[i]);
      const bool is_list = parts[i] == "layers" || parts[i] == "_layer_checkpoint_dependencies";
      if (is_list && i + 1 < parts.size()) {
        ++i;
        enter_layer(place, parts[i]);
      } else {
        enter_part(place, parts[i]);
      }
    }
    return place;
  }

  // The name that the file itself knows; "" where it knows none.
  std::string told(const std::string& path) const {
    const auto texts = listing_.texts.find(joined(path, std::string(kVars)));
    if (texts == listing_.texts.end()) return "";
    const auto found = texts->second.find("name");
    return found == texts->second.end() || found->second.size() != 1 ? "" : found->second.front();
  }

  void enter_layer(Place& place, const std::string& group) {
    place.path = joined(place.path, group);
    const auto& groups = groups_at(place.config);
    const auto config = groups.find(group);
    place.config = config == groups.end() ? nullptr : config->second;
    std::string name = told(place.path);
    if (name.empty()) name = text_of_member(member(place.config, "config"), "name");
    if (name.empty()) {
      name = group;
      names_.by_class = true;
    }
    place.name = joined(place.name, name);
    place.layer_class = class_of_group(group);
  }

  // A part of a layer that is not a list: a cell, a direction, a projection.
  void enter_part(Place& place, const std::string& part) {
    static const std::map<std::string, std::string> kProjections = {
        {"query_dense", "query"},
        {"key_dense", "key"},
        {"value_dense", "value"},
        {"output_dense", "attention_output"}};
    const bool recurrent = place.layer_class == "lstm" || place.layer_class == "gru" ||
                           place.layer_class == "simple_rnn";
    if (part == "cell" && recurrent) return;
    // Keras 2 begins their names with a '_'.
    const auto projection = kProjections.find(part.starts_with('_') ? part.substr(1) : part);
    if (place.layer_class == "multi_head_attention" && projection != kProjections.end()) {
      place.name = joined(place.name, projection->second);
      place.layer_class = "einsum_dense";
      place.config = nullptr;
      return;
    }
    if (place.layer_class == "bidirectional" &&
        (part == "forward_layer" || part == "backward_layer")) {
      enter_direction(place, part == "forward_layer" ? "forward_" : "backward_");
      return;
    }
    place.name = joined(place.name, part);
    place.layer_class.clear();
    place.config = nullptr;
  }

  void enter_direction(Place& place, const std::string& direction) {
    const json* inner = member(member(place.config, "config"), "layer");
    std::string name = told(place.path);
    const std::string cell = told(joined(place.path, "cell"));
    if (name.empty() && inner != nullptr)
      name = direction + text_of_member(member(inner, "config"), "name");
    if (name.empty()) {
      name = direction + "layer";
      names_.by_class = true;
    }
    place.layer_class = formats::keras_group(text_of_member(inner, "class_name"));
    // Without a configuration the cell tells: "lstm_cell". All of them have the same weights.
    if (place.layer_class.empty()) place.layer_class = "lstm";
    place.name = joined(place.name, name);
    place.config = inner;
  }

  const std::map<std::string, const json*>& groups_at(const json* config) {
    const auto known = groups_.find(config);
    if (known != groups_.end()) return known->second;
    return groups_.emplace(config, groups_of(config)).first->second;
  }

  const HdfListing& listing_;
  const json* config_;
  std::map<std::string, size_t> counts_;  // of arrays in a group
  std::map<const json*, std::map<std::string, const json*>> groups_;
  KerasNames names_{.format = "Keras, format 3"};
};

// "first/kernel" of "sequential/first/kernel:0", which the layer "first" has: Keras 3 puts the
// model in front. A cell has no name here: "lstm/lstm_cell/kernel" is "lstm/kernel".
std::string legacy_name(const std::string& layer, const std::string& said) {
  std::string name = said;
  if (const size_t colon = name.rfind(':');
      colon != std::string::npos && colon + 1 < name.size() &&
      name.find_first_not_of("0123456789", colon + 1) == std::string::npos)
    name.resize(colon);
  std::vector<std::string> parts = split(name, '/');
  const auto from = std::ranges::find(parts, layer);
  if (from != parts.end()) parts.erase(parts.begin(), from);
  // The one before the last, behind the layer or the direction.
  if (parts.size() >= 3) {
    const auto cell = parts.end() - 2;
    if (std::ranges::count(kCells, class_of_group(*cell)) > 0) parts.erase(cell);
  }
  return join(parts, "/");
}

const std::vector<std::string>* texts_at(const HdfListing& listing, const std::string& path,
                                         const char* name) {
  const auto texts = listing.texts.find(path);
  if (texts == listing.texts.end()) return nullptr;
  const auto found = texts->second.find(name);
  return found == texts->second.end() ? nullptr : &found->second;
}

KerasNames name_legacy(const HdfListing& listing, const std::string& root,
                       const std::vector<std::string>& layers, const std::string& file) {
  KerasNames names{.format = "Keras, legacy"};
  std::map<std::string_view, size_t> by_path;
  for (size_t i = 0; i < listing.arrays.size(); ++i) {
    by_path[listing.arrays[i].path] = i;
    if (!root.empty() && listing.arrays[i].path.starts_with("optimizer_weights/"))
      ++names.of_optimizer;
  }
  // Weights of the model itself are in a group of no layer.
  std::vector<std::string> all = layers;
  all.push_back("top_level_model_weights");
  for (const std::string& layer : all) {
    const std::string group = joined(root, layer);
    const auto* weights = texts_at(listing, group, "weight_names");
    if (weights == nullptr) continue;
    for (const std::string& weight : *weights) {
      const auto place = by_path.find(joined(group, weight));
      if (place == by_path.end()) {
        throw corrupt(fmt::format("'{}': the layer \"{}\" names the weight \"{}\", and there is no "
                                  "array '{}'",
                                  file, layer, weight, joined(group, weight)),
                      "the file is damaged: take a copy from its source");
      }
      const std::string name = legacy_name(layer, weight);
      // Two layers may have weights of the same name, where models are in models.
      if (names.places.emplace(name, place->second).second) continue;
      names.places.emplace(joined(layer, name), place->second);
    }
  }
  return names;
}

// Whether an array is a weight as Keras 3 numbers them.
bool is_numbered(const HdfArray& array) {
  const std::vector<std::string> parts = split(array.path, '/');
  return parts.size() >= 2 && parts[parts.size() - 2] == kVars &&
         parts.back().find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

KerasNames name_weights(const HdfListing& listing, const std::string& config,
                        const std::string& file) {
  for (const char* root : {"", "model_weights"}) {
    if (const auto* layers = texts_at(listing, root, "layer_names"))
      return name_legacy(listing, root, *layers, file);
  }
  if (std::ranges::any_of(listing.arrays, is_numbered)) {
    json parsed;
    if (!config.empty())
      parsed = parse_json(config, "'" + file + "': config.json", ErrorKind::kCorrupt).value();
    return Namer(listing, config.empty() ? nullptr : &parsed).name();
  }
  KerasNames names{.format = "HDF5"};
  for (size_t i = 0; i < listing.arrays.size(); ++i) names.places[listing.arrays[i].path] = i;
  return names;
}

}  // namespace muster::inline v0_1::hdf
