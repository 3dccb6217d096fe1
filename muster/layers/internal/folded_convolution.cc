#include "muster/layers/internal/folded_convolution.h"

#include <torch/csrc/jit/frontend/tracer.h>

#include "muster/layers/internal/kernel_layout.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Decides without a look at the variables, which a tape would note.
bool folds(const Tensor& input, const CallContext& context) {
  return !context.training() && !context.mixed_precision() && !context.for_shapes_alone() &&
         !at::GradMode::is_enabled() && input.is_floating_point() &&
         input.scalar_type() != kBFloat16 && input.dim() > 0 && input.size(0) > 0 &&
         !torch::jit::tracer::isTracing();
}

// A factor of each filter, for a kernel [filters, in, axes...].
Tensor of_filters(const Tensor& factor, int64_t axes) {
  Shape shape(static_cast<size_t>(axes), 1);
  shape[0] = -1;
  return factor.view(shape);
}

}  // namespace

std::shared_ptr<FoldedKernel>& FoldedKernel::of(CallContext& context,
                                                const LayerIdentity& normalization) {
  context.has_folded_ = true;
  return context.state_of(normalization).folded;
}

bool FoldedKernel::made_of(const std::vector<const Tensor*>& tensors) const {
  if (sources_.size() != tensors.size()) return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = *tensors[i];
    const Source& source = sources_[i];
    // Inference tensors do not count writes.
    if (tensor.is_inference() || source.tensor._unsafe_get_target() != tensor.unsafeGetTensorImpl())
      return false;
    if (source.memory != tensor.data_ptr() || source.version != tensor._version()) return false;
  }
  return true;
}

void FoldedKernel::follow(const ConvolutionImpl::Variables& conv,
                          const AffineNormalization::Variables& norm, double epsilon) {
  std::vector<const Tensor*> tensors;
  for (const Tensor* each :
       {&conv.kernel, &conv.bias, &norm.gamma, &norm.beta, &norm.mean, &norm.variance}) {
    if (each->defined()) tensors.push_back(each);
  }
  if (made_of(tensors)) return;
  Tensor factor = (norm.variance + epsilon).rsqrt();
  if (norm.gamma.defined()) factor = factor * norm.gamma;
  const Tensor mean = conv.bias.defined() ? norm.mean - conv.bias : norm.mean;
  bias_ = mean.neg().mul_(factor);
  if (norm.beta.defined()) bias_.add_(norm.beta);
  kernel_ = filters_first(conv.kernel, /*rows=*/1) * of_filters(factor, conv.kernel.dim());
  sources_.clear();
  for (const Tensor* each : tensors) {
    sources_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(each->getIntrusivePtr()),
                        each->data_ptr(), each->is_inference() ? int64_t{0} : each->_version()});
  }
}

bool may_fold(const ConvolutionImpl& conv) {
  // A penalty on the convolution's output needs this output.
  return conv.spec().activation == Activation::kLinear && !conv.spec().activity_regularizer;
}

Tensor call_folded(const ConvolutionImpl& conv, const AffineNormalization& norm,
                   const LayerIdentity& behind, const Tensor& input, const Sizes& margins,
                   CallContext& context) {
  if (!folds(input, context)) return {};
  const ConvolutionImpl::Variables weights = conv.variables(input, context);
  // A kernel has the dtype and, as its last axis, the channels of the convolution's output.
  const AffineNormalization::Variables moments = norm.variables(weights.kernel, context);
  std::shared_ptr<FoldedKernel>& folded = FoldedKernel::of(context, behind);
  if (folded == nullptr) folded = std::make_shared<FoldedKernel>();
  folded->follow(weights, moments, norm.epsilon());
  return convolve(input, folded->kernel(), folded->bias(), conv.spec().window, conv.spec().groups,
                  margins);
}

}  // namespace muster::inline v0_1::internal
