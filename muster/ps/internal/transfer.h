// Moves weights from the servers to a worker, and its gradients there: through memory where a
// server is on this host and shows it, and over sockets else. Thread safety: belongs to the
// worker's thread; fetch() and send() may be a background task's, while the worker calls
// read_rows() and looked() alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/distribute/flat_parameters.h"
#include "muster/net/server_messages.h"
#include "muster/ps/internal/layout.h"
#include "muster/ps/internal/server_connections.h"
#include "muster/ps/internal/server_memory.h"

namespace muster::inline v0_1::ps {

class Transfer {
 public:
  using Round = plan::StepLedger::Round;

  // All outlive it.
  Transfer(ServerConnections& connections, const Layout& layout,
           distribute::FlatParameters& parameters);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The generation of the run that requests are made in.
  void set_generation(int64_t generation) { generation_ = generation; }
  // The run begins: servers of this host show their memory, if they can.
  void share_memory();

  // Brings the weights here that are not row-sparse; a step begins. `round` is the last update of
  // several workers, which the servers make first; nullptr if each makes its own.
  void pull(const Round* round);
  // The same in two parts: fetches weights next to those that a step is computed with, and replaces
  // the latter by them. Does nothing if none were fetched since.
  void fetch();
  void take_fetched();
  // Reads rows of table `table` of the FlatParameters: `ids` are int64 [n], sorted, each once.
  Tensor read_rows(int table, const Tensor& ids);
  // How many steps were in the weights of the first server when this step looked at them, or at the
  // first rows; nothing if it looked at none.
  std::optional<int64_t> looked() const { return looked_; }
  // The gradients of a step, as they travel.
  struct Push {
    std::vector<ServerConnections::Request> requests{};  // [server]
    int64_t bytes = 0;                                   // of gradients
  };
  // Completes `push` for each server, with its gradients after it or in its memory.
  Push pack(const distribute::FlatParameters::Prepared& gradients, const net::shards::Push& push);
  // Returns the only server's answer to the commit; nothing if there are several servers.
  std::optional<net::ledger::Committed> send(const Push& push);

 private:
  void share_memory_of(size_t server);
  // Asks for an area with space for this many bytes of gradients of rows.
  void make_area(size_t server, int64_t row_bytes);
  // Whether there is one with that much space; otherwise it is asked for.
  bool makes_room(size_t server, int64_t row_bytes);
  // Copies the weights of a server into `into`, by part; tensors of tables are undefined. Returns
  // how many steps were in them.
  int64_t pull_from(size_t server, const std::vector<Tensor>& into, const Round* round);
  // The same of all servers, and of the first one's.
  std::optional<int64_t> pull_into(const std::vector<Tensor>& into, const Round* round);
  // The memory of all parts that are not row-sparse.
  std::vector<Tensor> weights_here() const;
  void note_new_weights() const;
  // Copies rows out of a server's memory; false if they have to be requested from it.
  bool copy_rows(size_t server, const Layout::Part& part, const Tensor& ids, const Tensor& rows);
  ServerConnections::Request packed(size_t server,
                                    const distribute::FlatParameters::Prepared& gradients,
                                    net::shards::Push push);
  // Whether all of it is sooner copied than threads wake up, that would do it at the same time.
  static bool is_little(int64_t bytes);
  int64_t bytes_of_weights() const;
  // So many steps were in the weights of a server when this worker looked at them.
  void note_look(size_t server, int64_t applied);
  // The memory of a part that is not row-sparse.
  Tensor memory_of(const Layout::Part& part) const;
  const VariableSpec& spec_of(const Layout::Part& part) const;

  ServerConnections& connections_;
  const Layout& layout_;
  distribute::FlatParameters& parameters_;
  int64_t generation_ = 0;
  std::optional<int64_t> looked_;
  std::vector<std::unique_ptr<ServerMemory>> memory_;  // [server]; nullptr if it is out of reach
  std::vector<Tensor> fetched_;                        // [part]
  std::optional<int64_t> fetched_looked_;
  bool has_fetched_ = false;
};

}  // namespace muster::inline v0_1::ps
