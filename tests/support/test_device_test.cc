#include "tests/support/test_device.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster::inline v0_1::testing {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

// Equal in every bit.
bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && at::equal(a.detach().cpu(), b.detach().cpu());
}

std::string refusal(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// Checks that the results of `model` for `inputs`, and their gradients, are the same on the host
// and on `device`.
void expect_same_as_host(const std::vector<Tensor>& inputs, const c10::Device& device,
                         const std::function<Tensor(const std::vector<Tensor>&)>& model) {
  const auto run = [&](c10::Device where) {
    std::vector<Tensor> placed;
    for (const Tensor& input : inputs) {
      placed.push_back(input.to(where, /*non_blocking=*/false, /*copy=*/true));
      if (placed.back().is_floating_point()) placed.back().requires_grad_();
    }
    std::vector<Tensor> results = {model(placed)};
    EXPECT_EQ(results[0].device(), where);
    results[0].sum().backward();
    for (const Tensor& input : placed) {
      if (!input.requires_grad()) continue;
      results.push_back(input.grad());
      EXPECT_EQ(results.back().device(), where);
    }
    return results;
  };
  const std::vector<Tensor> expected = run(c10::kCPU), found = run(device);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(expected[i], found[i])) << i;
}

// ---------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------

TEST(TestDevice, FreshMemoryIsNanAlignedAndCounted) {
  const int64_t before = test_device_bytes();
  {
    const Tensor tensor = at::empty({3, 5}, at::device(test_device(2)));
    EXPECT_EQ(tensor.device(), test_device(2));
    EXPECT_EQ(tensor.device().str(), "privateuseone:2");
    EXPECT_EQ(test_device_bytes() - before, 15 * 4);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0);
    EXPECT_TRUE(tensor.isnan().all().item<bool>());
    EXPECT_TRUE(at::zeros({4}, tensor.options()).eq(0).all().item<bool>());
    EXPECT_EQ(at::empty({0, 3}, tensor.options()).numel(), 0);
  }
  EXPECT_EQ(test_device_bytes(), before);
}

TEST(TestDevice, DeviceWithoutIndexIsTheCurrentOne) {
  EXPECT_EQ(at::empty({1}, at::device(kTestDevice)).device(), test_device(0));
  const c10::DeviceGuard guard(test_device(3));
  EXPECT_EQ(at::empty({1}, at::device(kTestDevice)).device(), test_device(3));
  EXPECT_EQ(at::ones({1}).to(kTestDevice).device(), test_device(3));
  EXPECT_EQ(at::tril_indices(3, 3, 0, at::device(kTestDevice).dtype(at::kLong)).device(),
            test_device(3));
}

TEST(TestDevice, NoDeviceBeyondTheLast) {
  EXPECT_THROW(test_device(kTestDevices), c10::Error);
  EXPECT_THROW(at::empty({1}, at::device(c10::Device(kTestDevice, kTestDevices))), c10::Error);
}

TEST(TestDevice, MakesTensorsOfEveryKind) {
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kInt, at::kLong, at::kByte, at::kBool}) {
    const auto options = at::device(test_device(1)).dtype(dtype);
    const Tensor ones = torch::ones({2, 3}, options);
    for (const Tensor& tensor :
         {torch::zeros({2, 3}, options), torch::full({2, 3}, 1, options), at::ones_like(ones),
          at::full_like(ones, 1), at::zeros_like(ones), at::empty_like(ones).fill_(1),
          at::cat({ones, ones}), at::stack({ones, ones}), ones.clone(), ones.contiguous(),
          at::ones({3, 2}).to(options)}) {
      EXPECT_EQ(tensor.device(), test_device(1));
      EXPECT_EQ(tensor.scalar_type(), dtype);
      const Tensor host = tensor.cpu();
      EXPECT_TRUE(at::equal(host, at::full_like(host, host.flatten()[0].item())));
    }
  }
  const auto options = at::device(test_device(1));
  EXPECT_TRUE(same(torch::arange(2, 9, options), torch::arange(2, 9)));
  EXPECT_TRUE(same(torch::arange(5, options.dtype(at::kDouble)), torch::arange(5, at::kDouble)));
  EXPECT_TRUE(same(torch::linspace(0, 1, 7, options), torch::linspace(0, 1, 7)));
  EXPECT_TRUE(same(torch::eye(3, options), torch::eye(3)));
  EXPECT_TRUE(same(torch::scalar_tensor(3, options), torch::scalar_tensor(3)));
  EXPECT_EQ(torch::randn({2}, options).device(), test_device(1));
  EXPECT_EQ(torch::randperm(4, options.dtype(at::kLong)).device(), test_device(1));
}

