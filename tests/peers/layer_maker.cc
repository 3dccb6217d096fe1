#include "tests/peers/layer_maker.h"

#include <array>
#include <vector>

#include "muster/layers/activation_layers.h"
#include "muster/layers/activity_regularization.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/constraints.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/masking.h"
#include "muster/layers/merge.h"
#include "muster/layers/noise.h"
#include "muster/layers/padding.h"
#include "muster/layers/pooling.h"
#include "muster/layers/regularizers.h"
#include "muster/layers/rescaling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/upsampling.h"
#include "tests/peers/layer_options.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

Margin margin(const Json& given) {
  return given.is_array() ? Margin(given.at(0), given.at(1)) : Margin(given.get<int64_t>());
}

Margins2D margins_2d(const Json& given) {
  return given.is_array() ? Margins2D(margin(given.at(0)), margin(given.at(1)))
                          : Margins2D(given.get<int64_t>());
}

Margins3D margins_3d(const Json& given) {
  return given.is_array() ? Margins3D(margin(given.at(0)), margin(given.at(1)), margin(given.at(2)))
                          : Margins3D(given.get<int64_t>());
}

// Axes as Keras takes them: a number or a list.
std::vector<int64_t> axes_of(const Json& options) {
  if (!options.contains("axis")) return {-1};
  const Json& axis = options.at("axis");
  return axis.is_array() ? axis.get<std::vector<int64_t>>()
                         : std::vector<int64_t>{axis.get<int64_t>()};
}

Layer pooling(const std::string& name, const Json& options) {
  const std::string kind = name.substr(0, name.size() - 2);
  const char axes = name[name.size() - 2];
  const bool largest = kind == "MaxPooling";
  if (axes == '1') {
    const auto made = common<Pooling1DOptions>(options);
    return largest ? MaxPooling1D(made) : AveragePooling1D(made);
  }
  if (axes == '2') {
    const auto made = common<Pooling2DOptions>(options);
    return largest ? MaxPooling2D(made) : AveragePooling2D(made);
  }
  const auto made = common<Pooling3DOptions>(options);
  return largest ? MaxPooling3D(made) : AveragePooling3D(made);
}

Layer global_pooling(const std::string& name, const Json& options) {
  const auto made = common<GlobalPoolingOptions>(options);
  if (name == "GlobalMaxPooling1D") return GlobalMaxPooling1D(made);
  if (name == "GlobalMaxPooling2D") return GlobalMaxPooling2D(made);
  if (name == "GlobalMaxPooling3D") return GlobalMaxPooling3D(made);
  if (name == "GlobalAveragePooling1D") return GlobalAveragePooling1D(made);
  if (name == "GlobalAveragePooling2D") return GlobalAveragePooling2D(made);
  return GlobalAveragePooling3D(made);
}

Layer margins(const std::string& name, const Json& options) {
  const Json given =
      options.contains("padding") ? options.at("padding") : options.value("cropping", Json());
  if (name == "ZeroPadding1D")
    return given.is_null() ? ZeroPadding1D() : ZeroPadding1D(margin(given));
  if (name == "ZeroPadding2D")
    return given.is_null() ? ZeroPadding2D() : ZeroPadding2D(margins_2d(given));
  if (name == "ZeroPadding3D")
    return given.is_null() ? ZeroPadding3D() : ZeroPadding3D(margins_3d(given));
  if (name == "Cropping1D") return given.is_null() ? Cropping1D() : Cropping1D(margin(given));
  if (name == "Cropping2D") return given.is_null() ? Cropping2D() : Cropping2D(margins_2d(given));
  return given.is_null() ? Cropping3D() : Cropping3D(margins_3d(given));
}

Layer merging(const std::string& name, const Json& options) {
  if (name == "Add") return Add();
  if (name == "Subtract") return Subtract();
  if (name == "Multiply") return Multiply();
  if (name == "Average") return Average();
  if (name == "Maximum") return Maximum();
  if (name == "Minimum") return Minimum();
  if (name == "Concatenate") return Concatenate(options.value("axis", int64_t{-1}));
  const DotOptions made{.normalize = options.value("normalize", false)};
  const Json& axes = options.at("axes");
  if (!axes.is_array()) return Dot(axes.get<int64_t>(), made);
  return Dot(std::array<int64_t, 2>{axes.at(0), axes.at(1)}, made);
}

Layer activation_layer(const std::string& name, const Json& options) {
  if (name == "Activation")
    return ActivationLayer(activation(options.at("activation").get<std::string>()));
  if (name == "ReLU") {
    ReLUOptions made;
    take(options, "max_value", made.max_value);
    take(options, "negative_slope", made.negative_slope);
    take(options, "threshold", made.threshold);
    return ReLU(made);
  }
  if (name == "LeakyReLU")
    return options.empty() ? LeakyReLU() : LeakyReLU(options.at("alpha").get<double>());
  if (name == "ELU") return options.empty() ? ELU() : ELU(options.at("alpha").get<double>());
  if (name == "ThresholdedReLU")
    return options.empty() ? ThresholdedReLU() : ThresholdedReLU(options.at("theta").get<double>());
  if (name == "PReLU") {
    PReLUOptions made;
    take(options, "shared_axes", made.shared_axes);
    return PReLU(made);
  }
  return Softmax(options.value("axis", int64_t{-1}));
}

