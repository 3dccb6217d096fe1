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
  refuse_weights(batch);
  return {batch.features, batch.labels};
}

// One argument; of a batch the features alone.
template <typename T>
std::tuple<const T&> without_labels(const T& value) {
  return {value};
}
// Those of a batch.
inline std::tuple<const Features&> without_labels(const Batch& batch) { return {batch.features}; }

// Whether a function can be called with what is in a tuple.
template <typename Fn, typename Tuple>
inline constexpr bool kTakes = false;
// The parts of the tuple.
template <typename Fn, typename... Parts>
inline constexpr bool kTakes<Fn, std::tuple<Parts...>> = std::is_invocable_v<Fn&, Parts...>;

// fn(args...); where `fn` does not take them so, a Batch goes to it as (features, labels), or else
// as features alone.
template <typename Fn, typename... Args>
decltype(auto) call(Fn& fn, const Args&... args) {
  using Unpacked = decltype(std::tuple_cat(unpacked(args)...));
  using OnlyFeatures = decltype(std::tuple_cat(without_labels(args)...));
  constexpr bool kAsIs = std::is_invocable_v<Fn&, const Args&...>;
  static_assert(kAsIs || kTakes<Fn, Unpacked> || kTakes<Fn, OnlyFeatures>,
                "run() calls the function with what it is given: a PerReplica<T> as const T&, a "
                "Batch as (const Features&, const Labels&) or as const Features& alone; this "
                "function takes something else");
  if constexpr (kAsIs) {
    return fn(args...);
  } else if constexpr (kTakes<Fn, Unpacked>) {
    return std::apply(fn, std::tuple_cat(unpacked(args)...));
  } else if constexpr (kTakes<Fn, OnlyFeatures>) {
    return std::apply(fn, std::tuple_cat(without_labels(args)...));
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

// The batch that an argument is for a replica; nullptr when it is none.
template <typename T>
const Batch* batch_of(const T& /*value*/, size_t /*replica*/) {
  return nullptr;
}
// One all replicas share.
inline const Batch* batch_of(const Batch& batch, size_t /*replica*/) { return &batch; }
// The replica's own.
inline const Batch* batch_of(const PerReplica<Batch>& batches, size_t replica) {
  return &batches[replica];
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
