// Products of matrices, convolutions, normalizations.
#include <algorithm>
#include <numeric>

#include "muster/imports/internal/kernels.h"
#include "muster/imports/internal/window_form.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

Results multiply_matrices(NodeRun& call) { return {at::matmul(call.in(0), call.in(1))}; }

Results gemm(NodeRun& call) {
  const double alpha = call.number_attribute("alpha", 1), beta = call.number_attribute("beta", 1);
  Tensor a = call.in(0), b = call.in(1);
  call.require(a.dim() == 2 && b.dim() == 2, "its inputs are not matrices");
  if (call.integer_attribute("transA", 0) != 0) a = a.t();
  if (call.integer_attribute("transB", 0) != 0) b = b.t();
  if (!call.has(2)) {
    const Tensor product = at::matmul(a, b);
    return {alpha == 1 ? product : product.mul(alpha).to(a.scalar_type())};
  }
  if (!at::isFloatingType(a.scalar_type())) {
    const Tensor product = at::matmul(a, b).mul(alpha).add(call.in(2).mul(beta));
    return {product.to(a.scalar_type())};
  }
  return {at::addmm(call.in(2), a, b, beta, alpha)};
}

// [out channels, in channels / groups, window...]
std::vector<int64_t> window_of(NodeRun& call, const Tensor& weight) {
  call.require(weight.dim() >= 3, "its weight has no window");
  return call.integers_attribute("kernel_shape", weight.sizes().slice(2).vec());
}

Results convolve(NodeRun& call) {
  Tensor x = call.in(0);
  const Tensor weight = call.in(1);
  const WindowForm form(call, x, window_of(call, weight));
  std::vector<int64_t> padding = form.before;
  if (!form.same_on_both_sides()) {
    x = at::constant_pad_nd(x, form.pads());
    std::ranges::fill(padding, 0);
  }
  const std::vector<int64_t> none(form.axes(), 0);
  const Tensor bias = call.in_or(2, Tensor());
  return {at::convolution(x, weight, bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt,
                          form.strides, padding, form.dilations, /*transposed=*/false, none,
                          call.integer_attribute("group", 1))};
}

