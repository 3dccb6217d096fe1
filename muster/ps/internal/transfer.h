// Moves weights from the servers to a worker, and its gradients there: through memory where a
// server is on this host and shows it, and over sockets else. Thread safety: belongs to the
// worker's thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

#include "muster/distribute/flat_parameters.h"
#include "muster/ps/internal/layout.h"
#include "muster/ps/internal/server_memory.h"
#include "muster/ps/internal/session.h"

namespace muster::inline v0_1::ps {

class Transfer {
 public:
  // All outlive it.
  Transfer(Session& session, const Layout& layout, distribute::FlatParameters& parameters);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The generation of the run that requests are made in.
  void set_generation(int64_t generation) { generation_ = generation; }
  // The run begins: servers of this host show their memory, where they can.
  void share_memory();

  // Brings the weights here that are not row-sparse; a step begins. `round` is the last update of
  // several workers, which the servers make first; nullptr where each makes its own. With
  // ParameterServerOptions::prefetch it is those that were fetched during the step before, and
  // those of the next step are fetched from now on.
  void pull(const nlohmann::json* round);
  // Reads rows of table `table` of the FlatParameters: `ids` are int64 [n], sorted, each once.
  Tensor read_rows(int table, const Tensor& ids);
  // How many steps were in the weights of the first server when this step looked at them, or at the
  // first rows; nothing where it looked at none.
  std::optional<int64_t> looked() const { return looked_; }
  // Completes the request, a push, with the gradients of this server, behind it or in its memory;
  // gives its answer.
  nlohmann::json push(size_t server, const distribute::FlatParameters::Prepared& gradients,
                      const nlohmann::json& request);
  // The same for all servers.
  void push_to_all(const distribute::FlatParameters::Prepared& gradients,
                   const nlohmann::json& request);

 private:
  // Weights of a server on their way here while the worker computes.
  struct Ahead {
    std::vector<Tensor> weights;  // of its dense parts, in order
    std::future<int64_t> applied;
  };

  nlohmann::json ask(size_t server, nlohmann::json request, std::span<const Tensor> tensors = {},
                     const Session::Receive& receive = {});
  void share_memory_of(size_t server);
  // Asks for an area with room for so many bytes of gradients of rows.
  void make_area(size_t server, int64_t row_bytes);
  // Whether there is one with so much room; it is asked for.
  bool makes_room(size_t server, int64_t row_bytes);
  void pull_from(size_t server, const nlohmann::json* round);
  // Weights, and rows, out of a server's memory; false where it has to be asked for them.
  bool copy_from(size_t server, const nlohmann::json* round);
  bool copy_rows(size_t server, const Layout::Part& part, const Tensor& ids, const Tensor& rows);
  void fetch_ahead(size_t server);
  // False where none were fetched.
  bool take_what_was_fetched(size_t server);
  Session::Request packed(size_t server, const distribute::FlatParameters::Prepared& gradients,
                          nlohmann::json request);
  // Whether all of it is sooner copied than threads wake up, that would do it at the same time.
  static bool is_little(int64_t bytes);
  int64_t bytes_of_weights() const;
  // So many steps were in the weights of a server when this worker looked at them.
  void note_look(size_t server, int64_t applied);
  // The parts on a server that are not row-sparse: their memory here.
  std::vector<Tensor> dense_on(size_t server) const;
  // The memory of a part that is not row-sparse.
  Tensor memory_of(const Layout::Part& part) const;
  const VariableSpec& spec_of(const Layout::Part& part) const;

  Session& session_;
  const Layout& layout_;
  distribute::FlatParameters& parameters_;
  int64_t generation_ = 0;
  std::optional<int64_t> looked_;
  std::vector<std::unique_ptr<ServerMemory>> memory_;  // [server]; nullptr where it is out of reach
  std::vector<Ahead> ahead_;                           // [server]
};

}  // namespace muster::inline v0_1::ps
