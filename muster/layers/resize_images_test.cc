#include "muster/layers/resize_images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "muster/layers/internal/test_layers.h"
#include "muster/layers/upsampling.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::numbers;

using Weight = std::function<double(double)>;  // of the distance

double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

// The B-C family of Mitchell and Netravali: B = 0 and C = 1/2 are Keys's cubic, 1/3 and 1/3 theirs.
double cubic(double d, double b, double c) {
  const double d2 = d * d, d3 = d2 * d;
  if (d >= 2) return 0;
  if (d < 1) return ((12 - 9 * b - 6 * c) * d3 + (-18 + 12 * b + 6 * c) * d2 + (6 - 2 * b)) / 6;
  return ((-b - 6 * c) * d3 + (6 * b + 30 * c) * d2 + (-12 * b - 48 * c) * d + (8 * b + 24 * c)) /
         6;
}

double gauss(double d, double sigma, double radius) {
  return d < radius ? std::exp(-d * d / (2 * sigma * sigma)) : 0;
}

double lanczos_window(double d, double radius) {
  return d < radius ? sinc(d) * sinc(d / radius) : 0;
}

struct Kernel {
  Interpolation interpolation;
  Weight weight;
};

std::vector<Kernel> kernels() {
  return {{Interpolation::kBicubic, [](double d) { return cubic(d, 0, 0.5); }},
          {Interpolation::kLanczos3, [](double d) { return lanczos_window(d, 3); }},
          {Interpolation::kLanczos5, [](double d) { return lanczos_window(d, 5); }},
          {Interpolation::kGaussian, [](double d) { return gauss(d, 0.5, 1.5); }},
          {Interpolation::kMitchellCubic, [](double d) { return cubic(d, 1.0 / 3, 1.0 / 3); }}};
}

// The part that old pixel j has in new pixel i, by the distance of their middles in the old image.
double part_of(const Weight& weight, int64_t i, int64_t j, int64_t from, int64_t to) {
  const double middle =
      (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to);
  double sum = 0;
  for (int64_t k = 0; k < from; ++k) sum += weight(std::abs(static_cast<double>(k) + 0.5 - middle));
  return weight(std::abs(static_cast<double>(j) + 0.5 - middle)) / sum;
}

struct NewSize {
  int64_t height, width;
};

TEST(ResizeImages, WeighsPixelsByTheirDistance) {
  const Tensor x = numbers({2, 5, 7, 3});
  for (const Kernel& kernel : kernels()) {
    for (const NewSize size : {NewSize{11, 20}, NewSize{3, 4}, NewSize{5, 1}, NewSize{5, 7}}) {
      SCOPED_TRACE(describe(kernel.interpolation));
      const Tensor y = resize_images(x, size.height, size.width, kernel.interpolation);
      ASSERT_EQ(y.sizes(), (Shape{2, size.height, size.width, 3}));
      for (int64_t row = 0; row < size.height; ++row) {
        for (int64_t column = 0; column < size.width; ++column) {
          Tensor expected = torch::zeros({2, 3}, kFloat64);
          for (int64_t i = 0; i < 5; ++i) {
            const double down = part_of(kernel.weight, row, i, 5, size.height);
            for (int64_t j = 0; j < 7; ++j) {
              expected += x.select(1, i).select(1, j) * down *
                          part_of(kernel.weight, column, j, 7, size.width);
            }
          }
          EXPECT_TRUE(torch::allclose(y.select(1, row).select(1, column), expected, 1e-9, 1e-9));
        }
      }
    }
  }
}

// The interpolating methods do not change an image of the same size, and all methods keep a single
// colour.
TEST(ResizeImages, KeepsWhatNeedNotChange) {
  const Tensor x = numbers({1, 4, 6, 2});
  for (const auto each :
       {Interpolation::kNearest, Interpolation::kBilinear, Interpolation::kBicubic,
        Interpolation::kArea, Interpolation::kLanczos3, Interpolation::kLanczos5}) {
    EXPECT_TRUE(torch::allclose(resize_images(x, 4, 6, each), x, 1e-12, 1e-12)) << describe(each);
  }
  const Tensor grey = torch::full({1, 4, 6, 2}, 0.7, kFloat64);
  for (const Kernel& kernel : kernels()) {
    EXPECT_TRUE(torch::allclose(resize_images(grey, 9, 5, kernel.interpolation),
                                torch::full({1, 9, 5, 2}, 0.7, kFloat64), 1e-12, 1e-12));
  }
}

