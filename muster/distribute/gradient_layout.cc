#include "muster/distribute/gradient_layout.h"

#include <algorithm>

#include "muster/distribute/internal/padded_elements.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

GradientLayout GradientLayout::of(const std::vector<std::pair<std::string, Tensor>>& weights) {
  GradientLayout layout;
  for (const auto& [name, weight] : weights) {
    const DType dtype = weight.scalar_type();
    auto buffer = std::ranges::find(layout.buffers, dtype, &Buffer::dtype);
    if (buffer == layout.buffers.end())
      buffer = layout.buffers.insert(buffer, {.dtype = dtype, .elements = 0});
    const int64_t padded = internal::padded_elements(weight.numel(), dtype);
    layout.parameters.push_back({.name = name,
                                 .weight = weight,
                                 .buffer = static_cast<int>(buffer - layout.buffers.begin()),
                                 .offset = buffer->elements,
                                 .elements = weight.numel(),
                                 .padded = padded});
    buffer->elements += padded;
  }
  return layout;
}

int64_t GradientLayout::bytes() const {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers)
    bytes += buffer.elements * static_cast<int64_t>(c10::elementSize(buffer.dtype));
  return bytes;
}

}  // namespace muster::inline v0_1::distribute