Results convolve_transposed(NodeRun& call) {
  const Tensor x = call.in(0), weight = call.in(1);
  WindowForm form(call, x, window_of(call, weight));
  std::vector<int64_t> more =
      call.integers_attribute("output_padding", std::vector<int64_t>(form.axes(), 0));
  call.require(more.size() == form.axes(), "output_padding does not have a number for each axis");
  const std::vector<int64_t> wanted = call.integers_attribute("output_shape", {});
  const std::string automatic = call.text_attribute("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  // The padding follows from the shape of the result.
  for (size_t i = 0; i < form.axes() && (same || !wanted.empty()); ++i) {
    const int64_t size = x.size(static_cast<int64_t>(i) + 2);
    const size_t place = wanted.size() == form.axes() + 2 ? i + 2 : i;
    call.require(wanted.empty() || place < wanted.size(), "output_shape is too short");
    const int64_t out = wanted.empty() ? size * form.strides[i] : wanted[place];
    const int64_t rest =
        form.strides[i] * (size - 1) + more[i] + (form.kernel[i] - 1) * form.dilations[i] + 1 - out;
    const int64_t total = std::max<int64_t>(rest, 0);
    form.before[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    form.after[i] = rest - form.before[i];  // below 0: more zeros at the end
  }
  std::vector<int64_t> padding(form.axes(), 0), crop_before = form.before, crop_after = form.after;
  const bool direct = form.same_on_both_sides() &&
                      std::ranges::all_of(form.before, [](int64_t n) { return n >= 0; });
  if (direct) {
    padding = form.before;
    std::ranges::fill(crop_before, 0);
    std::ranges::fill(crop_after, 0);
  }
  // LibTorch takes less than a stride or a dilation here; what is more is no number of the image.
  std::vector<int64_t> inside = more;
  for (size_t i = 0; i < more.size(); ++i) {
    if (more[i] < std::max(form.strides[i], form.dilations[i])) continue;
    inside[i] = 0;
    crop_after[i] -= more[i];
  }
  const Tensor bias = call.in_or(2, Tensor());
  Tensor y = at::convolution(x, weight, bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt,
                             form.strides, padding, form.dilations, /*transposed=*/true, inside,
                             call.integer_attribute("group", 1));
  form.before = crop_before;
  form.after = crop_after;
  std::vector<int64_t> crops = form.pads();
  if (std::ranges::all_of(crops, [](int64_t each) { return each == 0; })) return {y};
  for (int64_t& each : crops) each = -each;
  return {at::constant_pad_nd(y, crops)};
}

Results normalize_batch(NodeRun& call) {
  if (call.integer_attribute("training_mode", 0) != 0)
    call.refuse("normalizes by the batch: training_mode is 1");
  const Tensor x = call.in(0);
  const double epsilon = call.number_attribute("epsilon", 1e-5);
  const DType dtype = x.scalar_type();
  return {at::batch_norm(x, call.in(1).to(dtype), call.in(2).to(dtype), call.in(3).to(dtype),
                         call.in(4).to(dtype), /*training=*/false, /*momentum=*/0, epsilon,
                         /*cudnn_enabled=*/false)};
}

Results normalize_instances(NodeRun& call) {
  return {at::instance_norm(call.in(0), call.in(1), call.in(2), {}, {}, /*use_input_stats=*/true,
                            /*momentum=*/0, call.number_attribute("epsilon", 1e-5),
                            /*cudnn_enabled=*/false)};
}

Results normalize_layers(NodeRun& call) {
  const Tensor x = call.in(0), scale = call.in(1), shift = call.in_or(2, Tensor());
  const int64_t axis = call.axis("axis", -1, x.dim());
  const double epsilon = call.number_attribute("epsilon", 1e-5);
  const auto shape = x.sizes().slice(static_cast<size_t>(axis));
  const bool plain = scale.sizes() == shape && (!shift.defined() || shift.sizes() == shape);
  const auto maybe = [](const Tensor& tensor) {
    return tensor.defined() ? c10::optional<Tensor>(tensor) : c10::nullopt;
  };
  auto [y, mean, inverse] = at::native_layer_norm(x, shape, maybe(plain ? scale : Tensor()),
                                                  maybe(plain ? shift : Tensor()), epsilon);
  if (!plain) {
    y = y.mul(scale);
    if (shift.defined()) y = y.add(shift);
  }
  return {y, mean, inverse};
}

Results normalize_root_mean_square(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", -1, x.dim());
  std::vector<int64_t> axes(static_cast<size_t>(x.dim() - axis));
  std::iota(axes.begin(), axes.end(), axis);
  const Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const Tensor mean = at::mean(wide.mul(wide), axes, /*keepdim=*/true);
  const Tensor y = wide.mul(at::rsqrt(mean.add(call.number_attribute("epsilon", 1e-5))));
  return {y.to(x.scalar_type()).mul(call.in(1))};
}

Results normalize_groups(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t groups = call.integer_attribute("num_groups", 0);
  call.require(groups > 0 && x.dim() >= 2 && x.size(1) % groups == 0, "its channels are no groups");
  // Until opset 20 a group has one scale.
  const auto of_channels = [&](const Tensor& weight) {
    return weight.size(0) == x.size(1) ? weight
                                       : weight.repeat_interleave(x.size(1) / weight.size(0));
  };
  return {at::group_norm(x, groups, of_channels(call.in(1)), of_channels(call.in(2)),
                         call.number_attribute("epsilon", 1e-5), /*cudnn_enabled=*/false)};
}

Results normalize_neighbours(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t size = call.integer_attribute("size", 0);
  call.require(size > 0 && x.dim() >= 3, "it has no size, or its input is no image");
  std::vector<int64_t> pads(2 * static_cast<size_t>(x.dim() - 1), 0);
  pads[pads.size() - 2] = (size - 1) / 2;
  pads.back() = size / 2;
  const Tensor squares = at::constant_pad_nd(x.mul(x), pads).unfold(1, size, 1).sum(-1);
  const double alpha = call.number_attribute("alpha", 0.0001),
               beta = call.number_attribute("beta", 0.75), bias = call.number_attribute("bias", 1);
  return {x.div(squares.mul(alpha / static_cast<double>(size)).add(bias).pow(beta))};
}

Results normalize_mean_variance(NodeRun& call) {
  const Tensor x = call.in(0);
  const std::vector<int64_t> axes = call.integers_attribute("axes", {0, 2, 3});
  const Tensor mean = at::mean(x, axes, /*keepdim=*/true), apart = x.sub(mean);
  const Tensor deviation = at::sqrt(at::mean(apart.mul(apart), axes, /*keepdim=*/true));
  return {apart.div(deviation.add(1e-9))};
}

Results normalize_lp(NodeRun& call) {
  const Tensor x = call.in(0);
  const int64_t axis = call.axis("axis", -1, x.dim()), p = call.integer_attribute("p", 2);
  call.require(p == 1 || p == 2, "p is not 1 or 2");
  const Tensor size =
      p == 1 ? x.abs().sum(axis, /*keepdim=*/true) : at::sqrt(x.mul(x).sum(axis, /*keepdim=*/true));
  return {at::where(size.eq(0), at::zeros_like(x), x.div(size))};
}

Results determinant(NodeRun& call) { return {at::det(call.in(0))}; }

// Of log-probabilities [batch, classes, ...]; SoftmaxCrossEntropyLoss makes them of scores.
Results lose(NodeRun& call) {
  const bool softmax = call.node().operation == "SoftmaxCrossEntropyLoss";
  const Tensor logs = softmax ? at::log_softmax(call.in(0), 1) : call.in(0);
  const std::string how = call.text_attribute("reduction", "mean");
  const int64_t reduction = how == "none" ? 0 : how == "mean" ? 1 : 2;
  const Tensor weight = call.in_or(2, Tensor());
  return {at::nll_loss_nd(logs, call.in(1).to(at::kLong),
                          weight.defined() ? c10::optional<Tensor>(weight) : c10::nullopt,
                          reduction, call.integer_attribute("ignore_index", -100)),
          logs};
}

}  // namespace

void add_network_kernels(KernelMap& map) {
  map["BatchNormalization"] = {normalize_batch, 5};
  map["Conv"] = {convolve, 2};
  map["ConvTranspose"] = {convolve_transposed, 2};
  map["Det"] = {determinant};
  map["Gemm"] = {gemm, 2};
  map["GroupNormalization"] = {normalize_groups, 3};
  map["InstanceNormalization"] = {normalize_instances, 3};
  map["LRN"] = {normalize_neighbours};
  map["LayerNormalization"] = {normalize_layers, 2};
  map["LpNormalization"] = {normalize_lp};
  map["MatMul"] = {multiply_matrices, 2};
  map["MeanVarianceNormalization"] = {normalize_mean_variance};
  map["NegativeLogLikelihoodLoss"] = {lose, 2};
  map["SoftmaxCrossEntropyLoss"] = {lose, 2};
  map["RMSNormalization"] = {normalize_root_mean_square, 2};
}

}  // namespace muster::inline v0_1::onnx::internal
