// Result<T>: a value or the Error that explains why there is none. It is for calls where the caller
// decides what a failure means (files, network, parsing).
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

// Holds a T or an Error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  // Returns the value. Throws the error if there is no value.
  T& value() & {
    if (!ok()) throw error();
    return std::get<T>(state_);
  }
  const T& value() const& {
    if (!ok()) throw error();
    return std::get<T>(state_);
  }
  // Returns the value by value, so that `for (auto& x : make().value())` does not refer to a
  // destroyed Result.
  T value() && {
    if (!ok()) throw error();
    return std::get<T>(std::move(state_));
  }
  // Returns the value, or `fallback` if there is no value.
  T value_or(T fallback) const { return ok() ? std::get<T>(state_) : std::move(fallback); }

  // REQUIRES: !ok().
  const Error& error() const { return std::get<Error>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error, for calls that return nothing.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Throws the error, if there is one.
  void value() const {
    if (error_) throw *error_;
  }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// The success of a call, or its Error.
using Status = Result<void>;

}  // namespace muster::inline v0_1
