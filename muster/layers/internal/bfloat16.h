// How layers compute with numbers of bfloat16: products of them are added up in float32, and
// rounded once. Where LibTorch would add them up in bfloat16, or has no kernel, the same numbers
// are multiplied in float32.
// Thread safety: any thread.
#pragma once

#include <cstdint>

#include "muster/layers/activations.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

// Rounds float32 to bfloat16, and shows bfloat16 as float32; others, and an undefined tensor, stay
// as they are. Gradients flow back.
Tensor narrowed(const Tensor& tensor);
Tensor widened(const Tensor& tensor);

// Returns the weight rounded to bfloat16. Its gradient is float32, and written to its destination.
Tensor narrowed_weight(const Tensor& weight);

// Throws InvalidArgument, which names the processor's instructions, if `device` has no instructions
// for products of bfloat16.
void check_multiplies_bfloat16(const Device& device);

// For testing::AllowSlowBfloat16: from a call with true on, and until there were as many with
// false, check_multiplies_bfloat16() accepts every machine.
void allow_slow_bfloat16(bool begins);

// Says which kernel multiplies.
enum class ProductKind {
  kMatrix,                 // of `multiplications` numbers
  kConvolution,            // of any size
  kTransposedConvolution,  // for which LibTorch has none on the CPU
};

// Tells whether LibTorch multiplies bfloat16 there, and adds up in float32.
bool has_bfloat16_kernel(ProductKind kind, const Device& device, int64_t multiplications);

// Returns product(factors...). Factors of bfloat16, which all of them are then, give bfloat16.
template <typename Product, typename... Factors>
Tensor multiplied(ProductKind kind, int64_t multiplications, const Product& product,
                  const Tensor& first, const Factors&... others) {
  if (first.scalar_type() != kBFloat16 ||
      has_bfloat16_kernel(kind, first.device(), multiplications)) {
    return product(first, others...);
  }
  return narrowed(product(widened(first), widened(others)...));
}

// Applies a layer's activation. Softmax takes bfloat16 as float32, and gives that.
Tensor activated(const Activation& activation, const Tensor& input);

// Returns matrix x matrix, [n, k] and [k, m]. Where `right` is bfloat16, `left` is rounded to it,
// and the result is float32.
Tensor product_of(const Tensor& left, const Tensor& right);
// The same for batches of matrices, [..., n, k] and [..., k, m], both of one dtype, which the
// result has too.
Tensor batch_product(const Tensor& left, const Tensor& right);
// Returns rows x kernel + bias, of [n, k], [k, m] and [m], all of one dtype; `bias` may be
// undefined.
Tensor affine(const Tensor& rows, const Tensor& kernel, const Tensor& bias);

}  // namespace muster::inline v0_1::internal
