#include "muster/canned/internal/rnn_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/canned/internal/error_context.h"
#include "muster/layers/dense.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/sequential.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

const std::string kRnnModel = "rnn_model";  // a scope keeps a pointer to its name
constexpr const char* kSimple = "simple_rnn";

std::string text_of(const std::vector<int64_t>& units) {
  return fmt::format("[{}]", fmt::join(units, ", "));
}

void check_cells(const std::string& estimator, const RnnPartOptions& options) {
  const std::vector<int64_t>& units = options.units;
  if (options.rnn_cell_fn) {
    if (units.empty() && options.cell_type.empty()) return;
    throw invalid_argument(
        fmt::format("{}: units is {}, cell_type is \"{}\" and rnn_cell_fn is set", estimator,
                    text_of(units), options.cell_type),
        "an rnn_cell_fn makes the cell: leave units and cell_type out");
  }
  if (units.empty() || std::any_of(units.begin(), units.end(), [](int64_t n) { return n < 1; })) {
    throw invalid_argument(
        fmt::format("{}: units is {}; it must be the sizes of one or more recurrent layers, each "
                    "at least 1",
                    estimator, text_of(units)),
        "{32, 16} are two layers; or give an rnn_cell_fn");
  }
}

template <typename Options>
Options named(const std::string& name, bool return_sequences) {
  Options options;
  options.name = name;
  options.return_sequences = return_sequences;
  return options;
}

Layer recurrent_layer(const std::string& estimator, const std::string& type, int64_t units,
                      const std::string& name, bool return_sequences) {
  if (type.empty() || type == kSimple)
    return SimpleRNN(units, named<SimpleRNNOptions>(name, return_sequences));
  if (type == "lstm") return LSTM(units, named<LSTMOptions>(name, return_sequences));
  if (type == "gru") return GRU(units, named<GRUOptions>(name, return_sequences));
  throw unknown_name(estimator + ": its choice of cells", "cell_type", type,
                     {kSimple, "lstm", "gru"}, "give one of these, or an rnn_cell_fn");
}

// Several cells are as many layers: each reads all steps, and a step that does not count leaves the
// state of all of them unchanged, so the numbers equal those of StackedRNNCells(), computed faster.
Layer network(const std::string& estimator, const RnnPartOptions& options, int64_t units) {
  check_cells(estimator, options);
  std::vector<Layer> layers;
  if (options.rnn_cell_fn) {
    layers.push_back(
        RNN(options.rnn_cell_fn(), named<RNNOptions>("rnn", options.return_sequences)));
  }
  for (size_t i = 0; i < options.units.size(); ++i) {
    const bool last = i + 1 == options.units.size();
    layers.push_back(recurrent_layer(estimator, options.cell_type, options.units[i],
                                     i == 0 ? "rnn" : fmt::format("rnn_{}", i),
                                     !last || options.return_sequences));
  }
  layers.push_back(Dense(units, {.name = "logits"}));
  return Sequential(std::move(layers));
}

}  // namespace

RnnPart::RnnPart(std::string estimator, const RnnPartOptions& options, int64_t units)
    : estimator_(std::move(estimator)),
      sequences_(with_error_context(estimator_,
                                    [&] {
                                      return SequenceFeatures(options.sequence_feature_columns,
                                                              {.name = "sequence_features"});
                                    })),
      network_(
          with_error_context(estimator_, [&] { return network(estimator_, options, units); })) {
  if (options.context_feature_columns.empty()) return;
  context_ = with_error_context(estimator_, [&] {
    return DenseFeatures(options.context_feature_columns, {.name = "dense_features"});
  });
}

RnnPart::Output RnnPart::operator()(const Features& features, ModelContext& context) const {
  const LayerInputs columns =
      with_error_context(estimator_, [&] { return sequences_.inputs(features); });
  LayerInputs input;
  {
    const CallContext::Scope scope(context.calls(), kRnnModel);
    input = Layer(sequences_)(columns, context.calls());
    if (context_) {
      const LayerInputs given =
          with_error_context(estimator_, [&] { return context_->inputs(features); });
      const Tensor numbers = Layer(*context_)(given, context.calls()).tensors.front();
      input.tensors = {feature_column::concatenate_context_input(numbers, input.tensors.front())};
    }
  }
  const Tensor mask = input.masks.front();
  if (context.summary().due()) {
    const auto scope = context.summary().scope(kRnnModel + "/sequence_input_layer");
    context.summary().histogram("sequence_length", mask.sum(1).to(at::kFloat));
  }
  const Tensor logits =
      context.model(kRnnModel, [this] { return network_; })(input).tensors.front();
  return {.logits = logits, .mask = mask};
}

}  // namespace muster::inline v0_1::internal
