// What holds for every layer: exported, it gives the numbers it gives here, at every batch size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/variable_table.h"
#include "muster/export/servable.h"
#include "muster/export/write_servable.h"
#include "muster/layers/activation_layers.h"
#include "muster/layers/activity_regularization.h"
#include "muster/layers/attention.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/bidirectional.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/lambda.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/masking.h"
#include "muster/layers/merge.h"
#include "muster/layers/noise.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recompute.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/rescaling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/resize_images.h"
#include "muster/layers/sequential.h"
#include "muster/layers/step_context.h"
#include "muster/layers/time_distributed.h"
#include "muster/layers/unary_layer.h"
#include "muster/layers/upsampling.h"
#include "muster/preprocessing/category_encoding.h"
#include "muster/preprocessing/center_crop.h"
#include "muster/preprocessing/discretization.h"
#include "muster/preprocessing/hashing.h"
#include "muster/preprocessing/integer_lookup.h"
#include "muster/preprocessing/normalization.h"
#include "muster/preprocessing/resizing.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

struct Example {
  Layer layer;
  Shape shape{};  // of one row
  DType dtype = kFloat32;
};

// Calls a layer with its input several times.
class FannedImpl final : public UnaryLayerImpl {
 public:
  FannedImpl(Layer layer, size_t times)
      : UnaryLayerImpl("fanned_" + layer.impl().identity().class_name, ""),
        layer_(std::move(layer)),
        times_(times) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    return layer_({.tensors = std::vector<Tensor>(times_, input)}, context).tensors[0];
  }

 private:
  Layer layer_;
  size_t times_;
};

Layer fanned(Layer layer, size_t times = 2) {
  return Layer(std::make_shared<FannedImpl>(std::move(layer), times));
}

std::vector<Example> with_weights() {
  const auto same = Padding::kSame;
  return {
      {Dense(3, {.activation = activations::relu}), {4}},
      {Dense(3), {2, 4}},
      {PReLU({.shared_axes = {1}}), {3, 4}},
      {Embedding(5, 3, {.mask_zero = true}), {4}, kInt64},
      {Embedding(5, 3, {.row_sparse = true}), {4}, kInt32},
      {Conv1D(3, 2, {.strides = 2, .padding = Padding::kCausal}), {5, 2}},
      {Conv2D(4, 3, {.padding = same, .dilation_rate = 2, .groups = 2}), {5, 4, 2}},
      {Sequential(
           {Conv2D(8, 3, {.activation = activations::relu}), MaxPooling2D(), Flatten(), Dense(3)}),
       {10, 10, 1}},
      {Conv3D(2, 2, {.strides = 2, .padding = same}), {3, 4, 3, 2}},
      {Conv2DTranspose(2, 3, {.strides = 2, .padding = same}), {3, 2, 2}},
      {DepthwiseConv2D(3, {.padding = same, .depth_multiplier = 2}), {4, 3, 2}},
      {SeparableConv2D(3, 2, {.activation = activations::gelu}), {4, 3, 2}},
      {BatchNormalization(), {4, 3, 2}},
      {LayerNormalization(), {3, 4}},
      {LayerNormalization({.axis = {1}}), {3, 4}},
      {GroupNormalization({.groups = 2}), {3, 2, 4}},
      {SimpleRNN(3), {4, 3}},
      {LSTM(3), {4, 3}},
      {LSTM(3, {.dropout = 0.3, .recurrent_dropout = 0.3, .return_sequences = true}), {4, 3}},
      {GRU(3, {.return_sequences = true}), {4, 3}},
      {GRU(3, {.use_bias = false, .go_backwards = true}), {4, 3}},
      {GRU(3, {.reset_after = false}), {4, 3}},
      {Sequential({Masking(0), LSTM(3)}), {4, 3}},
      {Sequential({Embedding(5, 3, {.mask_zero = true}), GRU(4)}), {6}, kInt64},
      {Bidirectional(LSTM(3, {.return_sequences = true})), {4, 3}},
      {RNN(StackedRNNCells({GRUCell(2), LSTMCell(3)})), {4, 3}},
      {TimeDistributed(Dense(3)), {4, 3}},
      {Recompute(Dense(3)), {4}},
      {fanned(Attention({.use_scale = true, .causal = true})), {4, 3}},
      {fanned(MultiHeadAttention(2, 3, {.use_causal_mask = true})), {4, 3}},
  };
}

