// Exchanges values between the replicas of a run: sums, gatherings, broadcasts. Thread safety:
// belongs to the replica's thread.
//
// All replicas make the same calls in the same order. Throws InvalidArgument if they do not, and
// the result of Group::explain() for a failure of another replica.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
class Communicator;
}

namespace muster::inline v0_1::distribute {

class Group;
struct ReplicaPlace;

class Exchange {
 public:
  virtual ~Exchange() = default;

  // The sum or mean of `value` over all replicas, in rank order, given to each. Throws
  // InvalidArgument when they differ in shape or dtype, for a mean of whole numbers, and when
  // another replica is in another call.
  virtual Tensor reduce(ReduceOp op, const Tensor& value) = 0;
  // The value of every replica by rank, given to all. Throws InvalidArgument when they differ in
  // dtype or in another axis than `axis` (>= 0).
  virtual std::vector<Tensor> gather(const Tensor& value, int64_t axis) = 0;
  // Writes the chief's values into the values of all replicas. All pass contiguous tensors of the
  // same shapes and dtypes in the same order.
  virtual void broadcast(const std::vector<Tensor>& values) = 0;
  // Call this when a function that may use reduce() and gather() has returned on this replica.
  // Throws InvalidArgument when another replica is still inside a collective of that function.
  virtual void end_of_function() = 0;
  // `listener` is called before each reduce() and gather(): it may have messages of its own under
  // way, which must leave in the same order everywhere.
  virtual void before_collective(std::function<void()> listener) = 0;
  // From now on reduce(), gather() and end_of_function() belong to this call of the program,
  // "Scope::save()"; empty: to none. Returns the previous one. Replicas whose calls differ get
  // InvalidArgument that names both; without this, tensors of one shape would be added up. 80 bytes
  // of it are sent.
  virtual std::string set_call(std::string call) = 0;
};

// Makes the exchange of a replica that is alone: every result is its own value.
MUSTER_PART_EXPORT std::unique_ptr<Exchange> make_lone_exchange();
// Makes the exchange of the replica at `place`, over `communicator`. All arguments must outlive it.
std::unique_ptr<Exchange> make_exchange(const ReplicaPlace& place, Communicator& communicator,
                                        Group& group);

// The sum or mean of `value` over all replicas, returned to each, with gradients: the gradient of a
// sum is the sum of all gradients. `exchange` must live until backward() is over.
Tensor all_reduce(Exchange& exchange, ReduceOp op, const Tensor& value);
// The values of all replicas one after the other along `axis` (>= 0), with gradients; `replica` is
// the id of the caller.
Tensor all_gather(Exchange& exchange, int replica, const Tensor& value, int64_t axis);

}  // namespace muster::inline v0_1::distribute
