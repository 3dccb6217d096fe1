// Convolutions, recurrent layers and attention of programs.
#include <vector>

#include "muster/layers/attention.h"
#include "muster/layers/bidirectional.h"
#include "muster/layers/convolution.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/time_distributed.h"
#include "tests/peers/layer_options.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

Layer make_cell(const Json& described) {
  const std::string name = described.at("class");
  const Json& options = described.at("options");
  const int64_t units = options.at("units");
  if (name == "SimpleRNNCell") return SimpleRNNCell(units, common<SimpleRNNCellOptions>(options));
  if (name == "LSTMCell") return LSTMCell(units, common<LSTMCellOptions>(options));
  return GRUCell(units, common<GRUCellOptions>(options));
}

Layer of_cells(const Json& options) {
  std::vector<Layer> cells;
  for (const Json& cell : options.at("cells")) cells.push_back(make_cell(cell));
  return RNN(cells.size() == 1 ? cells[0] : StackedRNNCells(cells), common<RNNOptions>(options));
}

Layer both_ways(const Json& options) {
  BidirectionalOptions made;
  if (options.contains("merge_mode")) {
    const std::string mode =
        options.at("merge_mode").is_null() ? "none" : options.at("merge_mode").get<std::string>();
    made.merge_mode = mode == "sum"    ? MergeMode::kSum
                      : mode == "mul"  ? MergeMode::kMul
                      : mode == "ave"  ? MergeMode::kAve
                      : mode == "none" ? MergeMode::kNone
                                       : MergeMode::kConcat;
  }
  if (options.contains("backward_layer"))
    made.backward_layer = make_layer(options.at("backward_layer"));
  return Bidirectional(make_layer(options.at("layer")), made);
}

}  // namespace

Layer make_convolution(const std::string& name, const Json& options) {
  const Json& kernel = options.at("kernel_size");
  if (name == "DepthwiseConv2D")
    return DepthwiseConv2D(size_of(options, "kernel_size", Size2D(1)),
                           common<DepthwiseConv2DOptions>(options));
  const int64_t filters = options.at("filters");
  if (name == "Conv1D") {
    int64_t size = 1;
    take_size(kernel, size);
    return Conv1D(filters, size, common<Conv1DOptions>(options));
  }
  if (name == "Conv3D")
    return Conv3D(filters, size_of(options, "kernel_size", Size3D(1)),
                  common<Conv3DOptions>(options));
  const Size2D size = size_of(options, "kernel_size", Size2D(1));
  if (name == "Conv2D") return Conv2D(filters, size, common<Conv2DOptions>(options));
  if (name == "SeparableConv2D")
    return SeparableConv2D(filters, size, common<SeparableConv2DOptions>(options));
  auto made = common<Conv2DTransposeOptions>(options);
  if (options.contains("output_padding"))
    take_size(options.at("output_padding"), made.output_padding);
  return Conv2DTranspose(filters, size, made);
}

Layer make_recurrent(const std::string& name, const Json& options) {
  if (name == "RNN") return of_cells(options);
  if (name == "Bidirectional") return both_ways(options);
  if (name == "TimeDistributed") return TimeDistributed(make_layer(options.at("layer")));
  const int64_t units = options.at("units");
  if (name == "SimpleRNN") return SimpleRNN(units, common<SimpleRNNOptions>(options));
  if (name == "LSTM") return LSTM(units, common<LSTMOptions>(options));
  return GRU(units, common<GRUOptions>(options));
}

Layer make_attention(const std::string& name, const Json& options) {
  if (name == "Attention") {
    AttentionOptions made;
    take(options, "use_scale", made.use_scale);
    take(options, "causal", made.causal);
    take(options, "return_attention_scores", made.return_attention_scores);
    if (options.value("score_mode", "dot") == "concat") made.score_mode = ScoreMode::kConcat;
    return Attention(made);
  }
  MultiHeadAttentionOptions made;
  take(options, "value_dim", made.value_dim);
  take(options, "use_bias", made.use_bias);
  if (options.contains("output_shape")) {
    const Json& shape = options.at("output_shape");
    made.output_shape = shape.is_array() ? shape.get<std::vector<int64_t>>()
                                         : std::vector<int64_t>{shape.get<int64_t>()};
  }
  take(options, "attention_axes", made.attention_axes);
  take(options, "use_causal_mask", made.use_causal_mask);
  take(options, "return_attention_scores", made.return_attention_scores);
  return MultiHeadAttention(options.at("num_heads"), options.at("key_dim"), made);
}

}  // namespace muster::inline v0_1
