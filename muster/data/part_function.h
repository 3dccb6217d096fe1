// Functions of the parts of an element, for Dataset::map() and similar stages: one parameter for
// each part of a tuple, of the type that the function needs. Thread safety: pure functions.
//
//   dataset.map([](Tensor image, Tensor label) {
//     return std::tuple(image.to(kFloat32) / 255, label);
//   });
//   dataset.filter([](const Features& car, Tensor price) { return price.item<float>() > 0; });
//
// A parameter is a Tensor, Strings, std::string (a single text), Value, Features or Labels (which
// may be dicts), or an Element. A function of one parameter gets the whole element, or the only
// part of a tuple of one part. A part of another kind, or another number of parts, is an
// InvalidArgument at the position of the element. In map(), a RandomKey may follow the parts.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/element.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1::data {

// One part of an element; it converts to the type of a function's parameter.
class MUSTER_EXPORT ElementPart {
 public:
  explicit ElementPart(Element element) : element_(std::move(element)) {}

  // Each throws InvalidArgument when the part is of another kind.
  operator Tensor() const;       // NOLINT(google-explicit-constructor)
  operator Strings() const;      // NOLINT(google-explicit-constructor)
  operator std::string() const;  // NOLINT(google-explicit-constructor)
  operator Value() const;        // NOLINT(google-explicit-constructor)
  // Of any kind.
  operator Features() const { return Features(element_); }  // NOLINT(google-explicit-constructor)
  operator Labels() const { return Labels(element_); }      // NOLINT(google-explicit-constructor)
  operator Element() const { return element_; }             // NOLINT(google-explicit-constructor)

 private:
  Element element_;
};

// Splits an element into the arguments of a function of `count` parameters. Throws InvalidArgument
// with a description of the element when it has another number of parts, and for a dict when
// `count` is not 1: its entries have names and no order.
MUSTER_EXPORT std::vector<ElementPart> parts_of(const Element& element, size_t count);

namespace internal {

// ElementPart, for every I.
template <size_t I>
using PartAt = const ElementPart&;

// Whether Fn can be called with this many parts, followed by more arguments.
template <typename Fn, typename Indices, typename... More>
inline constexpr bool kTakesParts = false;
// The same, for the indices 0, 1, ... of the parts.
template <typename Fn, size_t... I, typename... More>
inline constexpr bool kTakesParts<Fn, std::index_sequence<I...>, More...> =
    std::is_invocable_v<Fn&, PartAt<I>..., More...>;

inline constexpr size_t kMostParts = 12;

// The smallest number of parts with which Fn can be called, 0 if none.
template <typename Fn, typename... More, size_t N = 1>
constexpr size_t part_count(std::integral_constant<size_t, N> = {}) {
  if constexpr (N > kMostParts) {
    return 0;
  } else if constexpr (kTakesParts<Fn, std::make_index_sequence<N>, More...>) {
    return N;
  } else {
    return part_count<Fn, More...>(std::integral_constant<size_t, N + 1>{});
  }
}

// Calls `fn` with the parts of `element`.
template <typename Fn, size_t... I, typename... More>
decltype(auto) call_with(Fn& fn, const Element& element, std::index_sequence<I...>,
                         const More&... more) {
  const std::vector<ElementPart> parts = parts_of(element, sizeof...(I));
  return fn(parts[I]..., more...);
}

}  // namespace internal

// A function of parts that cannot be called with a whole element.
template <typename Fn>
concept PartFunction = !std::is_invocable_v<Fn&, const Element&> && internal::part_count<Fn>() > 0;

// The same with a RandomKey after the parts.
template <typename Fn>
concept KeyedPartFunction = !std::is_invocable_v<Fn&, const Element&> &&
                            !std::is_invocable_v<Fn&, const Element&, RandomKey> &&
                            !PartFunction<Fn> && internal::part_count<Fn, RandomKey>() > 0;

// Makes an element of a function's result; a std::tuple or std::pair becomes a tuple.
template <typename T>
Element to_element(T result) {
  if constexpr (std::is_convertible_v<T, Element>) {
    return result;
  } else {
    return std::apply(
        [](auto&... parts) { return Element::tuple({to_element(std::move(parts))...}); }, result);
  }
}

// Makes a function of elements, which returns R, from a function of parts.
template <typename R, PartFunction Fn>
std::function<R(const Element&)> by_parts(Fn fn) {
  return [fn = std::move(fn)](const Element& element) mutable -> R {
    using Indices = std::make_index_sequence<internal::part_count<Fn>()>;
    if constexpr (std::is_same_v<R, Element>) {
      return to_element(internal::call_with(fn, element, Indices{}));
    } else {
      return internal::call_with(fn, element, Indices{});
    }
  };
}

// The same with a key.
template <KeyedPartFunction Fn>
std::function<Element(const Element&, RandomKey)> by_keyed_parts(Fn fn) {
  return [fn = std::move(fn)](const Element& element, RandomKey key) mutable {
    using Indices = std::make_index_sequence<internal::part_count<Fn, RandomKey>()>;
    return to_element(internal::call_with(fn, element, Indices{}, key));
  };
}

}  // namespace muster::inline v0_1::data
