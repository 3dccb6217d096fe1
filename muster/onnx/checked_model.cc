#include "muster/onnx/checked_model.h"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::onnx {
namespace {

// LayerNormalization needs 17; onnxruntime 1.12 and newer run it.
constexpr int64_t kOpset = 17;
constexpr int64_t kMlOpset = 3;
constexpr int64_t kIrVersion = 8;

void add_opset(::onnx::ModelProto& model, const std::string& domain, int64_t version) {
  auto* opset = model.add_opset_import();
  opset->set_domain(domain);
  opset->set_version(version);
}

}  // namespace

::onnx::ModelProto checked_model(ConvertedGraph& converted) {
  ::onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("muster");
  add_opset(model, "", kOpset);
  if (converted.has_ml) add_opset(model, "ai.onnx.ml", kMlOpset);
  converted.graph.set_name("muster");
  model.mutable_graph()->Swap(&converted.graph);
  try {
    ::onnx::checker::check_model(model);
    ::onnx::shape_inference::InferShapes(
        model, ::onnx::OpSchemaRegistry::Instance(),
        ::onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict_mode=*/1, /*data_prop=*/true));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInternal,
                fmt::format("ONNX does not accept the converted model: {}", error.what()),
                "this is a mistake of Muster: report it with the model's layers");
  }
  return model;
}

}  // namespace muster::inline v0_1::onnx
