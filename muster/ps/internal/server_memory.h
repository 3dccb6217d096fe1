// The memory of a parameter server on the same host, as a worker reads and writes it: weights are
// copied out of it, gradients are copied into it, and only a notice that they are there goes
// through a socket. The server's description of it is checked once. Thread safety: one thread at a
// time; weights are read by any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/shared_memory.h"
#include "muster/net/server_messages.h"
#include "muster/ps/internal/shared_weights.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

class ServerMemory {
 public:
  // The shards on the server, in the order of their places.
  struct Shard {
    int64_t rows = 0;       // axis 0
    int64_t row_bytes = 0;  // of each
    bool row_sparse = false;
  };
  // `told` and `file` are the server's answer to Share; messages call it `server`. Throws Corrupt
  // if the answer is impossible, and Unavailable.
  ServerMemory(std::string server, std::vector<Shard> shards, const net::shards::Shared& told,
               FileDescriptor file);

  // How many steps are in the weights.
  int64_t steps() const { return weights_->steps(); }
  // Copies the weights of shards that are not row-sparse into `weights`, contiguous, by place;
  // undefined ones are left out. False if they have to be requested from the server: see
  // SharedWeightsReader.
  bool read(std::span<const Tensor> weights) const;
  // Copies rows of a row-sparse shard, int64 [n] numbers of its own rows, into `rows`.
  bool read_rows(size_t shard, const Tensor& ids, const Tensor& rows) const;

  // Whether gradients of rows of this many bytes fit, with the numbers of the rows.
  bool has_room(int64_t row_bytes) const;
  // The answer to MakeArea; and the worker's action before it asks for another one.
  void drop_area() { area_.reset(); }
  void set_area(const net::shards::Area& told, FileDescriptor file);
  // Copies the gradient of a shard, or a part of it, there. REQUIRES: set_area() was called.
  void write(size_t shard, const Tensor& gradient) const;
  // Copies the gradient of rows there, numbers less `first`; returns where they are. `*used` is how
  // much of the area those before have taken.
  int64_t write_rows(const Tensor& ids, int64_t first, const Tensor& values, int64_t* used) const;
  // The bytes that write_rows() takes of the area.
  static int64_t room_of(const Tensor& ids, const Tensor& values);

 private:
  Error wrong(const std::string& what) const;

  const std::string server_;
  const std::vector<Shard> shards_;
  std::optional<SharedWeightsReader> weights_;
  std::vector<net::shards::Shared::Place> places_;
  std::optional<SharedMemory> area_;
  int64_t dense_bytes_ = 0;
  std::vector<int64_t> gradients_;  // where in the area, by place
};

}  // namespace muster::inline v0_1::ps
