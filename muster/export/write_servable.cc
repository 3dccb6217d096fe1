#include "muster/export/write_servable.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/export/internal/description.h"
#include "muster/export/internal/trace.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1 {
namespace {

using internal::NamedTensors;
using internal::ServableDescription;
using Outputs = std::map<std::string, ExportOutput>;

// Batches of these sizes are traced, and the others compared: 1 is the usual one, and 8 is larger.
constexpr int64_t kTraced = 3, kTracedToo = 5;
constexpr int64_t kCompared[] = {1, 8};
// How often a row of wide numbers is compared: a branch on the value of a sum goes either way.
constexpr uint64_t kWideRows = 8;

// Numbers for floats without examples.
struct Numbers {
  double least = 0, most = 1;
  uint64_t draw = 0;  // others for another one
};

// Rows for one feature: examples, or numbers that differ from call to call. Ids of feature columns
// are -1, none, or 0: every table has row 0, and some have no other.
Tensor rows_of(const std::string& name, const ServingFeature& feature, bool is_ids, int64_t rows,
               const Numbers& numbers) {
  if (feature.example) {
    return feature.example->index_select(
        0, torch::arange(rows, at::kLong).remainder(feature.example->size(0)));
  }
  Shape shape{rows};
  shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
  Random random(derive_key(static_cast<uint64_t>(rows), {id_of(name), numbers.draw}));
  Tensor values = torch::empty(shape, at::kDouble);
  double* value = values.data_ptr<double>();
  const bool floats = at::isFloatingType(feature.dtype);
  for (int64_t i = 0; i < values.numel(); ++i)
    value[i] = floats ? numbers.least + (numbers.most - numbers.least) * random.uniform()
                      : static_cast<double>(random.uniform_below(2)) - (is_ids ? 1 : 0);
  return values.to(feature.dtype);
}

NamedTensors batch_of(const ServingInputReceiver& receiver, int64_t rows,
                      const Numbers& numbers = {}) {
  NamedTensors batch;
  for (const auto& [name, feature] : receiver.features) {
    const bool is_ids = receiver.columns != nullptr && name.ends_with("/ids");
    batch[name] = rows_of(name, feature, is_ids, rows, numbers);
  }
  return batch;
}

// Gives each tensor that is offered one name among the module's outputs, however often it is
// offered: its own, or "<signature>/<name>" where another has that.
std::map<std::string, internal::OutputKeys> keys_of(const Outputs& signatures) {
  std::map<std::string, internal::OutputKeys> keys;
  std::map<std::string, Tensor> taken;
  for (const auto& [signature, output] : signatures) {
    for (const auto& [name, tensor] : output.outputs) {
      const auto same = std::find_if(taken.begin(), taken.end(),
                                     [&](const auto& each) { return each.second.is_same(tensor); });
      std::string key = same != taken.end() ? same->first : name;
      if (same == taken.end() && taken.contains(name)) key = signature + "/" + name;
      taken.emplace(key, tensor);
      keys[signature][name] = key;
    }
  }
  return keys;
}

NamedTensors by_key(const Outputs& signatures,
                    const std::map<std::string, internal::OutputKeys>& keys) {
  NamedTensors all;
  for (const auto& [signature, outputs] : keys) {
    const auto found = signatures.find(signature);
    for (const auto& [name, key] : outputs) {
      if (found == signatures.end() || !found->second.outputs.contains(name)) {
        throw invalid_argument(
            fmt::format("export_model: the signature \"{}\" gave \"{}\" for one batch and not for "
                        "another",
                        signature, name),
            "export_outputs must not depend on the batch");
      }
      all.emplace(key, found->second.outputs.at(name));
    }
  }
  return all;
}

// The form of an output, by two batches of different sizes.
TensorInfo info_of(const Tensor& first, const Tensor& second) {
  TensorInfo info{first.scalar_type(), first.sizes().vec()};
  for (size_t axis = 0; axis < info.shape.size(); ++axis) {
    const auto place = static_cast<int64_t>(axis);
    if (second.dim() != first.dim() || second.size(place) != first.size(place))
      info.shape[axis] = -1;
  }
  return info;
}

ServableDescription describe_model(const ServableSource& source, const Outputs& first,
                                   const Outputs& second) {
  ServableDescription description{.global_step = source.global_step,
                                  .checkpoint = source.checkpoint,
                                  .keys = keys_of(first),
                                  .parsing = source.receiver.parsing,
                                  .columns = source.receiver.columns};
  std::map<std::string, TensorInfo> inputs;
  for (const auto& [name, feature] : source.receiver.features) {
    description.arguments.push_back(name);
    Shape shape{-1};
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
    inputs[name] = {feature.dtype, std::move(shape)};
    if (feature.texts) description.texts[name] = *feature.texts;
    if (feature.may_be_missing) description.may_be_missing.insert(name);
  }
  const NamedTensors other = by_key(second, description.keys);
  for (const auto& [name, output] : first) {
    Signature signature{.method = output.method,
                        .inputs = inputs,
                        .classes = output.classes,
                        .texts = description.texts,
                        .may_be_missing = description.may_be_missing,
                        .takes_examples = source.receiver.parsing.has_value()};
    for (const auto& [key, tensor] : output.outputs)
      signature.outputs[key] = info_of(tensor, other.at(description.keys.at(name).at(key)));
    description.signatures[name] = std::move(signature);
  }
  return description;
}

std::string names_of(const std::map<std::string, internal::OutputKeys>& keys) {
  std::set<std::string> names;
  for (const auto& [signature, outputs] : keys) {
    for (const auto& [name, key] : outputs) names.insert(name);
  }
  return join_quoted({names.begin(), names.end()});
}

void compare_output(const std::string& name, const Tensor& expected, const Tensor& got,
                    int64_t rows) {
  const std::string hint =
      "what the model function computes must follow the number of rows, and use tensors alone: "
      "no branch on sizes or values, no loop over rows, no random numbers";
  const std::string begin = fmt::format(
      "export_model: the exported output \"{}\" differs from the model function's at a "
      "batch size of {}: ",
      name, rows);
  if (got.scalar_type() != expected.scalar_type() || got.sizes() != expected.sizes())
    throw invalid_argument(begin + describe(got) + " rather than " + describe(expected), hint);
  if (expected.numel() == 0) return;
  const bool exact = !expected.is_floating_point();
  const Tensor a = expected.to(kFloat64), b = got.to(kFloat64);
  const double tolerance = expected.element_size() < 4 ? 2e-2 : 1e-4;
  if (at::allclose(b, a, exact ? 0 : tolerance, exact ? 0 : tolerance, /*equal_nan=*/true)) return;
  throw invalid_argument(
      begin + fmt::format("by up to {:.3g}", (a - b).abs().nan_to_num(1e300).max().item<double>()),
      hint);
}

// Compares what is written with `expected`, what the function gave for a batch of this many rows.
void compare_batch(const torch::jit::Method& forward, const NamedTensors& batch, int64_t rows,
                   const Outputs& expected, const ServableDescription& description) {
  (void)by_key(expected, description.keys);  // the outputs are those of the other batches
  NamedTensors got;
  try {
    got = internal::call(forward, batch);
  } catch (const std::exception& error) {
    throw invalid_argument(
        fmt::format("export_model: the exported model cannot compute {} at a batch size of {}: {}",
                    names_of(description.keys), rows, internal::cause_of(error)),
        fmt::format("it was traced at {} and {} rows, and must fit all: no loop over rows, and "
                    "sizes as -1",
                    kTraced, kTracedToo));
  }
  // Outputs that were one tensor in the trace need not be one here.
  for (const auto& [signature, outputs] : description.keys) {
    for (const auto& [name, key] : outputs)
      compare_output(name, expected.at(signature).outputs.at(name), got.at(key), rows);
  }
}

// Compares what is written with the function, at sizes and on numbers that were not traced.
void compare_with_function(const std::string& bytes, const ServableSource& source,
                           const ServableDescription& description) {
  std::istringstream stream(bytes);
  torch::jit::Module module = torch::jit::load(stream);
  const torch::jit::Method forward = module.get_method("forward");
  for (const int64_t rows : kCompared) {
    const NamedTensors batch = batch_of(source.receiver, rows);
    compare_batch(forward, batch, rows, source.function(batch), description);
  }
  for (uint64_t draw = 0; draw < kWideRows; ++draw) {
    const NamedTensors batch = batch_of(source.receiver, 1, {-4, 4, draw});
    Outputs expected;
    try {
      expected = source.function(batch);
    } catch (const std::exception&) {
      return;  // the model takes no such numbers
    }
    compare_batch(forward, batch, 1, expected, description);
  }
}

std::string traced_bytes(const ServableSource& source, const ServableDescription& description) {
  try {
    torch::jit::Module module =
        internal::trace({.function =
                             [&](const NamedTensors& features) {
                               return by_key(source.function(features), description.keys);
                             },
                         .weights = source.weights,
                         .inputs = batch_of(source.receiver, kTraced),
                         .other_inputs = batch_of(source.receiver, kTracedToo)});
    std::ostringstream stream;
    module.save(stream);
    return stream.str();
  } catch (const c10::Error& error) {
    throw invalid_argument("not supported: the model cannot be traced: " + text_of(error));
  }
}

}  // namespace

