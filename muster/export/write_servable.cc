#include "muster/export/write_servable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/export/free_axes.h"
#include "muster/export/internal/description.h"
#include "muster/export/internal/export_comparison.h"
#include "muster/export/internal/length_plan.h"
#include "muster/export/internal/request_rows.h"
#include "muster/export/internal/trace.h"
#include "muster/export/internal/write_formats.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1 {
namespace {

using internal::GroupLengths;
using internal::LengthPlan;
using internal::NamedTensors;
using internal::Outputs;
using internal::ServableDescription;

// Batches of these sizes are traced.
constexpr int64_t kTraced = 3, kTracedToo = 5;

// The batches that a model is traced with: the first one, each size changed alone, and, if there
// are lengths besides the batch, all changed together.
struct TracedSizes {
  int64_t rows;
  GroupLengths lengths;
};

std::vector<TracedSizes> traced_sizes(const LengthPlan& plan) {
  std::vector<TracedSizes> all{{kTraced, plan.base}, {kTracedToo, plan.base}};
  for (size_t group = 0; group < plan.of.size(); ++group) {
    all.push_back({kTraced, plan.base});
    all.back().lengths[group] = plan.other[group];
  }
  if (!plan.of.empty()) all.push_back({kTracedToo - 1, plan.third});
  return all;
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

// The form of an output, by batches of different sizes. An output with an axis for the batch has it
// first: the server would else give one client the rows of another.
TensorInfo info_of(const std::string& name, const std::vector<Tensor>& each,
                   const std::vector<TracedSizes>& sizes) {
  TensorInfo info{each.front().scalar_type(), each.front().sizes().vec()};
  for (const Tensor& other : each) {
    for (size_t axis = 0; axis < info.shape.size(); ++axis) {
      const auto place = static_cast<int64_t>(axis);
      if (other.dim() != each.front().dim() || other.size(place) != each.front().size(place))
        info.shape[axis] = -1;
    }
  }
  for (size_t i = 2; i < each.size(); ++i) {
    const bool follows_length = sizes[i].rows == kTraced && each[i].dim() > 0 &&
                                each[i].dim() == each.front().dim() &&
                                each[i].size(0) != each.front().size(0);
    if (!follows_length) continue;
    throw invalid_argument(
        fmt::format("export_model: axis 0 of the output \"{}\" follows a length of the features: "
                    "{} for {} rows",
                    name, describe(each[i]), sizes[i].rows),
        "axis 0 of an output is the batch: transpose the output");
  }
  return info;
}

// `outputs` are those of the batches of traced_sizes().
ServableDescription describe_model(const ServableSource& source, const LengthPlan& plan,
                                   const std::vector<Outputs>& outputs) {
  const Outputs& first = outputs.front();
  ServableDescription description{.global_step = source.global_step,
                                  .checkpoint = source.checkpoint,
                                  .keys = keys_of(first),
                                  .parsing = source.receiver.parsing,
                                  .columns = source.receiver.columns};
  description.lengths = plan.ranges;
  std::map<std::string, TensorInfo> inputs;
  for (const auto& [name, feature] : source.receiver.features) {
    description.arguments.push_back(name);
    Shape shape{-1};
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
    inputs[name] = {feature.dtype, std::move(shape)};
    if (feature.texts) description.texts[name] = *feature.texts;
    if (feature.may_be_missing) description.may_be_missing.insert(name);
  }
  std::vector<NamedTensors> tensors;
  for (const Outputs& each : outputs) tensors.push_back(internal::by_key(each, description.keys));
  for (const auto& [name, output] : first) {
    Signature signature{.method = output.method,
                        .inputs = inputs,
                        .classes = output.classes,
                        .texts = description.texts,
                        .may_be_missing = description.may_be_missing,
                        .takes_examples = source.receiver.parsing.has_value()};
    for (const auto& [key, tensor] : output.outputs) {
      std::vector<Tensor> each;
      for (const NamedTensors& batch : tensors)
        each.push_back(batch.at(description.keys.at(name).at(key)));
      signature.outputs[key] = info_of(key, each, traced_sizes(plan));
    }
    description.signatures[name] = std::move(signature);
  }
  return description;
}

// The module computes one length alone.
Error follows_no_length(const internal::SizeDeviation& deviation, const LengthPlan& plan) {
  const size_t changed = deviation.trace;  // an element of traced_sizes()
  const TracedSizes sizes = traced_sizes(plan)[changed];
  std::string what = "a batch of any size";
  std::string at = fmt::format("{} rows", sizes.rows);
  if (changed > 1) {
    const bool one = changed - 2 < plan.of.size();
    const size_t group = one ? changed - 2 : 0;
    what = fmt::format("any length of {}", plan.name_of(group));
    at = fmt::format("the length {}{}", sizes.lengths[group],
                     one ? "" : fmt::format(" and {} rows", sizes.rows));
  }
  return invalid_argument(
      fmt::format("not supported: exporting {}: at {} the traced model function differs: {}", what,
                  at, deviation.what),
      "a C++ loop over the axis, a branch on its length, and a number or tensor that C++ computes "
      "of the length hold for one length: use operations on the whole tensor, or the layers LSTM, "
      "GRU, SimpleRNN and RNN; or give the axis its greatest size, and let clients pad the rows");
}

std::string traced_bytes(const ServableSource& source, const LengthPlan& plan,
                         const ServableDescription& description) {
  internal::TraceSource traced{.function =
                                   [&](const NamedTensors& features) {
                                     return internal::by_key(source.function(features),
                                                             description.keys);
                                   },
                               .weights = source.weights,
                               .sources = {{}}};
  // Where to read the length of a group: its first axis.
  for (const internal::LengthRange& range : plan.ranges) {
    const auto argument = source.receiver.features.find(range.axes.front().feature);
    traced.sources.push_back(
        {static_cast<size_t>(std::distance(source.receiver.features.begin(), argument)),
         range.axes.front().axis});
  }
  for (const auto& [rows, lengths] : traced_sizes(plan)) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), lengths.begin(), lengths.end());
    traced.samples.push_back(
        {internal::batch_of(source.receiver, rows, plan.by_axis(lengths)), std::move(sizes)});
  }
  try {
    const internal::Traced model = internal::trace(traced);
    // Without lengths the comparison says what is wrong.
    if (model.deviation && !plan.of.empty()) throw follows_no_length(*model.deviation, plan);
    std::ostringstream stream;
    model.module.save(stream);
    return stream.str();
  } catch (const c10::Error& error) {
    throw invalid_argument("not supported: the model cannot be traced: " + text_of(error));
  }
}

