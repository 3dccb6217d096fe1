#include "muster/savedmodel/saved_model_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/bundles/saved_model_file.h"

namespace muster::inline v0_1::saved_model {
namespace {

using tensorflow::SavedModelFile;
using tensorflow::SavedTensorInfo;

std::map<std::string, std::string> forms_of(const std::map<std::string, SavedTensorInfo>& infos) {
  std::map<std::string, std::string> forms;
  for (const auto& [name, info] : infos)
    forms[name] = fmt::format("{}[{}]", describe(info.dtype), fmt::join(info.shape, ", "));
  return forms;
}

}  // namespace

SavedModelDescription describe_saved_model(Bytes bytes) {
  const SavedModelFile file{std::string(text_of(bytes))};
  SavedModelDescription described{.tags = file.tags()};
  for (const auto& [name, signature] : file.signatures()) {
    described.signatures[name] = {signature.method, forms_of(signature.inputs),
                                  forms_of(signature.outputs)};
  }
  for (const auto& node : file.nodes()) {
    ++described.operations[std::string(node.operation)];
    auto& inputs = described.nodes[std::string(node.name)];
    for (const std::string_view input : node.inputs()) inputs.emplace_back(input);
  }
  for (const auto& [name, function] : file.functions()) {
    for (const auto& node : function.nodes) ++described.operations[std::string(node.operation)];
  }
  return described;
}

}  // namespace muster::inline v0_1::saved_model
