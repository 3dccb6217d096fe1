// The part of LibTorch that Muster's sources use: tensors, their functions, and autograd.
// <torch/torch.h> adds modules, data loaders and serialization, and with them 5 s to each source: a
// compiler instantiates the templates that headers mention in every source anew, also after a
// precompiled header. So only sources that use a module include that one. For sources alone: public
// headers include only <ATen/core/Tensor.h> of LibTorch.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/csrc/autograd/variable.h>

// <torch/types.h> gives them these names too; a program may include both.
namespace torch {
using namespace at;
using Dtype = at::ScalarType;
using NoGradGuard = at::NoGradGuard;
using AutoGradMode = at::AutoGradMode;
}  // namespace torch