// Feature columns and tf.Examples come to the model with sizes that are known.
void check_free_axes(const ServingInputReceiver& receiver) {
  for (const auto& [feature, axis] : free_axes(receiver)) {
    if (receiver.columns == nullptr && !receiver.parsing) return;
    throw invalid_argument(
        fmt::format("not supported: exporting axis {} of the feature \"{}\" with any length: {}",
                    axis, feature,
                    receiver.columns != nullptr ? "feature columns come before the model"
                                                : "it is parsed of tf.Examples"),
        "give the axis its greatest size");
  }
}

std::vector<Tensor> tensors_of(const Outputs& signatures) {
  std::vector<Tensor> tensors;
  for (const auto& [signature, output] : signatures) {
    for (const auto& [name, tensor] : output.outputs) tensors.push_back(tensor);
  }
  return tensors;
}

}  // namespace

void write_servable(FileSystem& files, const std::string& directory, const ServableSource& source) {
  const torch::NoGradGuard no_grad;
  check_free_axes(source.receiver);
  const LengthPlan plan = internal::plan_lengths(
      source.receiver,
      [&](const NamedTensors& features) { return tensors_of(source.function(features)); });
  std::vector<Outputs> outputs;
  for (const auto& [rows, lengths] : traced_sizes(plan)) {
    outputs.push_back(
        source.function(internal::batch_of(source.receiver, rows, plan.by_axis(lengths))));
    if (outputs.size() == 1 && !outputs.front().contains(kServingDefault)) {
      throw invalid_argument(
          fmt::format("export_model: there is no signature \"{}\"", kServingDefault));
    }
  }
  ServableDescription description = describe_model(source, plan, outputs);
  const std::string bytes = traced_bytes(source, plan, description);
  internal::compare_export(bytes, {source.function, source.receiver, description, plan,
                                   fmt::format("{} and {} rows", kTraced, kTracedToo)});

  files.write_atomically(join_path(directory, internal::kModuleFile), bytes).value();
  Checkpoint weights{.global_step = source.global_step};
  for (const auto& [name, value] : source.weights) weights.tensors[name] = value.detach();
  const std::string weights_path = join_path(directory, internal::kWeightsFile);
  write_checkpoint(files, weights_path, weights);
  description.files.emplace();
  (*description.files)[internal::kModuleFile] = formats::digest_of(bytes_of(bytes));
  (*description.files)[internal::kWeightsFile] =
      formats::digest_of_file(files, weights_path).value();
  internal::write_formats(files, directory, source.formats, bytes, description);
  files.write_atomically(join_path(directory, internal::kSignaturesFile), to_json(description))
      .value();
}

}  // namespace muster::inline v0_1