TEST(ResizeImages, AreaIsTheMeanOfWhatANewPixelCovers) {
  const Tensor x = numbers({2, 6, 6, 1});
  const Tensor half = resize_images(x, 3, 2, Interpolation::kArea);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      const Tensor covered = x.slice(1, 2 * i, 2 * i + 2).slice(2, 3 * j, 3 * j + 3);
      EXPECT_TRUE(torch::allclose(half.select(1, i).select(1, j),
                                  covered.mean(at::IntArrayRef{1, 2}), 1e-12, 1e-12));
    }
  }
  // 3 pixels become 2, of one and a half each; and 2 become 3, of two thirds each.
  const Tensor row = torch::tensor({1.0, 2.0, 4.0}).to(kFloat64).view({1, 1, 3, 1});
  EXPECT_TRUE(torch::allclose(
      resize_images(row, 1, 2, Interpolation::kArea).reshape({-1}),
      torch::tensor({(1 + 0.5 * 2) / 1.5, (0.5 * 2 + 4) / 1.5}).to(kFloat64), 1e-6, 1e-6));
  EXPECT_TRUE(
      torch::allclose(resize_images(row.slice(2, 0, 2), 1, 3, Interpolation::kArea).reshape({-1}),
                      torch::tensor({1.0, 1.5, 2.0}).to(kFloat64), 1e-12, 1e-12));
}

TEST(ResizeImages, HasGradientsAndAnyFloatingDtype) {
  for (const auto each :
       {Interpolation::kBicubic, Interpolation::kArea, Interpolation::kGaussian}) {
    const Tensor x = numbers({2, 3, 4, 2}).requires_grad_();
    const Tensor weights = numbers({2, 5, 2, 2}, 1.3);
    (resize_images(x, 5, 2, each) * weights).sum().backward();
    // It is linear: its gradient times the image is its value.
    EXPECT_NEAR((x.grad() * x.detach()).sum().item<double>(),
                (resize_images(x.detach(), 5, 2, each) * weights).sum().item<double>(), 1e-11);
    const Tensor narrow = x.detach().to(kBFloat16);
    EXPECT_TRUE(torch::allclose(resize_images(narrow, 5, 2, each).to(kFloat64),
                                resize_images(narrow.to(kFloat64), 5, 2, each), 1e-2, 1e-2));
    EXPECT_EQ(resize_images(x.slice(0, 0, 0), 5, 2, each).sizes(), (Shape{0, 5, 2, 2}));
  }
}

TEST(ResizeImages, RefusesWhatCannotBe) {
  const Tensor x = numbers({2, 3, 4, 2});
  const auto message = [](const Tensor& images, int64_t height) {
    return message_of([&] { resize_images(images, height, 2, Interpolation::kArea); });
  };
  EXPECT_EQ(message(x, 0), "resize_images: float64[2, 3, 4, 2] cannot become 0 x 2 pixels");
  EXPECT_EQ(message(x[0], 2), "resize_images: float64[3, 4, 2] cannot become 2 x 2 pixels");
  EXPECT_EQ(message(x.to(kInt64), 2),
            "resize_images: int64[2, 3, 4, 2] cannot become 2 x 2 pixels");
  EXPECT_EQ(message(x.slice(1, 0, 0), 2),
            "resize_images: float64[2, 0, 4, 2] cannot become 2 x 2 pixels");
}

TEST(ResizeImages, IsWhatUpSamplingDoes) {
  testing::Fixture fixture;
  const Tensor x = numbers({2, 3, 4, 2});
  for (const Kernel& kernel : kernels()) {
    const Layer up = UpSampling2D({.size = {2, 3}, .interpolation = kernel.interpolation});
    EXPECT_TRUE(up(x, fixture.context).equal(resize_images(x, 6, 12, kernel.interpolation)));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
