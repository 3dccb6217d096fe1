// What tasks and parameter servers say to each other: a head that is JSON, and tensors behind it as
// raw bytes. Each request has one answer. Thread safety: as net::MessageSocket.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/net/message_socket.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

// Sends the head, and the bytes of `tensors`, contiguous and on the CPU, one behind another.
void send_message(net::MessageSocket& socket, const nlohmann::json& head,
                  std::span<const Tensor> tensors = {});
// Receives the head of the next message; its payload is still to be read. Nothing when none came in
// time. Throws Corrupt for one that is no JSON object.
std::optional<nlohmann::json> receive_head(net::MessageSocket& socket, double timeout_seconds);
// Reads the next bytes of the payload into the memory of `tensor`, contiguous and on the CPU.
void receive_tensor(net::MessageSocket& socket, const Tensor& tensor);

// What travels of a tensor where float32 is rounded to `dtype` on the way; and its other end.
Tensor rounded(const Tensor& tensor, DType dtype);
void receive_rounded(net::MessageSocket& socket, const Tensor& tensor, DType dtype);

// An error as an answer, and what it becomes where it arrives.
nlohmann::json to_json(const Error& error);
Error to_error(const nlohmann::json& told);

}  // namespace muster::inline v0_1::ps
