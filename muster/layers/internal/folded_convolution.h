// A convolution and the normalization after it, as one convolution with another kernel and bias.
// Thread safety: FoldedKernel belongs to the thread of its context; the other functions are pure.
#pragma once

#include <memory>
#include <vector>

#include "muster/layers/internal/affine_normalization.h"
#include "muster/layers/internal/image_layers.h"

namespace muster::inline v0_1::internal {

// The kernel and the bias, and their sources. A context keeps one for each normalization.
class FoldedKernel {
 public:
  // The place of the context where the normalization keeps it: empty at first, and again after each
  // step that trains.
  static std::shared_ptr<FoldedKernel>& of(CallContext& context,
                                           const LayerIdentity& normalization);

  // Makes them anew where a variable is another one than the last time, or was written since.
  void follow(const ConvolutionImpl::Variables& conv, const AffineNormalization::Variables& norm,
              double epsilon);

  const Tensor& kernel() const { return kernel_; }  // as filters_first() gives it
  const Tensor& bias() const { return bias_; }

 private:
  struct Source {
    c10::weak_intrusive_ptr<c10::TensorImpl>
        tensor;  // as long as it is held, no other tensor has its address
    const void* memory;
    int64_t version;  // number of writes so far
  };
  bool made_of(const std::vector<const Tensor*>& tensors) const;

  std::vector<Source> sources_;
  Tensor kernel_, bias_;
};

// Whether the two may run as one, in some call: only the normalization that follows needs the
// output of the convolution.
bool may_fold(const ConvolutionImpl& conv);

// Returns the same as conv and then the normalization `behind` (an AffineNormalization), except for
// rounding; an undefined tensor if this call needs both of them: in training, where gradients are
// recorded, in mixed precision, in traces, for no rows. `margins` as
// ConvolutionImpl::call_with_margins() takes them, or empty.
Tensor call_folded(const ConvolutionImpl& conv, const AffineNormalization& norm,
                   const LayerIdentity& behind, const Tensor& input, const Sizes& margins,
                   CallContext& context);

}  // namespace muster::inline v0_1::internal
