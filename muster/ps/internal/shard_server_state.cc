// How a server gives and takes what it holds: the chief reads and writes it.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "muster/base/error.h"
#include "muster/ps/internal/shard_server.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using nlohmann::json;

namespace {

// What was committed is on its way to all servers.
constexpr auto kLongestCut = std::chrono::seconds(30);
constexpr auto kCutLook = std::chrono::milliseconds(500);

// Names and forms, as they travel.
json list_of(const std::map<std::string, TensorSpec>& specs) {
  json list = json::array();
  for (const auto& [name, spec] : specs)
    list.push_back(
        {{"name", name}, {"shape", spec.shape}, {"dtype", static_cast<int>(spec.dtype)}});
  return list;
}

// Receives the tensor that a message describes so.
Tensor receive_tensor_of(net::MessageSocket& socket, const json& told) {
  const Tensor tensor = torch::empty(told.at("shape").get<Shape>(),
                                     at::dtype(static_cast<DType>(told.at("dtype").get<int>())));
  receive_tensor(socket, tensor);
  return tensor;
}

std::map<std::string, TensorSpec> specs_of(const std::map<std::string, Tensor>& tensors) {
  std::map<std::string, TensorSpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  return specs;
}

}  // namespace

void ShardServer::specs(net::MessageSocket& socket, Defined& here) {
  send_message(socket, {{"tensors", list_of(here.store->specs())}});
}

void ShardServer::snapshot(net::MessageSocket& socket, const json& request, Defined& here) {
  const auto commits = request.at("commits").get<int64_t>();
  const auto deadline = std::chrono::steady_clock::now() + kLongestCut;
  std::unique_lock lock(mutex_);
  while (applied_ < commits) {
    if (closed_ || std::chrono::steady_clock::now() > deadline) {
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("{} has {} of the {} steps that a checkpoint is to hold", name_,
                              applied_, commits));
    }
    changed_.wait_for(lock, kCutLook);
    if (applied_ >= commits || closed_) continue;
    // A worker that stopped between its commit and its word to this server.
    std::vector<int> ranks;
    for (const auto& [rank, waiting] : waiting_) {
      if (waiting.ticket != 0) ranks.push_back(rank);
    }
    lock.unlock();
    for (const int rank : ranks) settle(rank, /*gone=*/false);
    lock.lock();
  }
  if (applied_ > commits) {
    throw Error(
        ErrorKind::kPeerLost,
        fmt::format("{} has {} steps, and a checkpoint was to hold {}: the others have gone on",
                    name_, applied_, commits));
  }
  lock.unlock();
  const std::map<std::string, Tensor> copy = here.store->copy();
  // The chief lets the others go on as soon as this is here; what follows takes its time.
  send_message(socket, {{"tensors", list_of(specs_of(copy))}});
  if (request.contains("part")) {
    // The chief knows whether the run can do without this checkpoint.
    WrittenPart written;
    try {
      written = files_.write(request.at("part").get<std::string>(), *here.store, copy);
    } catch (const Error& error) {
      written.failed.emplace(
          error.kind(), fmt::format("{} cannot save its part: {}", name_, error.message()),
          error.hint().empty() ? "the checkpoints before this one are untouched" : error.hint());
    }
    return send_message(socket, written.to_json());
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : copy) tensors.push_back(tensor);
  send_message(socket, json::object(), tensors);
}

void ShardServer::write(net::MessageSocket& socket, const json& request, Defined& here) {
  std::map<std::string, Tensor> whole;
  for (const json& told : request.at("tensors")) {
    const auto name = told.at("name").get<std::string>();
    const Tensor tensor = receive_tensor_of(socket, told);
    if (told.contains("begin")) {
      here.store->write_rows(name, told.at("begin").get<int64_t>(), tensor);
    } else {
      whole[name] = tensor;
    }
  }
  here.store->write(whole);
  send_message(socket, json::object());
}

void ShardServer::keep(net::MessageSocket& socket, const json& request) {
  std::map<std::string, Tensor> tensors;
  for (const json& told : request.at("tensors"))
    tensors[told.at("name").get<std::string>()] = receive_tensor_of(socket, told);
  {
    const std::lock_guard lock(mutex_);
    kept_ = std::move(tensors);
  }
  send_message(socket, json::object());
}

void ShardServer::kept(net::MessageSocket& socket) {
  std::map<std::string, Tensor> kept;
  {
    const std::lock_guard lock(mutex_);
    kept = kept_;
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : kept) tensors.push_back(tensor);
  send_message(socket, {{"tensors", list_of(specs_of(kept))}}, tensors);
}

}  // namespace muster::inline v0_1::ps
