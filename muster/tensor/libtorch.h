// What Muster's sources use of LibTorch: tensors, their functions, and autograd. <torch/torch.h>
// adds modules, data loaders and serialization, and with them 5 s to each source: a compiler
// instantiates the templates that headers mention in every source again, also after a precompiled
// header. So only sources that use a module include that one, and only those that define an
// operation with a gradient include <torch/csrc/autograd/custom_function.h> (0.7 s). For sources
// alone: public headers include nothing of LibTorch but <ATen/core/Tensor.h>.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/csrc/autograd/variable.h>

// <torch/types.h> gives them these names too; a program may include both.
namespace torch {
using namespace at;
using Dtype = at::ScalarType;
using NoGradGuard = at::NoGradGuard;
using AutoGradMode = at::AutoGradMode;
}  // namespace torch