TEST(TestDevice, GrowsMemoryForResults) {
  const Tensor result = at::empty({0}, at::device(test_device()));
  const Tensor ones = at::ones({6}, result.options());
  Tensor out = result;
  at::add_out(out, ones, ones);
  EXPECT_TRUE(same(result, at::full({6}, 2.f)));
  out.resize_({2, 8});
  EXPECT_EQ(out.flatten()[5].item<float>(), 2);
  EXPECT_TRUE(std::isnan(out.flatten()[6].item<float>()));
  out.resize_({3});
  EXPECT_TRUE(same(result, at::full({3}, 2.f)));
  EXPECT_EQ(result.storage().device(), test_device());
}

TEST(TestDevice, TakesMemoryOfAnotherTensor) {
  const Tensor source = at::arange(6, at::device(test_device()));
  Tensor tensor = at::empty({0}, source.options());
  tensor.set_(source);
  EXPECT_EQ(tensor.data_ptr(), source.data_ptr());
  EXPECT_TRUE(same(tensor, source));
  tensor.set_(source.storage(), 2, {2}, {2});
  EXPECT_TRUE(same(tensor, at::tensor({2, 4}, at::kLong)));
  tensor.set_(source.storage());
  EXPECT_TRUE(same(tensor, source));
  EXPECT_THROW(tensor.set_(source.to(test_device(1)).storage()), c10::Error);
}

// ---------------------------------------------------------------------------------------------
// Operations
// ---------------------------------------------------------------------------------------------

TEST(TestDevice, Arithmetic) {
  const Tensor a = at::randn({4, 5}), b = at::randn({4, 5}).abs() + 1;
  const Tensor x = a.to(test_device()), y = b.to(test_device());
  EXPECT_TRUE(same(x + y, a + b));
  EXPECT_TRUE(same(x * 2 - y / 3, a * 2 - b / 3));
  EXPECT_TRUE(same(x * at::scalar_tensor(2), a * 2));
  EXPECT_TRUE(same(y.sqrt().mul_(x).add_(1), b.sqrt().mul_(a).add_(1)));
  EXPECT_TRUE(same(x.sum({0}), a.sum({0})));
  EXPECT_TRUE(same(x.softmax(1), a.softmax(1)));
  EXPECT_TRUE(same(x.gt(0).logical_and(y.gt(1.5)), a.gt(0).logical_and(b.gt(1.5))));
  EXPECT_TRUE(same(at::where(x > 0, x, y), at::where(a > 0, a, b)));
  EXPECT_TRUE(same(x.to(at::kDouble), a.to(at::kDouble)));
  EXPECT_TRUE(same(x.to(at::kBFloat16), a.to(at::kBFloat16)));
  EXPECT_TRUE(same(x.argmax(1), a.argmax(1)));
  EXPECT_TRUE(same(std::get<1>(x.sort(1)), std::get<1>(a.sort(1))));
  EXPECT_TRUE(same(std::get<0>(x.topk(2)), std::get<0>(a.topk(2))));
  EXPECT_TRUE(same(x.clamp(-1, 1).cumsum(0), a.clamp(-1, 1).cumsum(0)));
  EXPECT_TRUE(same(at::linalg_vector_norm(x, 2, c10::nullopt, false, at::kDouble),
                   at::linalg_vector_norm(a, 2, c10::nullopt, false, at::kDouble)));
  EXPECT_EQ(x.sum().item<float>(), a.sum().item<float>());
  EXPECT_TRUE(at::equal(x, x.clone()));
  EXPECT_EQ((x + y).device(), test_device());
  // The same tensor twice in one operation, and a list of tensors changed in place.
  EXPECT_TRUE(same(x.clone().mul_(x).add_(x), a * a + a));
  const std::vector<Tensor> list = {x.clone(), y.clone()};
  at::_foreach_add_(list, 1);
  EXPECT_TRUE(same(list[1], b + 1));
}

