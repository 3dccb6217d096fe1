// Batch normalization whose statistics are those of the batches of all workers: n workers with
// batches of b examples compute what one process computes with a batch of n * b.
//
//   struct NetImpl : torch::nn::Module {
//     muster::SyncBatchNorm norm = register_module("norm", muster::SyncBatchNorm(16));
//     ...
//   };
//   auto net = cluster.data_parallel(model);  // connects the layer with the other workers
//
// Thread safety: as any module; belongs to the thread of its Cluster.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <ostream>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

namespace internal {
class NormSync;
}

// torch::nn::BatchNorm1d, 2d and 3d in one: [batch, channels, ...] -> the same shape. Options,
// parameters, buffers, their names and their dtypes are those of torch::nn::BatchNorm1d, so
// checkpoints of one are checkpoints of the other. clone() makes a layer that belongs to no Cluster
// until data_parallel() has it.
//
// In training, mean and variance are those of the examples of all workers, whose batches may differ
// in size; a worker that has joined counts as no examples. Running statistics are the same on all
// workers. Each forward in training sends one message of 2 * channels + 1 numbers, each backward()
// one of 2 * channels, also under no_sync(): all workers call the layer equally often. In
// evaluation, and as long as no data_parallel() has the layer, it computes what
// torch::nn::BatchNorm computes. Source of the formulas: Ioffe and Szegedy, Batch Normalization,
// arXiv:1502.03167.
class MUSTER_EXPORT SyncBatchNormImpl final
    : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  // `channels`: the size of axis 1 of the input.
  explicit SyncBatchNormImpl(int64_t channels)
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(channels)) {}
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options) : NormImplBase(options) {}
  // Throws InvalidArgument for an input of fewer than two axes or of other channels, for a training
  // batch with one value or none for each channel over all workers, for the gradient of a gradient,
  // and where the Cluster is over.
  Tensor forward(const Tensor& input);
  // "muster::SyncBatchNorm(16, eps=1e-05, ...)".
  void pretty_print(std::ostream& stream) const override;

  // Takes over the parameters of this layer themselves, and the values of its buffers.
  void take_over(const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                 const Tensor& running_var, const Tensor& num_batches_tracked);
  // For data_parallel(): the Cluster of the layer, and its number there.
  void connect(std::weak_ptr<internal::NormSync> sync, int number);
  bool connected() const { return place_.connected; }
  // How many of these layers this process has made: tells whether a module may have new ones.
  static int64_t made();

 protected:
  // As torch::nn::BatchNorm1d, 2d and 3d together.
  void _check_input_dim(const Tensor& input) override;

 private:
  Tensor normalized_over_workers(const Tensor& input, double momentum);

  // In a Cluster; a copy of the layer has none.
  struct Place {
    Place();
    Place(const Place&) : Place() {}
    Place& operator=(const Place&) { return *this = Place(); }
    Place& operator=(Place&&) = default;
    ~Place() = default;

    std::weak_ptr<internal::NormSync> sync{};
    int number = 0;
    bool connected = false;
  };
  Place place_;
};
// The module holder: what torch::nn::BatchNorm2d is to torch::nn::BatchNorm2dImpl.
TORCH_MODULE(SyncBatchNorm);

// Makes each torch::nn::BatchNorm1d, 2d and 3d in a torch::nn::Sequential within `module` a
// SyncBatchNorm, which takes over its parameters themselves (an optimizer that has them stays
// right) and the values of its buffers. Call it before data_parallel(). `module` may be such a
// Sequential, or hold some. Throws InvalidArgument, and changes nothing, if another class holds a
// BatchNorm: the class calls that layer through a member, which cannot be exchanged from outside;
// the message names each. Declare such members as muster::SyncBatchNorm.
MUSTER_EXPORT void convert_sync_batchnorm(torch::nn::Module& module);
// The same for a module holder.
template <typename Module>
requires torch::detail::is_module_holder<Module>::value void convert_sync_batchnorm(
    const Module& module) {
  convert_sync_batchnorm(static_cast<torch::nn::Module&>(*module.ptr()));
}

}  // namespace muster::inline v0_1