std::vector<Example> without_weights() {
  const auto same = Padding::kSame;
  return {
      {ActivationLayer(activations::softmax), {4}},
      {ReLU({.max_value = 0.7, .negative_slope = 0.2, .threshold = 0.1}), {7}},
      {Softmax(1), {3, 4}},
      {ActivityRegularization({}), {3}},
      {MaxPooling1D({.pool_size = 3, .strides = 2, .padding = same}), {6, 2}},
      {MaxPooling2D({.pool_size = 3, .strides = 2, .padding = same}), {4, 5, 2}},
      {MaxPooling3D({.pool_size = 2, .strides = 1, .padding = same}), {2, 3, 3, 2}},
      {AveragePooling1D({.pool_size = 3, .strides = 2, .padding = same}), {6, 2}},
      {AveragePooling2D({.pool_size = 3, .strides = 2, .padding = same}), {4, 5, 2}},
      {GlobalMaxPooling1D(), {4, 3}},
      {GlobalAveragePooling3D(), {2, 3, 2, 3}},
      {ZeroPadding2D({{1, 0}, {2, 1}}), {3, 2, 2}},
      {Cropping2D({{1, 0}, {0, 1}}), {3, 3, 2}},
      {UpSampling1D(3), {3, 2}},
      {UpSampling2D({.size = {2, 3}, .interpolation = Interpolation::kBilinear}), {3, 2, 2}},
      {UpSampling2D({.size = {2, 3}, .interpolation = Interpolation::kLanczos3}), {3, 2, 2}},
      {UpSampling3D(), {2, 1, 2, 2}},
      {Flatten(), {3, 4}},
      {Reshape({-1, 2}), {3, 4}},
      {Permute({2, 1}), {3, 4}},
      {RepeatVector(3), {4}},
      {Dropout(0.4), {3, 4}},
      {SpatialDropout1D(0.4), {3, 4}},
      {GaussianNoise(0.5), {5}},
      {UnitNormalization(), {5}},
      {Rescaling(3, -1), {5}},
      {Lambda([](const Tensor& x) {
         return x.view({x.size(0), -1}) * 2;
       }),
       {2, 3}},
      {fanned(Add()), {3}},
      {fanned(Average(), 3), {3}},
      {fanned(Multiply()), {3}},
      {fanned(Maximum()), {3}},
      {fanned(Concatenate()), {2, 3}},
      {fanned(Dot(1)), {3}},
  };
}

// -1: an axis of any length.
std::vector<Example> of_any_length() {
  const auto same = Padding::kSame, causal = Padding::kCausal;
  const Shape steps{-1, 3};
  return {
      {SimpleRNN(3), steps},
      {LSTM(3), steps},
      {LSTM(3, {.dropout = 0.3, .recurrent_dropout = 0.3, .return_sequences = true}), steps},
      {GRU(3, {.return_sequences = true}), steps},
      {GRU(3, {.use_bias = false, .go_backwards = true}), steps},
      {GRU(3, {.reset_after = false}), steps},
      {Sequential({Masking(0), LSTM(3)}), steps},
      {Sequential({Embedding(5, 3, {.mask_zero = true}), GRU(4), Dense(2)}), {-1}, kInt64},
      {Sequential({LSTM(3, {.return_sequences = true}), GRU(2)}), steps},
      {Bidirectional(LSTM(3, {.return_sequences = true})), steps},
      {RNN(StackedRNNCells({GRUCell(2), LSTMCell(3)})), steps},
      {Sequential({Masking(0), RNN(StackedRNNCells({GRUCell(2), LSTMCell(3)}))}), steps},
      {Embedding(5, 3), {-1}, kInt32},
      {Sequential({Embedding(5, 3), GlobalAveragePooling1D(), Dense(1)}), {-1}, kInt64},
      {GlobalMaxPooling1D(), steps},
      {GlobalAveragePooling1D(), {-1, 8}},
      {GlobalAveragePooling2D(), {-1, -1, 2}},
      {Conv1D(3, 1), steps},
      {Conv1D(3, 3, {.padding = same}), steps},
      {Conv1D(3, 3, {.strides = 2, .padding = causal}), steps},
      {Conv2D(4, 3, {.padding = same, .dilation_rate = 2}), {-1, -1, 2}},
      {SeparableConv2D(3, 2, {.padding = same}), {4, -1, 2}},
      {MaxPooling1D({.pool_size = 3, .strides = 1, .padding = same}), steps},
      {Conv1D(3, 4, {.strides = 3, .padding = same}), steps},
      {Conv2D(2, 3, {.strides = 2, .padding = same}), {-1, -1, 2}},
      {MaxPooling1D({.pool_size = 3, .strides = 2, .padding = same}), steps},
      {AveragePooling1D({.pool_size = 3, .strides = 2, .padding = same}), steps},
      {AveragePooling2D({.pool_size = 3, .strides = 1, .padding = same}), {-1, -1, 2}},
      {Conv2DTranspose(2, 3, {.strides = 2, .padding = same}), {-1, 5, 2}},
      {Sequential({Conv1D(4, 3, {.padding = same, .activation = activations::relu}),
                   GlobalAveragePooling1D(), Dense(2)}),
       steps},
      {BatchNormalization(), steps},
      {LayerNormalization(), steps},
      {GroupNormalization({.groups = 2}), {-1, 4}},
      {TimeDistributed(Dense(3)), steps},
      {Dense(2), steps},
      {fanned(Attention({.use_scale = true, .causal = true})), steps},
      {fanned(MultiHeadAttention(2, 3, {.use_causal_mask = true})), steps},
      {ZeroPadding2D({{1, 0}, {2, 1}}), {-1, -1, 2}},
      {UpSampling1D(3), steps},
      {Permute({2, 1}), steps},
      {Reshape({-1, 3}), {-1, 2, 3}},
      {Softmax(1), steps},
      {Dropout(0.4), steps},
      {Rescaling(3, -1), {-1}},
      {Lambda([](const Tensor& x) {
         return x.view({x.size(0) * x.size(1), 3}).view({x.size(0), x.size(1) * 3}) * 2;
       }),
       steps},
      {fanned(Concatenate()), steps},
  };
}

