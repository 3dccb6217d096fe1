#include "muster/preprocessing/center_crop.h"

#include <utility>

#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/images.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

class CenterCrop::Impl final : public internal::TensorLayerImpl {
 public:
  Impl(int64_t height, int64_t width, std::string name)
      : TensorLayerImpl("center_crop", std::move(name)), height_(height), width_(width) {}

  Tensor apply(const Tensor& input) const override {
    const Tensor images = internal::to_images("CenterCrop", input);
    const int64_t spare_rows = images.size(-3) - height_, spare_columns = images.size(-2) - width_;
    if (spare_rows < 0 || spare_columns < 0) {
      return internal::crop_and_resize_images("CenterCrop", images, height_, width_,
                                              Interpolation::kBilinear);
    }
    return images.narrow(-3, spare_rows / 2, height_).narrow(-2, spare_columns / 2, width_);
  }

 private:
  int64_t height_, width_;
};

CenterCrop::CenterCrop(int64_t height, int64_t width, std::string name) {
  internal::check_at_least("CenterCrop", "height", height, 1);
  internal::check_at_least("CenterCrop", "width", width, 1);
  impl_ = std::make_shared<Impl>(height, width, std::move(name));
}

Tensor CenterCrop::operator()(const Tensor& images) const { return impl_->apply(images); }
CenterCrop::operator Layer() const { return Layer(impl_); }

}  // namespace muster::inline v0_1
