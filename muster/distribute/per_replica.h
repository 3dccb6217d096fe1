// Values that differ between replicas.
// Thread safety: a value.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace muster::inline v0_1::distribute {

// One value for each replica of this process, in order of the replicas; values of other processes
// are not included.
template <typename T>
class PerReplica {
 public:
  PerReplica() = default;
  explicit PerReplica(std::deque<T> values) : values_(std::move(values)) {}

  size_t size() const { return values_.size(); }
  const T& operator[](size_t local_replica) const { return values_[local_replica]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::deque<T> values_;  // a vector of bool would have no references
};

}  // namespace muster::inline v0_1::distribute