std::vector<Example> preprocessing() {
  return {
      {Normalization({.mean = {1, 2, 3}, .variance = {4, 5, 6}}), {3}},
      {Discretization({.bin_boundaries = {0.2, 0.5, 0.7}}), {3}},
      {CategoryEncoding(4, {.output_mode = OutputMode::kMultiHot}), {3}, kInt64},
      {Resizing(5, 4), {3, 3, 2}},
      {Resizing(2, 2, {.interpolation = Interpolation::kArea}), {3, 3, 2}},
      {CenterCrop(2, 2), {4, 3, 1}},
  };
}

Tensor rows_for(const Example& example, int64_t rows, int64_t length = 6) {
  Shape shape{rows};
  for (const int64_t size : example.shape) shape.push_back(size < 0 ? length++ : size);
  const Tensor places = torch::arange(c10::multiply_integers(shape), kFloat64).reshape(shape);
  const Tensor numbers = (places * 12.9898 + 0.1 * static_cast<double>(rows)).sin();
  return at::isFloatingType(example.dtype) ? numbers.to(example.dtype)
                                           : numbers.abs().mul(4).floor().to(example.dtype);
}

// A layer after a ServableSource.
struct Exported {
  explicit Exported(const Example& example) {
    source.receiver = raw_serving_input_receiver({{"x", {example.dtype, example.shape}}});
    source.function = [this, example](const ServableSource::Tensors& features) {
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput(call(example, features.at("x")))}};
    };
    (void)call(example, rows_for(example, 2));
    for (const auto& variable : store.variables())
      source.weights.emplace_back(variable->name(), variable->value());
  }

  Tensor call(const Example& example, const Tensor& x) {
    const torch::NoGradGuard no_grad;
    context.begin_step(/*training=*/false, 0, 0);
    return example.layer(x, context);
  }

  distribute::VariableTable store{7};
  StepContext context{store, 11};
  ServableSource source;
};

struct Size {
  int64_t rows;
  int64_t length = 6;
};

void check(const Example& example,
           const std::vector<Size>& sizes = {{.rows = 1}, {.rows = 3}, {.rows = 17}}) {
  SCOPED_TRACE(example.layer.impl().identity().class_name);
  const TempDirectory directory;
  Exported exported(example);
  try {
    write_servable(local_file_system(), directory.path(), exported.source);
    const Servable model(directory.path());
    for (const auto& [rows, length] : sizes) {
      const Tensor x = rows_for(example, rows, length);
      const Tensor expected = exported.call(example, x);
      const Tensor got = model.run(kServingDefault, {{"x", x}}).at("output");
      ASSERT_EQ(got.sizes(), expected.sizes());
      ASSERT_EQ(got.scalar_type(), expected.scalar_type());
      EXPECT_TRUE(at::allclose(got, expected, 1e-4, 1e-5)) << rows << " rows, " << length;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

TEST(EveryExportedLayer, WithWeightsGivesTheSameNumbers) {
  for (const Example& each : with_weights()) check(each);
}

TEST(EveryExportedLayer, WithoutWeightsGivesTheSameNumbers) {
  for (const Example& each : without_weights()) check(each);
}

TEST(EveryExportedLayer, OfAnyLengthGivesTheSameNumbers) {
  std::vector<Size> sizes;
  for (const int64_t length : {1, 2, 7, 50}) {
    for (const int64_t rows : {1, 3, 8}) sizes.push_back({rows, length});
  }
  for (const Example& each : of_any_length()) check(each, sizes);
}

TEST(EveryExportedLayer, OfPreprocessingGivesTheSameNumbers) {
  for (const Example& each : preprocessing()) check(each);
}

TEST(EveryExportedLayer, AFunctionalModelGivesTheSameNumbers) {
  const SymbolicTensor x = Input({4});
  const SymbolicTensor hidden = Dense(4, {.activation = activations::tanh})(x);
  check({Functional({x}, {Add()({x, hidden})}), {4}});
}

// What it does with its values is not an operation of LibTorch.
TEST(EveryExportedLayer, ThatCannotBeExportedIsNamed) {
  const auto said = [](const Example& example) {
    const TempDirectory directory;
    Exported exported(example);
    const Error error =
        error_of([&] { write_servable(local_file_system(), directory.path(), exported.source); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  EXPECT_THAT(said({Hashing(3), {2}, kInt64}),
              HasSubstr("not supported: exporting the layer Hash"));
  EXPECT_THAT(said({IntegerLookup({.vocabulary = {3, 5}}), {2}, kInt64}),
              HasSubstr("not supported: exporting the layer IntegerLookup"));
}

}  // namespace
}  // namespace muster::inline v0_1
