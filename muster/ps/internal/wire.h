// How the messages of parameter servers travel (net/server_messages.h): their fields as the head,
// and tensors after it as raw bytes. Thread safety: as net::MessageSocket.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/net/message_socket.h"
#include "muster/net/server_messages.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

namespace calls = net::calls;
namespace ledger = net::ledger;
namespace shards = net::shards;
using net::Done;
using plan::StepLedger;

// Sends a head, and the bytes of `tensors`, contiguous and on the CPU, one after another.
void send_head(net::MessageSocket& socket, std::string_view head,
               std::span<const Tensor> tensors = {});
template <typename Message>
void send_message(net::MessageSocket& socket, const Message& message,
                  std::span<const Tensor> tensors = {}) {
  send_head(socket, net::encode(message), tensors);
}
template <typename Answer>
void send_answer(net::MessageSocket& socket, const Answer& answer,
                 std::span<const Tensor> tensors = {}) {
  send_head(socket, net::encode_answer(answer), tensors);
}
inline void send_error(net::MessageSocket& socket, const Error& error) {
  send_head(socket, net::encode_error(error));
}
// The same if the peer may be gone already.
void refuse(net::MessageSocket& socket, const Error& error);
// Answers a request; an exception becomes the answer.
void answer_or_error(net::MessageSocket& socket, const std::function<void()>& answer);

// Receives the next message, whose payload is still to be read. Nothing if none came in time.
// Throws Corrupt for another message.
template <typename Message>
std::optional<Message> receive_message(net::MessageSocket& socket, double timeout_seconds) {
  const auto head = socket.receive(timeout_seconds);
  if (!head) return std::nullopt;
  return net::decode<Message>(head->text);
}
// The same for an answer; throws the error that came in its place.
template <typename Answer>
std::optional<Answer> receive_answer(net::MessageSocket& socket, double timeout_seconds) {
  const auto head = socket.receive(timeout_seconds);
  if (!head) return std::nullopt;
  if (const auto error = net::error_in(head->text)) throw *error;
  return net::decode_answer<Answer>(head->text);
}
// Reads the next bytes of the payload into the memory of `tensor`, contiguous and on the CPU.
void receive_tensor(net::MessageSocket& socket, const Tensor& tensor);

// The form in which a tensor is sent if float32 is rounded to `dtype` on the way; and its other
// end.
Tensor rounded(const Tensor& tensor, DType dtype);
void receive_rounded(net::MessageSocket& socket, const Tensor& tensor, DType dtype);

// The form of a tensor, and memory for a tensor of this form. Throws Corrupt for a form that no
// tensor has.
net::TensorForm form_of(const TensorSpec& spec);
net::TensorForm form_of(const Tensor& tensor);
std::vector<net::TensorForm> forms_of(const std::vector<Tensor>& tensors);
TensorSpec described(const net::TensorForm& form);
// Receives tensors that look so.
Tensor receive_tensor_of(net::MessageSocket& socket, const net::TensorForm& form);
std::vector<Tensor> receive_all(net::MessageSocket& socket,
                                const std::vector<net::TensorForm>& forms);

}  // namespace muster::inline v0_1::ps
