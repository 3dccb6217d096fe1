#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/conv_pool_kernels.h"
#include "muster/layers/internal/image_layers.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/thread_ranges.h"

namespace muster::inline v0_1::internal {
namespace {

// With more taps than this, a matrix product (oneDNN) is faster.
constexpr int64_t kMaxTaps = 27;

ConvPool shape_of(const Tensor& images, const Tensor& kernel) {
  return {images.size(1), images.size(2), images.size(3),
          kernel.size(0), kernel.size(1), kernel.size(3)};
}

// Threads get fixed parts of the images, so equal numbers of threads compute equal bits.
int64_t parts_of(int64_t images) {
  return std::max<int64_t>(1, std::min<int64_t>(images, at::get_num_threads()));
}

struct ConvReluPool : public torch::autograd::Function<ConvReluPool> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& images,
                        const Tensor& kernel, const Tensor& bias, bool keep_choice) {
    const ConvPool shape = shape_of(images, kernel);
    const int64_t n = images.size(0);
    Tensor output = at::empty({n, shape.output_height(), shape.output_width(), shape.filters},
                              images.options());
    Tensor choice;
    if (keep_choice) choice = at::empty(output.sizes(), images.options().dtype(at::kInt));
    const float* x = images.data_ptr<float>();
    const float* w = kernel.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* y = output.data_ptr<float>();
    int32_t* c = keep_choice ? choice.data_ptr<int32_t>() : nullptr;
    over_ranges(n, (n + parts_of(n) - 1) / parts_of(n), [&](int64_t begin, int64_t end) {
      conv_pool_forward(shape, end - begin, x + begin * shape.input_size(), w, b,
                        y + begin * shape.output_size(),
                        c ? c + begin * shape.output_size() : nullptr);
    });
    if (keep_choice) {
      context->save_for_backward({images, kernel});
      context->saved_data["choice"] = choice;
    }
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &images = saved[0], &kernel = saved[1];
    const Tensor choice = context->saved_data["choice"].toTensor();
    const Tensor output_gradient = gradients[0].contiguous();
    const ConvPool shape = shape_of(images, kernel);
    const int64_t n = images.size(0);
    const int64_t parts = parts_of(n);
    Tensor kernels = at::zeros(
        {parts, kernel.size(0), kernel.size(1), kernel.size(2), shape.filters}, images.options());
    Tensor biases = at::zeros({parts, shape.filters}, images.options());
    const float* x = images.data_ptr<float>();
    const float* dy = output_gradient.data_ptr<float>();
    const int32_t* c = choice.data_ptr<int32_t>();
    float* dw = kernels.data_ptr<float>();
    float* db = biases.data_ptr<float>();
    over_ranges(parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t begin = n * part / parts;
        const int64_t end = n * (part + 1) / parts;
        conv_pool_backward(shape, end - begin, x + begin * shape.input_size(),
                           dy + begin * shape.output_size(), c + begin * shape.output_size(),
                           dw + part * kernel.numel(), db + part * shape.filters);
      }
    });
    if (parts == 1) return {Tensor(), kernels[0], biases[0], Tensor()};
    return {Tensor(), kernels.sum(0), biases.sum(0), Tensor()};
  }
};

bool fits(const ConvolutionImpl& conv, const MaxPoolingImpl& pool, const Tensor& images,
          const ConvolutionImpl::Variables& variables) {
  const Window& window = pool.window();
  const Sizes two{2, 2};
  const Tensor& kernel = variables.kernel;
  return conv.spec().window.is_plain() && conv.spec().groups == 1 && window.sizes == two &&
         window.strides == two && window.padding == Padding::kValid && variables.bias.defined() &&
         images.is_cpu() && images.scalar_type() == kFloat32 && !images.requires_grad() &&
         images.is_contiguous() && kernel.is_cpu() && kernel.is_contiguous() &&
         variables.bias.is_contiguous() &&
         kernel.size(0) * kernel.size(1) * kernel.size(2) <= kMaxTaps &&
         kernel.size(3) % ConvPool::kFilterMultiple == 0 && images.size(1) > kernel.size(0) &&
         images.size(2) > kernel.size(1) &&
         !torch::jit::tracer::isTracing();  // an exported graph holds standard operations only
}

}  // namespace

Tensor conv_relu_pool(const ConvolutionImpl& conv, const MaxPoolingImpl& pool, const Tensor& input,
                      CallContext& context) {
  if (input.scalar_type() != kBFloat16) {
    const ConvolutionImpl::Variables variables = conv.variables(input, context);
    if (fits(conv, pool, input, variables)) {
      context.name_of(pool.identity());
      const bool trains = at::GradMode::is_enabled() &&
                          (variables.kernel.requires_grad() || variables.bias.requires_grad());
      return ConvReluPool::apply(input, variables.kernel, variables.bias, trains);
    }
  }
  const Tensor images = context.mixed_precision() ? narrowed(input) : input;
  return at::relu(pool.call(conv.call_without_activation(images, context), context));
}

}  // namespace muster::inline v0_1::internal
