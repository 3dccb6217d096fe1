#include "muster/preprocessing/resizing.h"

#include <utility>

#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/images.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

class Resizing::Impl final : public internal::TensorLayerImpl {
 public:
  Impl(int64_t height, int64_t width, ResizingOptions options)
      : TensorLayerImpl("resizing", options.name),
        height_(height),
        width_(width),
        options_(std::move(options)) {}

  Tensor apply(const Tensor& input) const override {
    const Tensor images = internal::to_images("Resizing", input);
    return options_.crop_to_aspect_ratio
               ? internal::crop_and_resize_images("Resizing", images, height_, width_,
                                                  options_.interpolation)
               : internal::resize_images("Resizing", images, height_, width_,
                                         options_.interpolation);
  }

 private:
  int64_t height_, width_;
  ResizingOptions options_;
};

Resizing::Resizing(int64_t height, int64_t width, ResizingOptions options) {
  internal::check_at_least("Resizing", "height", height, 1);
  internal::check_at_least("Resizing", "width", width, 1);
  impl_ = std::make_shared<Impl>(height, width, std::move(options));
}

Tensor Resizing::operator()(const Tensor& images) const { return impl_->apply(images); }
Resizing::operator Layer() const { return Layer(impl_); }

}  // namespace muster::inline v0_1