TEST(TestDevice, ViewsWriteThrough) {
  const Tensor host = at::arange(24, at::kFloat).reshape({4, 6});
  const Tensor device = host.to(test_device(1));
  for (const Tensor& tensor : {host, device}) {
    tensor.slice(0, 1, 3).add_(100);
    tensor.narrow(1, 0, 2).mul_(2);
    tensor.select(0, 3).zero_();
    tensor.transpose(0, 1).select(0, 5).fill_(7);
    tensor.view({2, 2, 6}).permute({2, 0, 1}).select(0, 4).sub_(1);
    tensor.unfold(1, 2, 2).select(1, 1).neg_();
    tensor.view({-1}).narrow(0, 3, 1).copy_(at::ones({1}));
    tensor.t().unsqueeze(0).squeeze(0).diagonal().add_(0.5);
    tensor.flatten().chunk(4)[2].exp_();
    tensor.unbind(1)[0].add_(3);
    tensor.index_put_({at::tensor({0, 2}, at::kLong)}, at::scalar_tensor(9));
    tensor.masked_fill_(tensor.gt(50), 50);
  }
  EXPECT_TRUE(same(host, device));
  const Tensor expanded = device.select(0, 1).expand({3, 6});
  EXPECT_EQ(expanded.data_ptr(), device.select(0, 1).data_ptr());
  EXPECT_EQ(expanded.stride(0), 0);
  EXPECT_TRUE(same(expanded.contiguous(), host.select(0, 1).expand({3, 6}).contiguous()));
  EXPECT_TRUE(same(at::cat({expanded, device.slice(1, 0, 6, 1)}),
                   at::cat({host.select(0, 1).expand({3, 6}), host})));
  const Tensor complex = at::view_as_complex(device.view({4, 3, 2}));
  EXPECT_EQ(complex.data_ptr(), device.data_ptr());
  EXPECT_TRUE(same(at::view_as_real(complex), host.view({4, 3, 2})));
}

TEST(TestDevice, Indexing) {
  const Tensor host = at::randn({5, 3});
  const Tensor device = host.to(test_device());
  const Tensor rows = at::tensor({4, 0, 4}, at::kLong), values = at::randn({3, 3});
  EXPECT_TRUE(same(device.index_select(0, rows.to(test_device())), host.index_select(0, rows)));
  EXPECT_TRUE(same(device.index({rows}), host.index({rows})));
  EXPECT_TRUE(same(device.index({rows.to(test_device())}), host.index({rows})));
  EXPECT_TRUE(same(device.index({device > 0}), host.index({host > 0})));
  EXPECT_TRUE(same(device.masked_select(device > 0), host.masked_select(host > 0)));
  EXPECT_TRUE(same(device.gt(0).nonzero(), host.gt(0).nonzero()));
  EXPECT_TRUE(same(device.clone().index_add_(0, rows.to(test_device()), values.to(test_device())),
                   host.clone().index_add_(0, rows, values)));
  EXPECT_TRUE(same(device.clone().index_put_({rows}, values.to(test_device()), true),
                   host.clone().index_put_({rows}, values, true)));
  const auto [unique, inverse, counts] = at::_unique2(rows.to(test_device()), true, true, true);
  const auto [host_unique, host_inverse, host_counts] = at::_unique2(rows, true, true, true);
  EXPECT_TRUE(same(unique, host_unique) && same(inverse, host_inverse) &&
              same(counts, host_counts));
  EXPECT_EQ(unique.device(), test_device());
}

