#include "muster/parallel/sync_batch_norm.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/parallel/internal/norm_sync.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::NormSync;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::atomic<int64_t> norms_made{0};

// A layer in its Cluster, which a graph of autograd keeps.
struct Connection : torch::CustomClassHolder {
  Connection(std::shared_ptr<NormSync> sync, int number) : sync(std::move(sync)), number(number) {}
  const std::shared_ptr<NormSync> sync;
  const int number;
};

// Mean and variance (divided by the count) of the examples of all workers, [channels] each.
struct JointMoments {
  double count = 0;
  Tensor mean{}, variance{};
};

// [channels] for [batch, channels, ...].
Tensor along_channels(const Tensor& value, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = value.size(0);
  return value.view(shape);
}

JointMoments joint_moments(const Tensor& input, const Connection& connection) {
  const torch::NoGradGuard no_grad;
  const int64_t channels = input.size(1);
  const auto options = input.options().dtype(kFloat64);
  Tensor numbers = torch::zeros({1 + 2 * channels}, options);
  if (input.numel() > 0) {
    const auto [mean, variance] = at::batch_norm_update_stats(input, {}, {}, /*momentum=*/0);
    numbers[0] = input.numel() / channels;
    numbers.slice(0, 1, 1 + channels).copy_(mean);
    numbers.slice(0, 1 + channels).copy_(variance);
  }
  const Tensor all = connection.sync->gather(connection.number, numbers);
  const Tensor counts = all.slice(1, 0, 1);
  const Tensor means = all.slice(1, 1, 1 + channels), variances = all.slice(1, 1 + channels);
  JointMoments joint{.count = counts.sum().item<double>()};
  if (joint.count <= 1) {
    connection.sync->refuse_together(
        fmt::format("SyncBatchNorm: all workers together have {} value for each channel in "
                    "training, input {}",
                    joint.count, describe(input)),
        "a variance needs at least 2: use larger batches, or drop the last batch of the data");
  }
  // No difference of large numbers is taken, so no digits are lost.
  const Tensor shares = counts / joint.count;
  const Tensor mean = (means * shares).sum(0);
  joint.mean = mean.to(input.scalar_type());
  joint.variance = ((variances + (means - mean).square()) * shares).sum(0).to(input.scalar_type());
  return joint;
}