void write_servable(FileSystem& files, const std::string& directory, const ServableSource& source) {
  const torch::NoGradGuard no_grad;
  const Outputs first = source.function(batch_of(source.receiver, kTraced));
  if (!first.contains(kServingDefault)) {
    throw invalid_argument(
        fmt::format("export_model: there is no signature \"{}\"", kServingDefault));
  }
  const Outputs second = source.function(batch_of(source.receiver, kTracedToo));
  ServableDescription description = describe_model(source, first, second);
  const std::string bytes = traced_bytes(source, description);
  compare_with_function(bytes, source, description);

  files.write_atomically(join_path(directory, internal::kModuleFile), bytes).value();
  Checkpoint weights{.global_step = source.global_step};
  for (const auto& [name, value] : source.weights) weights.tensors[name] = value.detach();
  const std::string weights_path = join_path(directory, internal::kWeightsFile);
  write_checkpoint(files, weights_path, weights);
  description.files.emplace();
  (*description.files)[internal::kModuleFile] = formats::digest_of(bytes_of(bytes));
  (*description.files)[internal::kWeightsFile] =
      formats::digest_of_file(files, weights_path).value();
  files.write_atomically(join_path(directory, internal::kSignaturesFile), to_json(description))
      .value();
}

}  // namespace muster::inline v0_1