TEST(TestDevice, Gradients) {
  expect_same_as_host({at::randn({4, 8}), at::randn({8, 3}), at::randn({3})}, test_device(1),
                      [](const auto& x) { return at::addmm(x[2], x[0], x[1]).tanh(); });
  expect_same_as_host({at::randn({2, 4, 8}), at::randn({2, 8, 3})}, test_device(2),
                      [](const auto& x) { return x[0].matmul(x[1]).relu(); });
  expect_same_as_host({at::randn({4, 6}), at::randn({6})}, test_device(3), [](const auto& x) {
    return (x[0].t().slice(0, 1, 5).select(1, 2) * x[1].narrow(0, 1, 4)).expand({2, 4}).exp();
  });
  expect_same_as_host({at::randn({5, 7}), at::tensor({3, 0, 6, 2, 2}, at::kLong)}, test_device(1),
                      [](const auto& x) { return at::nll_loss(x[0].log_softmax(1), x[1]); });
  expect_same_as_host({at::randn({9, 4}), at::tensor({3, 0, 3}, at::kLong)}, test_device(1),
                      [](const auto& x) { return at::embedding(x[0], x[1]).sigmoid(); });
  expect_same_as_host({at::randn({6, 4}), at::randn({4}), at::randn({4})}, test_device(1),
                      [](const auto& x) { return at::layer_norm(x[0], {4}, x[1], x[2]); });
  expect_same_as_host(
      {at::randn({6, 4}), at::randn({4}), at::randn({4})}, test_device(1), [](const auto& x) {
        return at::batch_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-5, false).square();
      });
  expect_same_as_host({at::randn({3, 4}), at::randn({3, 4})}, test_device(1), [](const auto& x) {
    return at::where(x[0] > x[1], x[0], x[1] * 2).std(0).log();
  });
}

TEST(TestDevice, GradientsOfWhatElsewhereIsComposed) {
  expect_same_as_host({at::randn({3, 4})}, test_device(1), [](const auto& x) {
    return at::silu(x[0]) + at::mish(x[0]) + at::gelu(x[0]) + at::elu(x[0]);
  });
  expect_same_as_host({at::randn({3}), at::randn({4})}, test_device(1), [](const auto& x) {
    return at::addr(at::ones({3, 4}, x[0].options()), x[0], x[1]);
  });
  expect_same_as_host({at::randn({2, 4, 3, 3}), at::randn({4}), at::randn({4})}, test_device(1),
                      [](const auto& x) { return at::group_norm(x[0], 2, x[1], x[2]).square(); });
}

TEST(TestDevice, GradientsOfConvolutionAndPooling) {
  const std::vector<Tensor> inputs = {at::randn({2, 3, 8, 8}), at::randn({4, 3, 3, 3}),
                                      at::randn({4})};
  expect_same_as_host(inputs, test_device(1), [](const auto& x) {
    return at::max_pool2d(at::conv2d(x[0], x[1], x[2], 1, 1).relu(), 2);
  });
  expect_same_as_host({inputs[0], inputs[1]}, test_device(1), [](const auto& x) {
    return at::avg_pool2d(at::conv2d(x[0], x[1], {}, 2), 2);
  });
  expect_same_as_host({inputs[0], at::randn({3, 2, 3, 3}), at::randn({2})}, test_device(1),
                      [](const auto& x) { return at::conv_transpose2d(x[0], x[1], x[2], 2); });
  expect_same_as_host(
      {at::randn({2, 8, 8, 3}), inputs[1], inputs[2]}, test_device(1), [](const auto& x) {
        return at::conv2d(x[0].permute({0, 3, 1, 2}), x[1], x[2]).permute({0, 2, 3, 1});
      });
}

TEST(TestDevice, GradientCrossesDevices) {
  const Tensor host = at::randn({3}).requires_grad_();
  const Tensor first = host.to(test_device(1)) * 2;
  const Tensor second = first.to(test_device(2)).square();
  second.sum().backward();
  EXPECT_TRUE(host.grad().is_cpu());
  EXPECT_TRUE(same(host.grad(), host * 8));
}

TEST(TestDevice, WithoutGradients) {
  const at::NoGradGuard guard;
  EXPECT_EQ((at::ones({2}, at::device(test_device())) + 1).sum().item<int>(), 4);
  const c10::InferenceMode inference;
  const Tensor tensor = at::ones({2, 2}, at::device(test_device()));
  tensor.select(0, 1).add_(1);
  EXPECT_EQ(tensor.matmul(tensor).sum().item<int>(), 9 + 9);
}

// ---------------------------------------------------------------------------------------------
// Between devices
// ---------------------------------------------------------------------------------------------