// The normalization with statistics that depend on the inputs of all workers.
struct SyncedNorm : torch::autograd::Function<SyncedNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& variance, double eps,
                        double count, const c10::IValue& connection) {
    context->save_for_backward({input, weight, mean, variance});
    context->saved_data["eps"] = eps;
    context->saved_data["count"] = count;
    context->saved_data["connection"] = connection;
    context->saved_data["needs_input"] = input.requires_grad();
    return at::batch_norm(input, weight, bias, mean, variance, /*training=*/false, /*momentum=*/0,
                          eps, /*cudnn_enabled=*/false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (at::GradMode::is_enabled()) {
      throw invalid_argument("not supported: backward() with create_graph through a SyncBatchNorm",
                             "compute the penalty in evaluation mode, or use torch::nn::BatchNorm");
    }
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    // With fixed statistics: the sums over this worker of gradient * normalized, and of gradient.
    Tensor of_input = torch::zeros_like(input), of_weight = torch::zeros_like(weight),
           of_bias = torch::zeros_like(weight);
    if (input.numel() > 0) {
      std::tie(of_input, of_weight, of_bias) =
          at::native_batch_norm_backward(gradients[0], input, weight, mean, variance, {}, {},
                                         /*train=*/false, eps, {true, true, true});
    }
    if (context->saved_data["needs_input"].toBool()) {
      const auto connection = c10::static_intrusive_pointer_cast<Connection>(
          context->saved_data["connection"].toCapsule());
      const double count = context->saved_data["count"].toDouble();
      const Tensor sums = torch::cat({of_weight, of_bias}).to(kFloat64);
      connection->sync->sum(connection->number, sums);
      const Tensor deviation = (variance.to(kFloat64) + eps).rsqrt();
      const Tensor factor = weight.to(kFloat64) * deviation / count;
      const int64_t channels = weight.size(0);
      const auto as_input = [&](const Tensor& value) {
        return along_channels(value.to(input.scalar_type()), input);
      };
      // d/dx of the mean and of the variance, which depend on every example of every worker.
      const Tensor through_variance = as_input(factor * deviation * sums.slice(0, 0, channels));
      const Tensor through_mean = as_input(factor * sums.slice(0, channels));
      of_input.sub_(
          (input - along_channels(mean, input)).mul_(through_variance).add_(through_mean));
    }
    return {of_input, of_weight, of_bias, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

template <typename Norm>
std::shared_ptr<SyncBatchNormImpl> synced(const Norm& norm) {
  auto made = std::make_shared<SyncBatchNormImpl>(norm.options);
  made->take_over(norm.weight, norm.bias, norm.running_mean, norm.running_var,
                  norm.num_batches_tracked);
  made->train(norm.is_training());
  return made;
}

std::shared_ptr<SyncBatchNormImpl> synced(const torch::nn::Module& norm) {
  if (const auto* one = norm.as<torch::nn::BatchNorm1dImpl>()) return synced(*one);
  if (const auto* two = norm.as<torch::nn::BatchNorm2dImpl>()) return synced(*two);
  return synced(*norm.as<torch::nn::BatchNorm3dImpl>());
}

// Calls `fn` for each BatchNorm under `parent`, with what holds it, its name there, and its path.
void each_batch_norm(torch::nn::Module& parent, const std::string& path,
                     const std::function<void(torch::nn::Module& parent, const std::string& name,
                                              const std::string& path)>& fn) {
  for (const auto& child : parent.named_children()) {
    const std::string here = path.empty() ? child.key() : path + "." + child.key();
    if (is_batch_norm(*child.value())) {
      fn(parent, child.key(), here);
    } else {
      each_batch_norm(*child.value(), here, fn);
    }
  }
}

}  // namespace

SyncBatchNormImpl::Place::Place() { ++norms_made; }

int64_t SyncBatchNormImpl::made() { return norms_made; }

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format(
      "muster::SyncBatchNorm({}, eps={}, momentum={}, affine={}, track_running_stats={})",
      options.num_features(), options.eps(),
      options.momentum() ? std::to_string(*options.momentum()) : "none", options.affine(),
      options.track_running_stats());
}

void SyncBatchNormImpl::connect(std::weak_ptr<internal::NormSync> sync, int number) {
  place_.sync = std::move(sync);
  place_.number = number;
  place_.connected = true;
}

void SyncBatchNormImpl::take_over(const Tensor& weight_of, const Tensor& bias_of,
                                  const Tensor& mean_of, const Tensor& variance_of,
                                  const Tensor& batches_of) {
  const torch::NoGradGuard no_grad;
  if (weight_of.defined()) {
    weight = parameters_["weight"] = weight_of;
    bias = parameters_["bias"] = bias_of;
  }
  if (!mean_of.defined()) return;
  // The registered buffers are these tensors themselves.
  running_mean.set_data(mean_of.clone());
  running_var.set_data(variance_of.clone());
  num_batches_tracked.set_data(batches_of.clone());
}

void SyncBatchNormImpl::_check_input_dim(const Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  throw invalid_argument(fmt::format("SyncBatchNorm({}) was given an input {}",
                                     options.num_features(), describe(input)),
                         fmt::format("give it [batch, {}, ...]", options.num_features()));
}

Tensor SyncBatchNormImpl::forward(const Tensor& input) {
  _check_input_dim(input);
  double momentum = options.momentum().value_or(0.0);
  if (is_training() && num_batches_tracked.defined()) {
    num_batches_tracked += 1;
    // Without a momentum: the mean of all batches.
    if (!options.momentum()) momentum = 1.0 / num_batches_tracked.item<double>();
  }
  if (is_training() && place_.connected) return normalized_over_workers(input, momentum);
  return at::batch_norm(input, weight, bias, running_mean, running_var,
                        is_training() || !options.track_running_stats(), momentum, options.eps(),
                        at::globalContext().userEnabledCuDNN());
}

Tensor SyncBatchNormImpl::normalized_over_workers(const Tensor& input, double momentum) {
  auto sync = place_.sync.lock();
  if (sync == nullptr) {
    throw invalid_argument("the Cluster of a SyncBatchNorm is over, and it was called in training",
                           "call module->eval() before, or train while the Cluster lives");
  }
  const auto connection = c10::make_intrusive<Connection>(std::move(sync), place_.number);
  // Under autocast inputs have 16 bits, and weights 32.
  const auto wide = weight.defined() ? weight.scalar_type()
                                     : (input.scalar_type() == kFloat64 ? kFloat64 : kFloat32);
  const Tensor used = input.to(wide);
  const JointMoments joint = joint_moments(used, *connection);
  if (running_mean.defined()) {
    const torch::NoGradGuard no_grad;
    running_mean.mul_(1 - momentum).add_(joint.mean, momentum);
    running_var.mul_(1 - momentum).add_(joint.variance, momentum * joint.count / (joint.count - 1));
  }
  const Tensor scale = weight.defined() ? weight : torch::ones_like(joint.mean);
  const Tensor shift = bias.defined() ? bias : torch::zeros_like(joint.mean);
  return SyncedNorm::apply(used, scale, shift, joint.mean, joint.variance, options.eps(),
                           joint.count, c10::IValue::make_capsule(connection))
      .to(input.scalar_type());
}

void convert_sync_batchnorm(torch::nn::Module& module) {
  std::vector<std::string> members;
  if (is_batch_norm(module)) members.emplace_back("the module itself");
  each_batch_norm(module, "", [&](torch::nn::Module& parent, const std::string&, const auto& path) {
    if (parent.as<torch::nn::SequentialImpl>() == nullptr) members.push_back(path);
  });
  if (!members.empty()) {
    throw invalid_argument(
        fmt::format("not supported: converting a BatchNorm that is not part of a "
                    "torch::nn::Sequential: {}",
                    join(members, ", ")),
        "declare these members as muster::SyncBatchNorm; options and checkpoints stay the same");
  }
  each_batch_norm(module, "", [](torch::nn::Module& parent, const std::string& name, const auto&) {
    const auto old = parent.named_children()[name];
    const auto made = synced(*old);
    for (torch::nn::AnyModule& part : *parent.as<torch::nn::SequentialImpl>()) {
      if (part.ptr() == old) part = torch::nn::AnyModule(made);
    }
    parent.replace_module(name, made);
  });
}

}  // namespace muster::inline v0_1
