#include "muster/data/internal/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/data/internal/element_codec.h"
#include "muster/data/internal/file_names.h"
#include "muster/data/internal/path_list.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1::data::internal {
namespace {

std::string digest(const std::string& bytes) { return fmt::format("{:016x}", id_of(bytes)); }

std::string seed_text(const std::optional<uint64_t>& seed) {
  return seed ? fmt::format(" seed {}", *seed) : "";
}

// The parameters of a stage that its name does not contain.
struct ParametersOf {
  std::string operator()(const FromSource& from) const {
    const auto* paths = dynamic_cast<const PathList*>(from.source.get());
    return paths == nullptr ? "" : " " + paths->digest();
  }
  std::string operator()(const FromFiles& from) const {
    std::vector<std::string> paths;
    for (const FromFiles::File& file : from.files) paths.push_back(file.path);
    return " " + digest_of_names(paths);
  }
  std::string operator()(const Shuffle& shuffle) const {
    return seed_text(shuffle.seed) + (shuffle.reshuffle ? "" : " once");
  }
  std::string operator()(const Batch& batch) const {
    std::string text = batch.drop_remainder ? " whole" : "";
    if (batch.padding == nullptr) return text;
    for (const Shape& shape : batch.padding->padded_shapes) text += muster::describe(shape);
    for (const double value : batch.padding->padding_values) text += fmt::format(" {}", value);
    return text;
  }
  std::string operator()(const Map& map) const { return map.keyed ? " with a key" : ""; }
  std::string operator()(const Enumerate& enumerate) const {
    return fmt::format("({})", enumerate.start);
  }
  std::string operator()(const Rebatch& rebatch) const {
    return std::string(rebatch.drop_remainder ? " whole" : "") +
           (rebatch.ends_with_rows ? " of a worker" : "");
  }
  std::string operator()(const Interleave& interleave) const {
    return fmt::format("({}, {})", interleave.cycle_length, interleave.block_length);
  }
  std::string operator()(const Zip& zip) const { return "{" + join(zip.keys, ", ") + "}"; }
  std::string operator()(const Scan& scan) const {
    return " from " + digest(encode_values(scan.initial));
  }
  std::string operator()(const Window& window) const {
    return fmt::format("({}, {}, {}{}{})", window.size, window.shift, window.stride,
                       window.drop_remainder ? ", whole" : "", window.fn ? ", fn" : "");
  }
  std::string operator()(const GroupByWindow& group) const { return group.params; }
  std::string operator()(const Choose& choose) const {
    return fmt::format("({}{}{}){}", fmt::join(choose.weights, ", "),
                       choose.rerandomize ? "" : " once", choose.stop_on_empty ? " stops" : "",
                       seed_text(choose.seed));
  }
  template <typename T>
  std::string operator()(const T&) const {
    return "";
  }
};

// A sample of the first and the last element of a source; empty if they cannot be read.
std::string sample_of(const Node& node) {
  try {
    if (const auto* from = node.as<FromSource>(); from != nullptr && from->source->size() > 0) {
      const Source& source = *from->source;
      return digest(encode_values(source.element(0)) +
                    encode_values(source.element(source.size() - 1)));
    }
    if (const auto* from = node.as<FromFiles>(); from != nullptr && !from->files.empty()) {
      Element row;
      const std::string& path = from->files.front().path;
      if (from->format->open(file_systems(), path)->read(1, &row) == 1) {
        return digest(encode_values(row.slice(0, 1)));
      }
    }
  } catch (const std::exception&) {  // its fault is reported when it is read
  }
  return "";
}

void append_stages(const Node& node, const std::string& branch, json& stages) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    append_stages(*node.inputs[i],
                  node.inputs.size() > 1 ? fmt::format("{}input {}: ", branch, i) : branch, stages);
  }
  // These give the elements they get.
  if (node.is<Prefetch, Cache, AssertCardinality, WithOptions>()) return;
  stages.push_back({branch + node.name + std::visit(ParametersOf{}, node.spec), sample_of(node)});
}

}  // namespace

json fingerprint_of(const Node& node) {
  json stages = json::array();
  append_stages(node, "", stages);
  return stages;
}

std::string digest_of_stages(const json& fingerprint) {
  std::string all;
  for (const json& stage : fingerprint) all += stage.at(0).get<std::string>() + "\n";
  return digest(all);
}

std::string difference_of(const json& was, const json& is) {
  const size_t most = std::max(was.size(), is.size());
  const auto text_of_stage = [](const json& stages, size_t i) {
    return i < stages.size() ? stages[i].at(0).get<std::string>() : std::string("missing");
  };
  for (size_t i = 0; i < most; ++i) {
    const std::string before = text_of_stage(was, i), now = text_of_stage(is, i);
    if (before != now) return fmt::format("its stage {} was {}, here it is {}", i, before, now);
  }
  for (size_t i = 0; i < most; ++i) {
    const auto before = was[i].at(1).get<std::string>(), now = is[i].at(1).get<std::string>();
    if (before.empty() || now.empty() || before == now) continue;
    return fmt::format("its stage {}, {}, held other data", i, text_of_stage(is, i));
  }
  return "";
}

}  // namespace muster::inline v0_1::data::internal