TEST(TestDevice, Copies) {
  const Tensor host = at::randn({3, 4});
  const Tensor first = host.to(test_device(1)), second = first.to(test_device(2));
  EXPECT_TRUE(same(second, host));
  EXPECT_NE(first.data_ptr(), host.data_ptr());
  const Tensor third = at::empty({4, 3}, at::device(test_device(3)).dtype(at::kDouble));
  third.t().copy_(second);
  EXPECT_TRUE(same(third, host.t().to(at::kDouble)));
  third.copy_(host.select(0, 1).slice(0, 0, 3));
  EXPECT_TRUE(same(third.select(0, 2), host.select(0, 1).slice(0, 0, 3).to(at::kDouble)));
  Tensor back = at::empty({3, 4});
  back.copy_(second);
  EXPECT_TRUE(at::equal(back, host));
  EXPECT_EQ(first.to(test_device(1)).data_ptr(), first.data_ptr());
  EXPECT_THROW(third.copy_(at::ones({5})), c10::Error);
}

TEST(TestDevice, VariableMovesInPlace) {
  const Tensor host = at::randn({3});
  Tensor variable = host.clone().requires_grad_();
  (variable * 2).sum().backward();
  variable.mutable_grad() = Tensor();
  variable.set_data(host.to(test_device(1)));
  EXPECT_EQ(variable.device(), test_device(1));
  EXPECT_TRUE(variable.requires_grad() && variable.is_leaf());
  variable.square().sum().backward();
  EXPECT_EQ(variable.grad().device(), test_device(1));
  EXPECT_TRUE(same(variable.grad(), host * 2));
  variable.mutable_grad() = Tensor();
  variable.set_data(host);
  EXPECT_TRUE(variable.is_cpu());
  variable.square().sum().backward();
  EXPECT_TRUE(same(variable.grad(), host * 2));
}

TEST(TestDevice, DifferentDevicesAreRefused) {
  const Tensor host = at::ones({2, 2});
  const Tensor first = host.to(test_device(0)), second = host.to(test_device(1));
  const std::string with_host =
      "Expected all tensors to be on the same device, but found at least two devices, "
      "privateuseone:0 and cpu!";
  const Tensor index = at::zeros({1}, at::kLong);
  const std::vector<std::function<void()>> refused = {
      [&] { first + host; },
      [&] { host + first; },
      [&] { host.clone().add_(first); },
      [&] { first.clone().mul_(host); },
      [&] { at::mm(first, host); },
      [&] { at::mm(host, first); },
      [&] {
        at::cat({first, host});
      },
      [&] {
        at::stack({host, first});
      },
      [&] { at::where(first > 0, host, first); },
      [&] { first.index_select(0, index); },
      [&] { at::embedding(first, index); },
      [&] { first.clone().index_put_({index}, host); },
      [&] { at::nll_loss(first, at::zeros({2}, at::kLong)); },
      [&] {
        at::conv2d(first.view({1, 1, 2, 2}), host.view({1, 1, 2, 2}));
      },
      [&] { at::equal(first, host); },
      [&] { at::scalar_tensor(1).add_(first.sum()); },
  };
  for (size_t i = 0; i < refused.size(); ++i) {
    EXPECT_THAT(refusal(refused[i]), HasSubstr(with_host)) << i;
  }
  for (const std::function<void()>& attempt :
       std::vector<std::function<void()>>{[&] { first + second; }, [&] { first.matmul(second); }}) {
    EXPECT_THAT(refusal(attempt), HasSubstr("two devices, privateuseone:0 and privateuseone:1!"));
  }
  const std::string with_index =
      "indices should be either on cpu or on the same device as the indexed tensor";
  EXPECT_THAT(refusal([&] { host.index({first.to(at::kLong)}); }), HasSubstr(with_index));
  EXPECT_THAT(refusal([&] { first.index({second.to(at::kLong)}); }), HasSubstr(with_index));
  EXPECT_THAT(refusal([&] { at::randn({2}, at::detail::createCPUGenerator(), first.options()); }),
              HasSubstr("'privateuseone' device type for generator but found 'cpu'"));
}

}  // namespace
}  // namespace muster::inline v0_1::testing
