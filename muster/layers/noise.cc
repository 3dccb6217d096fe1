#include "muster/layers/noise.h"

#include <cmath>
#include <memory>
#include <utility>

#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/windows.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// The common part of these layers: outside of training, and with an amount of 0, they do nothing.
class NoiseImpl : public UnaryLayerImpl {
 public:
  NoiseImpl(const char* class_name, double amount, std::string name)
      : UnaryLayerImpl(class_name, std::move(name)), amount_(amount) {}

  Tensor call(const Tensor& input, CallContext& context) const final {
    internal::check_floating(context, identity(), input);
    check(input, context);
    if (!context.training() || amount_ == 0) return input;
    return disturb(input, context.random_key(identity()));
  }

  bool keeps_steps() const final { return true; }
  LayerPrecision precision() const final { return LayerPrecision::kWidened; }

 protected:
  double amount() const { return amount_; }

 private:
  virtual void check(const Tensor&, CallContext&) const {}
  virtual Tensor disturb(const Tensor& input, RandomKey key) const = 0;

  double amount_;
};

class SpatialDropoutImpl final : public NoiseImpl {
 public:
  SpatialDropoutImpl(const char* class_name, size_t rank, double rate, std::string name)
      : NoiseImpl(class_name, rate, std::move(name)), rank_(rank) {}

 private:
  void check(const Tensor& input, CallContext& context) const override {
    internal::check_rank(context, identity(), input, rank_);
  }

  Tensor disturb(const Tensor& input, RandomKey key) const override {
    Shape shape(static_cast<size_t>(input.dim()), 1);
    shape.front() = input.size(0);
    shape.back() = input.size(-1);
    return input * internal::drop_mask(input, shape, key, amount(), 1 / (1 - amount()));
  }

  size_t rank_;
};

class AlphaDropoutImpl final : public NoiseImpl {
 public:
  AlphaDropoutImpl(double rate, std::string name)
      : NoiseImpl("alpha_dropout", rate, std::move(name)) {}

 private:
  Tensor disturb(const Tensor& input, RandomKey key) const override {
    // selu(-infinity) = -alpha * scale.
    constexpr double kLeast = -1.6732632423543772 * 1.0507009873554805;
    const double rate = amount();
    const double scale = 1 / std::sqrt((1 - rate) * (1 + rate * kLeast * kLeast));
    const double shift = -scale * kLeast * rate;
    const Tensor kept = internal::drop_mask(input, input.sizes(), key, rate, /*kept=*/1);
    return (input * kept + (1 - kept) * kLeast) * scale + shift;
  }
};

class GaussianNoiseImpl final : public NoiseImpl {
 public:
  GaussianNoiseImpl(double stddev, std::string name)
      : NoiseImpl("gaussian_noise", stddev, std::move(name)) {}

 private:
  Tensor disturb(const Tensor& input, RandomKey key) const override {
    return input + internal::normal_noise(input, key, 0, amount());
  }
};

class GaussianDropoutImpl final : public NoiseImpl {
 public:
  GaussianDropoutImpl(double rate, std::string name)
      : NoiseImpl("gaussian_dropout", rate, std::move(name)) {}

 private:
  Tensor disturb(const Tensor& input, RandomKey key) const override {
    return input * internal::normal_noise(input, key, 1, std::sqrt(amount() / (1 - amount())));
  }
};

Layer spatial_dropout(const char* layer, const char* class_name, size_t rank, double rate,
                      std::string name) {
  internal::check_rate(internal::titled(layer, name), rate);
  return Layer(std::make_shared<SpatialDropoutImpl>(class_name, rank, rate, std::move(name)));
}

}  // namespace

Layer SpatialDropout1D(double rate, std::string name) {
  return spatial_dropout("SpatialDropout1D", "spatial_dropout1d", 1, rate, std::move(name));
}
Layer SpatialDropout2D(double rate, std::string name) {
  return spatial_dropout("SpatialDropout2D", "spatial_dropout2d", 2, rate, std::move(name));
}
Layer SpatialDropout3D(double rate, std::string name) {
  return spatial_dropout("SpatialDropout3D", "spatial_dropout3d", 3, rate, std::move(name));
}

Layer AlphaDropout(double rate, std::string name) {
  internal::check_rate(internal::titled("AlphaDropout", name), rate);
  return Layer(std::make_shared<AlphaDropoutImpl>(rate, std::move(name)));
}

Layer GaussianNoise(double stddev, std::string name) {
  internal::check_at_least_zero(internal::titled("GaussianNoise", name), "stddev", stddev);
  return Layer(std::make_shared<GaussianNoiseImpl>(stddev, std::move(name)));
}

Layer GaussianDropout(double rate, std::string name) {
  internal::check_rate(internal::titled("GaussianDropout", name), rate);
  return Layer(std::make_shared<GaussianDropoutImpl>(rate, std::move(name)));
}

}  // namespace muster::inline v0_1
