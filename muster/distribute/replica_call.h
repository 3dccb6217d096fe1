// Selects the arguments of a function for one replica, when Strategy::run() calls it.
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

// A value that all replicas share.
template <typename T>
const T& value_of(const T& value, size_t /*replica*/) {
  return value;
}
// The replica's own value.
template <typename T>
const T& value_of(const PerReplica<T>& values, size_t replica) {
  return values[replica];
}

// One argument, unchanged.
template <typename T>
std::tuple<const T&> unpacked(const T& value) {
  return {value};
}
// The features and the labels of a batch, as two arguments.
inline std::tuple<const Features&, const Labels&> unpacked(const Batch& batch) {
  refuse_weights(batch);
  return {batch.features, batch.labels};
}

// One argument; for a batch only its features.
template <typename T>
std::tuple<const T&> without_labels(const T& value) {
  return {value};
}
// The features of a batch.
inline std::tuple<const Features&> without_labels(const Batch& batch) { return {batch.features}; }

// Whether a function can be called with the elements of a tuple.
template <typename Fn, typename Tuple>
inline constexpr bool kTakes = false;
// The same for the elements of a tuple.
template <typename Fn, typename... Parts>
inline constexpr bool kTakes<Fn, std::tuple<Parts...>> = std::is_invocable_v<Fn&, Parts...>;

// Calls fn(args...). If `fn` does not accept a Batch, it gets the batch as (features, labels), or
// else as features only.
template <typename Fn, typename... Args>
decltype(auto) call(Fn& fn, const Args&... args) {
  using Unpacked = decltype(std::tuple_cat(unpacked(args)...));
  using OnlyFeatures = decltype(std::tuple_cat(without_labels(args)...));
  constexpr bool kAsIs = std::is_invocable_v<Fn&, const Args&...>;
  static_assert(
      kAsIs || kTakes<Fn, Unpacked> || kTakes<Fn, OnlyFeatures>,
      "run() passes its arguments to the function: a PerReplica<T> as const T&, a Batch as (const "
      "Features&, const Labels&) or as const Features&; this function has other parameters");
  if constexpr (kAsIs) {
    return fn(args...);
  } else if constexpr (kTakes<Fn, Unpacked>) {
    return std::apply(fn, std::tuple_cat(unpacked(args)...));
  } else if constexpr (kTakes<Fn, OnlyFeatures>) {
    return std::apply(fn, std::tuple_cat(without_labels(args)...));
  }
}

// Returns the number of examples in an argument for a replica; -1 if it is not a batch.
template <typename T>
int64_t rows_of(const T& /*value*/, size_t /*replica*/) {
  return -1;
}
// The rows of a batch that all replicas share.
inline int64_t rows_of(const Batch& batch, size_t /*replica*/) { return batch.rows(); }
// The rows of the replica's part.
inline int64_t rows_of(const PerReplica<Features>& parts, size_t replica) {
  return parts[replica].rows();
}
// The rows of the replica's batch.
inline int64_t rows_of(const PerReplica<Batch>& batches, size_t replica) {
  return batches[replica].rows();
}
// The size of the first axis; a scalar is not a batch.
inline int64_t rows_of(const PerReplica<Tensor>& values, size_t replica) {
  return values[replica].dim() > 0 ? values[replica].size(0) : -1;
}

// Returns the batch in an argument for a replica; nullptr if it is not a batch.
template <typename T>
const Batch* batch_of(const T& /*value*/, size_t /*replica*/) {
  return nullptr;
}
// A batch that all replicas share.
inline const Batch* batch_of(const Batch& batch, size_t /*replica*/) { return &batch; }
// The replica's own batch.
inline const Batch* batch_of(const PerReplica<Batch>& batches, size_t replica) {
  return &batches[replica];
}

// Returns the number of replicas in an argument that differs between replicas.
template <typename T>
std::optional<size_t> replicas_of(const T& /*value*/) {
  return std::nullopt;
}
// One for each replica of this process.
template <typename T>
std::optional<size_t> replicas_of(const PerReplica<T>& values) {
  return values.size();
}

// A result in the form that run() returns.
template <typename T>
T without_graph(T value) {
  return value;
}
// The same values, detached from the graph.
inline Tensor without_graph(Tensor value) { return value.defined() ? value.detach() : value; }

}  // namespace muster::inline v0_1::distribute::replica_call
