// A group of ranks that reduce, broadcast and gather tensors together. Thread safety: operations
// are issued by one thread at a time; abort() may come from any thread at any time.
//
// Every rank of a group issues the same operations in the same order with the same sizes. Each call
// returns at once; operations are executed in submission order, by a communication thread, or by
// the thread that issues, polls or waits for one. Ranks compare their calls before they touch a
// buffer: a difference is an InvalidArgument error that names both calls. When an operation fails,
// so does every later one, with the first failure as the reason: the group is over.
//
// Tensors are on the CPU, or on the device the communicator was made for; contiguous and
// one-dimensional; and belong to the communicator until the returned Work is done (they are kept
// alive). On a device an operation begins when earlier work on the current stream of the calling
// thread is done. A group of one costs nothing: no thread, no copies, every Work is done already.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/collectives/work.h"
#include "muster/plan/communication_cost.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "TCP", "shared memory", "threads", "NCCL".
  virtual std::string_view name() const = 0;

  // Whether sums have the bits that all_reduce() promises: NCCL's do not.
  virtual bool sums_in_rank_order() const { return true; }

  // Zeroed uint8 memory on the communicator's device, 64-byte aligned, that this transport reduces
  // in place at its best. Views of it are reduced like any tensor; the memory lives as long as its
  // tensors.
  virtual Tensor allocate(int64_t bytes);

  // buffer = the sum over ranks, in place; float32, float64, int64, bfloat16, float16. Each element
  // is added in rank order, ((r0 + r1) + r2) + ..., so the bits depend neither on transport nor on
  // how buffers are cut into calls. Elements of 16 bits are added as float32 and rounded once. NCCL
  // adds in an order of its own; the bits are the same on all ranks.
  virtual Work all_reduce(const Tensor& buffer) = 0;
  // out = this rank's part of the sum over ranks of `in`, which all bring: elements
  // [rank() * n, (rank() + 1) * n) for out of n; dtypes and order of additions as all_reduce;
  // in.numel() == size() * out.numel(). `out` may be that part of `in`.
  virtual Work reduce_scatter(const Tensor& in, const Tensor& out) = 0;
  // buffer = rank `root`'s, in place; any dtype.
  virtual Work broadcast(const Tensor& buffer, int root) = 0;
  // out = the `in` of rank 0, 1, ... one after the other; any dtype; out.numel() == size() *
  // in.numel(). `in` may be the part of `out` that is this rank's.
  virtual Work all_gather(const Tensor& in, const Tensor& out) = 0;
  // Done when every rank has come here.
  virtual Work barrier() = 0;

  // Chooses the algorithms of later operations by the measured cost of an all-reduce; results stay
  // the same, to the bit. All ranks call it with the same figures, between the same operations, all
  // of which are done. Returns up to how many bytes all_reduce then takes one exchange; nothing if
  // the transport has one algorithm for all sizes.
  virtual std::optional<int64_t> tune(const plan::CommunicationCost& /*cost*/) { return {}; }

  // Ends blocked and later operations of this rank with an error of this kind that carries
  // `reason`; the other ranks get PeerLost with the same reason. Returns at once; a second call
  // changes nothing.
  virtual void abort(ErrorKind kind, const std::string& reason) = 0;
  // The same as Cancelled.
  void abort(const std::string& reason) { abort(ErrorKind::kCancelled, reason); }
};

}  // namespace muster::inline v0_1
