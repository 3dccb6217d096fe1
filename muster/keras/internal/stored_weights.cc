#include "muster/keras/internal/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_format.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/manager.h"
#include "muster/checkpoint/read_tensors.h"
#include "muster/formats/keras_file.h"

namespace muster::inline v0_1::keras::internal {
namespace {

// The checkpoint or file that `path` means: itself, or the newest checkpoint of the folder.
std::string prefix_of(FileSystem& files, const std::string& path) {
  const Result<FileInfo> info = files.info(path);
  if (!info.ok() && info.error().kind() != ErrorKind::kNotFound) throw info.error();
  if (!info.ok() || !info.value().is_directory) return path;
  if (const auto latest = CheckpointManager(path).latest()) return *latest;
  throw not_found(fmt::format("there is no checkpoint in {}", path),
                  "name a .safetensors file, a checkpoint or a folder with checkpoints");
}

// The model's layers by what Keras calls the groups of a file: the class, in lower case and with
// '_' between words, and a number from the second on.
std::map<std::string, std::string> layers_by_class(const std::optional<formats::GraphDef>& graph) {
  std::map<std::string, std::string> layers;
  if (!graph) return layers;
  std::map<std::string, int> used;
  for (const formats::NodeDef& node : graph->nodes) {
    std::string name = node.name;
    // A layer that is called several times has several nodes: "dense/call_0", "dense/call_1".
    if (const size_t call = name.rfind("/call_"); call != std::string::npos) {
      if (!name.ends_with("/call_0")) continue;
      name.resize(call);
    }
    const std::string group = formats::keras_group(node.op);
    const int number = used[group]++;
    layers[number == 0 ? group : fmt::format("{}_{}", group, number)] =
        name.substr(name.rfind('/') + 1);
  }
  return layers;
}

// The model's names for the weights of a file.
class Renaming {
 public:
  Renaming(const std::vector<VariableSpec>& variables, std::map<std::string, std::string> layers)
      : layers_(std::move(layers)) {
    for (const VariableSpec& variable : variables)
      by_layer_[scope_of(variable.name)].push_back(variable.name);
  }

  std::string operator()(const std::string& name) const {
    const size_t slash = name.find('/');
    const auto layer = layers_.find(name.substr(0, slash));
    const std::string named = with_direction(layer == layers_.end() || slash == std::string::npos
                                                 ? name
                                                 : layer->second + name.substr(slash));
    const auto number = parse_int(named.substr(named.rfind('/') + 1));
    const auto variables = by_layer_.find(scope_of(named));
    const bool numbered = number && *number >= 0 && variables != by_layer_.end() &&
                          static_cast<size_t>(*number) < variables->second.size();
    if (numbered) return variables->second[static_cast<size_t>(*number)];
    // The kernel of a DepthwiseConv2D has this name in Keras 3.
    if (variables == by_layer_.end() || !named.ends_with("/kernel")) return named;
    const std::string depthwise = scope_of(named) + "/depthwise_kernel";
    const bool is_depthwise = variables->second.front() == depthwise;
    return is_depthwise ? depthwise : named;
  }

 private:
  // Older files know no names of what a Bidirectional calls: "both/forward_layer/kernel" is
  // "both/forward_gru/kernel" here.
  std::string with_direction(const std::string& name) const {
    for (const std::string direction : {"/forward_", "/backward_"}) {
      const std::string theirs = direction + "layer/";
      const size_t place = name.find(theirs);
      if (place == std::string::npos) continue;
      const std::string scope = name.substr(0, place) + direction;
      const auto ours = by_layer_.lower_bound(scope);
      if (ours != by_layer_.end() && ours->first.starts_with(scope))
        return ours->first + "/" + name.substr(place + theirs.size());
    }
    return name;
  }

  static std::string scope_of(const std::string& name) {
    const size_t slash = name.rfind('/');
    return slash == std::string::npos ? "" : name.substr(0, slash);
  }

  std::map<std::string, std::string> layers_;
  std::map<std::string, std::vector<std::string>> by_layer_;
};

// Leaves out the names of models in models where the variables here have none of them: those of a
// Sequential stand alone. Where several names would become one, they stay.
std::map<std::string, std::string> without_models(std::map<std::string, std::string> names,
                                                  const std::set<std::string>& wanted) {
  std::map<std::string, std::vector<std::string>> shorter;
  for (const auto& [here, name] : names) {
    if (wanted.contains(here)) continue;
    for (size_t slash = here.find('/'); slash != std::string::npos;
         slash = here.find('/', slash + 1)) {
      const std::string rest = here.substr(slash + 1);
      if (!wanted.contains(rest) || names.contains(rest)) continue;
      shorter[rest].push_back(here);
      break;
    }
  }
  for (const auto& [rest, longer] : shorter) {
    if (longer.size() > 1) continue;
    auto entry = names.extract(longer.front());
    entry.key() = rest;
    names.insert(std::move(entry));
  }
  return names;
}

}  // namespace

StoredWeights read_stored_weights(FileSystem& files, const std::string& path,
                                  const std::vector<VariableSpec>& variables,
                                  const std::optional<formats::GraphDef>& graph) {
  const std::string prefix = prefix_of(files, path);
  StoredWeights stored{.file = checkpoint_file(prefix)};
  if (files.exists(stored.file).value() || !find_checkpoint_format(files, prefix)) {
    // A file of another format that no part reads has an error of its own.
    if (!files.exists(stored.file).value()) (void)open_checkpoint(files, prefix);
    stored.tensors = read_tensors(files, stored.file);
    for (const auto& [name, value] : stored.tensors) stored.names.push_back(name);
    return stored;
  }
  stored.file = prefix;
  const auto reader = open_checkpoint(files, prefix);
  const bool by_class = reader->header().notes.contains(kLayersByClass);
  const Renaming renamed(variables,
                         by_class ? layers_by_class(graph) : std::map<std::string, std::string>());
  std::map<std::string, std::string> names;  // in the file, by those here
  for (const std::string& name : reader->names()) {
    if (name != kGlobalStep) names.emplace(renamed(name), name);
  }
  std::set<std::string> wanted;
  for (const VariableSpec& variable : variables) wanted.insert(variable.name);
  for (const auto& [here, name] : without_models(std::move(names), wanted)) {
    stored.names.push_back(here);
    if (wanted.contains(here)) stored.tensors.emplace(here, reader->read(name));
  }
  return stored;
}

}  // namespace muster::inline v0_1::keras::internal
