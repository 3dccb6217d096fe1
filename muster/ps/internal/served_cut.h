// The contents of all servers after one step, on their way to the chief: as tensors, or as the
// files of a checkpoint that the servers write. Thread safety: one thread at a time, which need not
// be that of the worker.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/served_state.h"
#include "muster/formats/safetensors_parts.h"
#include "muster/net/server_messages.h"
#include "muster/ps/internal/server_connections.h"

namespace muster::inline v0_1::ps {

// A tensor that a server holds, and which rows of which tensor of a checkpoint it is.
struct HeldTensor {
  std::string name{};
  TensorSpec spec{};
  std::string logical{};
  int part = 0, parts = 1;
  int64_t begin = 0;  // its first row
};

class ServedCut {
 public:
  // `held`: of each server, sorted by name. `specs`: of the tensors of a checkpoint. With `later`
  // the connections for saves are used, while the worker uses the others.
  ServedCut(std::shared_ptr<ServerConnections> connections,
            std::vector<std::vector<HeldTensor>> held, std::map<std::string, TensorSpec> specs,
            bool later);
  // Without receive(): what servers still send of it must not meet the next cut.
  ~ServedCut();
  ServedCut(const ServedCut&) = delete;
  ServedCut& operator=(const ServedCut&) = delete;

  // Has the server copy its contents for the cut. `in_parts`: the server writes a file, whose name
  // has the number `save`. Returns when it has the copy. Any thread for each server.
  void begin(size_t server, int64_t generation, const net::ledger::Cut& paused, bool in_parts,
             uint32_t save);
  // Receives what begin() has asked all servers for, and adds it to `cut`: its tensors; or its
  // parts, or why there are none. Throws PeerLost naming a server that was lost.
  void receive(distribute::ServedState::Cut& cut);

 private:
  void receive_tensors(distribute::ServedState::Cut& cut);
  void receive_parts(distribute::ServedState::Cut& cut);
  // Removes the files that servers have written. Where a store does not answer, each request to it
  // waits: those that could not be written are left out.
  void forget_parts();
  // The entry in a checkpoint's file about them.
  formats::SafetensorsParts parts_table() const;
  void at_all_servers(const std::function<void(size_t server)>& work);
  template <typename Message>
  void receive_more(size_t server,
                    const std::function<void(net::MessageSocket&, const Message&)>& receive) {
    later_ ? connections_->receive_for_save<Message>(server, receive)
           : connections_->receive_more<Message>(server, receive);
  }

  const std::shared_ptr<ServerConnections> connections_;
  const std::vector<std::vector<HeldTensor>> held_;
  const std::map<std::string, TensorSpec> specs_;
  const bool later_;
  bool received_ = false;
  std::vector<std::string> names_;  // of the files, by server; "": tensors
  std::vector<net::shards::Written> written_;
};

}  // namespace muster::inline v0_1::ps
