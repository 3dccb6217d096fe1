// How Strategy::run() calls a function on one replica: who gets what of its arguments.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "muster/distribute/per_replica.h"
#include "muster/tensor/batch.h"

namespace muster::inline v0_1::distribute::replica_call {

// What all replicas share: the value itself.
template <typename T>
const T& value_of(const T& value, size_t /*replica*/) {
  return value;
}
// The replica's own value.
template <typename T>
const T& value_of(const PerReplica<T>& values, size_t replica) {
  return values[replica];
}

// One argument, as it is.
template <typename T>
std::tuple<const T&> unpacked(const T& value) {
  return {value};
}
// A batch as the two arguments it holds.
inline std::tuple<const Features&, const Labels&> unpacked(const Batch& batch) {
  return {batch.features, batch.labels};
}

// fn(args...); where `fn` does not take them so, a Batch goes to it as (features, labels).
template <typename Fn, typename... Args>
decltype(auto) call(Fn& fn, const Args&... args) {
  if constexpr (std::is_invocable_v<Fn&, const Args&...>) {
    return fn(args...);
  } else {
    return std::apply(fn, std::tuple_cat(unpacked(args)...));
  }
}

// The examples an argument holds for a replica; -1 when it is no batch.
template <typename T>
int64_t rows_of(const T& /*value*/, size_t /*replica*/) {
  return -1;
}
// Those of a batch all replicas share.
inline int64_t rows_of(const Batch& batch, size_t /*replica*/) { return batch.rows(); }
// Those of the replica's part.
inline int64_t rows_of(const PerReplica<Features>& parts, size_t replica) {
  return parts[replica].rows();
}
// Those of the replica's batch.
inline int64_t rows_of(const PerReplica<Batch>& batches, size_t replica) {
  return batches[replica].rows();
}
// The size of the first axis; a scalar is no batch.
inline int64_t rows_of(const PerReplica<Tensor>& values, size_t replica) {
  return values[replica].dim() > 0 ? values[replica].size(0) : -1;
}

// How many replicas an argument holds values of, when it differs by replica.
template <typename T>
std::optional<size_t> replicas_of(const T& /*value*/) {
  return std::nullopt;
}
// One for each replica of this process.
template <typename T>
std::optional<size_t> replicas_of(const PerReplica<T>& values) {
  return values.size();
}

// A result as run() returns it.
template <typename T>
T without_graph(T value) {
  return value;
}
// The same numbers, for which no gradient can be asked.
inline Tensor without_graph(Tensor value) { return value.defined() ? value.detach() : value; }

}  // namespace muster::inline v0_1::distribute::replica_call