Layer normalization(const std::string& name, const Json& options) {
  if (name == "BatchNormalization")
    return BatchNormalization(common<BatchNormalizationOptions>(options));
  if (name == "LayerNormalization") {
    auto made = common<LayerNormalizationOptions>(options);
    made.axis = axes_of(options);
    return LayerNormalization(made);
  }
  if (name == "GroupNormalization") {
    auto made = common<GroupNormalizationOptions>(options);
    take(options, "groups", made.groups);
    return GroupNormalization(made);
  }
  return UnitNormalization(axes_of(options));
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

Layer make_image_layer(const std::string& name, const Json& options) {
  if (name.rfind("Global", 0) == 0) return global_pooling(name, options);
  if (contains(name, "Pooling")) return pooling(name, options);
  if (name == "UpSampling1D") return UpSampling1D(size_of(options, "size", int64_t{2}));
  if (name == "UpSampling3D") return UpSampling3D(size_of(options, "size", Size3D(2)));
  if (name == "UpSampling2D") {
    UpSampling2DOptions made{.size = size_of(options, "size", Size2D(2))};
    if (options.contains("interpolation"))
      made.interpolation = interpolation_of(options.at("interpolation"));
    return UpSampling2D(made);
  }
  return margins(name, options);
}

Layer make_plain_layer(const std::string& name, const Json& options) {
  if (name == "Dense") return Dense(options.at("units"), common<DenseOptions>(options));
  if (name == "Flatten") return Flatten();
  if (name == "Reshape") return Reshape(options.at("target_shape").get<std::vector<int64_t>>());
  if (name == "Permute") return Permute(options.at("dims").get<std::vector<int64_t>>());
  if (name == "RepeatVector") return RepeatVector(options.at("n"));
  if (name == "Rescaling") return Rescaling(options.at("scale"), options.value("offset", 0.0));
  if (name == "Masking")
    return options.empty() ? Masking() : Masking(options.at("mask_value").get<double>());
  if (name == "Dropout") return Dropout(options.at("rate"));
  if (name == "SpatialDropout1D") return SpatialDropout1D(options.at("rate").get<double>());
  if (name == "AlphaDropout") return AlphaDropout(options.at("rate").get<double>());
  if (name == "GaussianNoise") return GaussianNoise(options.at("stddev").get<double>());
  if (name == "GaussianDropout") return GaussianDropout(options.at("rate").get<double>());
  if (name == "ActivityRegularization") {
    return ActivityRegularization({.l1 = options.value("l1", 0.0), .l2 = options.value("l2", 0.0)});
  }
  if (name == "Embedding") {
    // Keras trains all of the table.
    return Embedding(options.at("input_dim"), options.at("output_dim"),
                     {.mask_zero = options.value("mask_zero", false), .row_sparse = false});
  }
  if (ends_with(name, "Normalization")) return normalization(name, options);
  if (name == "Activation" || name == "Softmax" || ends_with(name, "LU"))
    return activation_layer(name, options);
  return merging(name, options);
}

Layer make_layer(const Json& described) {
  const std::string name = described.at("class");
  const Json options = described.value("options", Json::object());
  if (name == "Sequential") {
    std::vector<Layer> layers;
    for (const Json& layer : options.at("layers")) layers.push_back(make_layer(layer));
    return Sequential(layers);
  }
  if (contains(name, "Dropout") || contains(name, "Gaussian"))
    return make_plain_layer(name, options);
  if (contains(name, "Conv")) return make_convolution(name, options);
  if (contains(name, "RNN") || contains(name, "LSTM") || contains(name, "GRU") ||
      name == "Bidirectional" || name == "TimeDistributed") {
    return make_recurrent(name, options);
  }
  if (contains(name, "Attention")) return make_attention(name, options);
  if (ends_with(name, "1D") || ends_with(name, "2D") || ends_with(name, "3D"))
    return make_image_layer(name, options);
  return make_plain_layer(name, options);
}

Regularizer make_penalty(const Json& options) {
  return regularizers::l1_l2({.l1 = options.value("l1", 0.0), .l2 = options.value("l2", 0.0)});
}

Regularizer make_regularizer(const Json& options) {
  const std::string name = options.at("class");
  if (name == "L1")
    return options.contains("l1") ? regularizers::l1(options["l1"]) : regularizers::l1();
  if (name == "L2")
    return options.contains("l2") ? regularizers::l2(options["l2"]) : regularizers::l2();
  // The class has the default 0, the function l1_l2() has 0.01.
  return make_penalty(options);
}

Constraint make_constraint(const Json& options) {
  const std::string name = options.at("class");
  const std::vector<int64_t> axis = options.contains("axis")
                                        ? options.at("axis").get<std::vector<int64_t>>()
                                        : std::vector<int64_t>{0};
  if (name == "NonNeg") return constraints::non_neg();
  if (name == "UnitNorm") return constraints::unit_norm(axis);
  if (name == "MaxNorm") return constraints::max_norm(options.value("max_value", 2.0), axis);
  constraints::MinMaxNormOptions made;
  take(options, "min_value", made.min_value);
  take(options, "max_value", made.max_value);
  take(options, "rate", made.rate);
  made.axis = axis;
  return constraints::min_max_norm(made);
}

}  // namespace muster::inline v0_1
