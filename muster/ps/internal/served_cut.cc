#include "muster/ps/internal/served_cut.h"

#include <utility>

#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

ServedCut::ServedCut(std::shared_ptr<ServerConnections> connections,
                     std::vector<std::vector<HeldTensor>> held,
                     std::map<std::string, TensorSpec> specs, bool later)
    : connections_(std::move(connections)),
      held_(std::move(held)),
      specs_(std::move(specs)),
      later_(later),
      names_(held_.size()),
      written_(held_.size()) {}

ServedCut::~ServedCut() {
  if (later_ && !received_) connections_->end_save_connections();
}

void ServedCut::begin(size_t server, int64_t generation, const net::ledger::Cut& paused,
                      bool in_parts, uint32_t save) {
  if (in_parts) names_[server] = checkpoint_part_name(paused.step, server, held_.size(), save);
  const shards::Snapshot asked{
      .commits = paused.commits, .round = paused.round, .part = names_[server]};
  later_ ? connections_->ask_for_save(server, generation, asked)
         : connections_->ask(server, generation, asked);
}

void ServedCut::receive(distribute::ServedState::Cut& cut) {
  names_.front().empty() ? receive_tensors(cut) : receive_parts(cut);
  received_ = true;
}

void ServedCut::at_all_servers(const std::function<void(size_t server)>& work) {
  later_ ? connections_->at_all_servers_for_save(work) : connections_->at_all_servers(work);
}

void ServedCut::receive_tensors(distribute::ServedState::Cut& cut) {
  std::vector<std::vector<Tensor>> theirs(held_.size());
  at_all_servers([&](size_t server) {
    receive_more<Done>(server, [&](net::MessageSocket& socket, const Done&) {
      for (const HeldTensor& held : held_[server]) {
        const Tensor tensor = torch::empty(held.spec.shape, at::dtype(held.spec.dtype));
        receive_tensor(socket, tensor);
        theirs[server].push_back(tensor);
      }
    });
  });
  std::map<std::string, std::map<int, Tensor>> parts;
  for (size_t server = 0; server < held_.size(); ++server) {
    for (size_t i = 0; i < held_[server].size(); ++i) {
      const HeldTensor& held = held_[server][i];
      if (held.parts == 1) {
        cut.tensors.emplace(held.logical, theirs[server][i]);
      } else {
        parts[held.logical][held.part] = theirs[server][i];
      }
    }
  }
  for (const auto& [name, by_part] : parts) {
    std::vector<Tensor> pieces;
    for (const auto& [part, tensor] : by_part) pieces.push_back(tensor);
    cut.tensors[name] = torch::cat(pieces, 0);
  }
}

void ServedCut::receive_parts(distribute::ServedState::Cut& cut) {
  try {
    at_all_servers([&](size_t server) {
      receive_more<shards::Written>(server, [&](net::MessageSocket&, const shards::Written& told) {
        written_[server] = told;
      });
    });
  } catch (...) {
    forget_parts();
    throw;
  }
  for (const shards::Written& part : written_) {
    if (cut.non_finite.empty()) cut.non_finite = part.non_finite;
    if (!cut.failed) cut.failed = part.failed;
  }
  if (cut.failed || !cut.non_finite.empty()) return forget_parts();
  cut.parts = parts_table();
}

void ServedCut::forget_parts() {
  for (size_t server = 0; server < names_.size(); ++server) {
    if (written_[server].failed) continue;
    (void)connections_->files().remove(join_path(connections_->start().model_dir, names_[server]));
  }
}

formats::SafetensorsParts ServedCut::parts_table() const {
  std::vector<formats::SafetensorsParts> parts;
  std::vector<std::vector<PartTensor>> held(held_.size());
  for (size_t server = 0; server < written_.size(); ++server) {
    parts.push_back(
        formats::SafetensorsParts::parse(written_[server].table, "the table of a part").value());
    // Counters that every server has are alike.
    for (const HeldTensor& each : held_[server])
      held[server].push_back({each.name, each.logical, each.part});
  }
  return join_parts(std::move(parts), held, specs_);
}

}  // namespace muster::inline v0_1::ps
