#include "muster/ps/internal/wire.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using nlohmann::json;

namespace {

std::span<std::byte> bytes_of(const Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.is_cpu())
    throw internal_error("a tensor travels that is not contiguous on the CPU");
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

constexpr std::array kKinds = {
    ErrorKind::kInvalidArgument, ErrorKind::kNotFound,  ErrorKind::kCorrupt,
    ErrorKind::kNonFinite,       ErrorKind::kPeerLost,  ErrorKind::kTimeout,
    ErrorKind::kUnavailable,     ErrorKind::kCancelled, ErrorKind::kInternal};

}  // namespace

void send_message(net::MessageSocket& socket, const json& head, std::span<const Tensor> tensors) {
  std::vector<std::span<const std::byte>> pieces;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() > 0) pieces.push_back(bytes_of(tensor));
  }
  socket.send(head.dump(), pieces);
}

std::optional<json> receive_head(net::MessageSocket& socket, double timeout_seconds) {
  const auto head = socket.receive(timeout_seconds);
  if (!head) return std::nullopt;
  json parsed = json::parse(head->text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw corrupt("a message of " + socket.peer() + " is no JSON object");
  return parsed;
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

json to_json(const Error& error) {
  return {{"kind", std::string(to_string(error.kind()))},
          {"message", error.message()},
          {"hint", error.hint()}};
}

Error to_error(const json& told) {
  ErrorKind kind = ErrorKind::kInternal;
  for (const ErrorKind known : kKinds) {
    if (to_string(known) == told.value("kind", "")) kind = known;
  }
  return Error(kind, told.value("message", ""), told.value("hint", ""));
}

}  // namespace muster::inline v0_1::ps
