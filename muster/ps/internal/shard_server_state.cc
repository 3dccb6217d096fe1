// How a server sends and receives its contents: the chief reads and writes them.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "muster/base/error.h"
#include "muster/ps/internal/shard_server.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

namespace {

// Committed gradients are on their way to all servers.
constexpr auto kLongestCut = std::chrono::seconds(30);
constexpr auto kCutLook = std::chrono::milliseconds(500);

// Returns names and forms of `tensors`, and the tensors in that order.
shards::Tensors list_of(const std::map<std::string, Tensor>& named, std::vector<Tensor>* tensors) {
  shards::Tensors list;
  for (const auto& [name, tensor] : named) {
    list.tensors.push_back({.name = name, .form = form_of(tensor)});
    tensors->push_back(tensor);
  }
  return list;
}

}  // namespace

void ShardServer::answer(Client& client, const shards::Specs&, Defined& here) {
  shards::Tensors list;
  for (const auto& [name, spec] : here.store->specs())
    list.tensors.push_back({.name = name, .form = form_of(spec)});
  send_answer(client.socket, list);
}

void ShardServer::answer(Client& client, const shards::Snapshot& request, Defined& here) {
  if (request.round) apply_round(*request.round);
  const int64_t commits = request.commits;
  const auto deadline = clock_.now() + kLongestCut;
  std::unique_lock lock(mutex_);
  while (applied_ < commits) {
    if (closed_ || clock_.now() > deadline) {
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("{} has {} of the {} steps that a checkpoint is to hold", name_,
                              applied_, commits));
    }
    const auto ready = [&] { return applied_ >= commits || closed_; };
    if (clock_.wait_for(lock, changed_, kCutLook, ready)) continue;
    // A worker that stopped between its commit and its message to this server.
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
        fmt::format(
            "{} has {} steps, but the checkpoint needs {}: the other servers have continued", name_,
            applied_, commits));
  }
  lock.unlock();
  const std::map<std::string, Tensor> copy = here.store->copy();
  // The chief lets the others continue as soon as this answer arrives; the rest takes its time.
  send_answer(client.socket, Done());
  if (!request.part.empty()) {
    // The chief knows whether the run can do without this checkpoint.
    shards::Written written;
    try {
      written = files_.write(request.part, *here.store, copy);
    } catch (const Error& error) {
      written.failed.emplace(
          error.kind(), fmt::format("{} cannot save its part: {}", name_, error.message()),
          error.hint().empty() ? "the checkpoints before this one are untouched" : error.hint());
    }
    return send_answer(client.socket, written);
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : copy) tensors.push_back(tensor);
  send_answer(client.socket, Done(), tensors);
}

void ShardServer::answer(Client& client, const shards::Write& request, Defined& here) {
  std::map<std::string, Tensor> whole;
  for (const auto& [name, form, begin] : request.tensors) {
    const Tensor tensor = receive_tensor_of(client.socket, form);
    if (begin) {
      here.store->write_rows(name, *begin, tensor);
    } else {
      whole[name] = tensor;
    }
  }
  here.store->write(whole);
  send_answer(client.socket, Done());
}

void ShardServer::answer(Client& client, const shards::BeginSlots&, Defined& here) {
  here.store->begin_slots();
  send_answer(client.socket, Done());
}

void ShardServer::answer(Client& client, const shards::Restore& request, Defined& here) {
  files_.restore(request, *here.store);
  send_answer(client.socket, Done());
}

void ShardServer::answer(Client& client, const shards::Keep& request, Defined&) {
  std::map<std::string, Tensor> tensors;
  for (const shards::Named& told : request.tensors)
    tensors[told.name] = receive_tensor_of(client.socket, told.form);
  {
    const std::lock_guard lock(mutex_);
    kept_ = std::move(tensors);
  }
  send_answer(client.socket, Done());
}

void ShardServer::answer(Client& client, const shards::Kept&, Defined&) {
  std::map<std::string, Tensor> kept;
  {
    const std::lock_guard lock(mutex_);
    kept = kept_;
  }
  std::vector<Tensor> tensors;
  const shards::Tensors list = list_of(kept, &tensors);
  send_answer(client.socket, list, tensors);
}

}  // namespace muster::inline v0_1::ps
