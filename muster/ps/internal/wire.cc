#include "muster/ps/internal/wire.h"

#include <algorithm>
#include <cstddef>

#include "muster/base/foreign_error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {
namespace {

std::span<std::byte> bytes_of(const Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.is_cpu())
    throw internal_error("a tensor travels that is not contiguous on the CPU");
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

void send_head(net::MessageSocket& socket, std::string_view head, std::span<const Tensor> tensors) {
  std::vector<std::span<const std::byte>> pieces;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() > 0) pieces.push_back(bytes_of(tensor));
  }
  socket.send(head, pieces);
}

void refuse(net::MessageSocket& socket, const Error& error) {
  try {
    send_error(socket, error);
  } catch (const Error&) {
    // It is gone, and will not miss the answer.
  }
}

void answer_or_error(net::MessageSocket& socket, const std::function<void()>& answer) {
  try {
    answer();
  } catch (const std::exception&) {
    const Error error = current_error();
    if (socket.payload_left() > 0) socket.skip_payload();
    send_error(socket, error);
  }
}

void receive_tensor(net::MessageSocket& socket, const Tensor& tensor) {
  if (tensor.numel() > 0) socket.receive_payload(bytes_of(tensor));
}

Tensor rounded(const Tensor& tensor, DType dtype) {
  return tensor.scalar_type() == kFloat32 && dtype != kFloat32 ? tensor.to(dtype) : tensor;
}

void receive_rounded(net::MessageSocket& socket, const Tensor& tensor, DType dtype) {
  if (tensor.scalar_type() != kFloat32 || dtype == kFloat32) return receive_tensor(socket, tensor);
  const Tensor received = torch::empty(tensor.sizes(), at::dtype(dtype));
  receive_tensor(socket, received);
  Tensor(tensor).copy_(received);
}

net::TensorForm form_of(const TensorSpec& spec) {
  return {.shape = spec.shape, .dtype = static_cast<uint8_t>(spec.dtype)};
}

net::TensorForm form_of(const Tensor& tensor) {
  return form_of(TensorSpec{tensor.sizes().vec(), tensor.scalar_type()});
}

std::vector<net::TensorForm> forms_of(const std::vector<Tensor>& tensors) {
  std::vector<net::TensorForm> forms;
  for (const Tensor& tensor : tensors) forms.push_back(form_of(tensor));
  return forms;
}

TensorSpec described(const net::TensorForm& form) {
  if (form.dtype >= static_cast<uint8_t>(at::ScalarType::Undefined) ||
      std::ranges::any_of(form.shape, [](int64_t size) { return size < 0; }))
    throw corrupt("a message describes a tensor that cannot be");
  return {form.shape, static_cast<DType>(form.dtype)};
}

Tensor receive_tensor_of(net::MessageSocket& socket, const net::TensorForm& form) {
  const TensorSpec spec = described(form);
  const Tensor tensor = torch::empty(spec.shape, at::dtype(spec.dtype));
  receive_tensor(socket, tensor);
  return tensor;
}

std::vector<Tensor> receive_all(net::MessageSocket& socket,
                                const std::vector<net::TensorForm>& forms) {
  std::vector<Tensor> tensors;
  for (const net::TensorForm& form : forms) tensors.push_back(receive_tensor_of(socket, form));
  return tensors;
}

}  // namespace muster::inline v0_1::ps
