// The words between the host of closures and its workers. Thread safety: pure functions, and as
// net::MessageSocket.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "muster/net/message_socket.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

// How tensors that follow a head look.
nlohmann::json forms_of(const std::vector<Tensor>& tensors);
// Receives those that look so.
std::vector<Tensor> receive_all(net::MessageSocket& socket, const nlohmann::json& forms);

}  // namespace muster::inline v0_1::ps
