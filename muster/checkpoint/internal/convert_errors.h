// Turns errors of LibTorch and of JSON into ours, where a checkpoint is read or written.
// Thread safety: a free function.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

// Returns the result of `call`. Errors of LibTorch (mostly out of memory) become Internal. Errors
// of JSON, in which the metadata of the file at `path` is written, become Corrupt.
template <typename Call>
auto convert_errors(const std::string& path, Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw internal_error(fmt::format("'{}': {}", path, error.what_without_backtrace()));
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(fmt::format("the Muster metadata of '{}' are not as they should be: {}", path,
                              error.what()));
  }
}

}  // namespace muster::inline v0_1::internal
