#include "muster/data/internal/identity.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::data::internal {
namespace {

std::string chain_of(const json& state) {
  if (!state.is_object()) return "?";
  const std::string kind = state.contains("kind") && state["kind"].is_string()
                               ? state["kind"].get<std::string>()
                               : std::string("?");
  if (state.contains("input")) return chain_of(state["input"]) + " > " + kind;
  if (!state.contains("inputs") || !state["inputs"].is_array()) return kind;
  std::vector<std::string> branches;
  for (const json& input : state["inputs"]) branches.push_back(chain_of(input));
  return fmt::format("{}[{}]", kind, join(branches, ", "));
}

// The first member that differs, apart from inputs.
void compare(const json& was, const json& is, const std::string& chain, const std::string& hint) {
  for (const auto& [key, value] : is.items()) {
    if (key == "input") {
      compare(was.at(key), value, chain, hint);
      continue;
    }
    if (key == "inputs") {
      for (size_t i = 0; i < value.size(); ++i) compare(was.at(key).at(i), value[i], chain, hint);
      continue;
    }
    const json other = was.value(key, json("absent"));
    if (other == value) continue;
    if (key == kFileCount || key == kFileNames) {
      throw invalid_argument(
          fmt::format("the position was saved with {} (pipeline: {})",
                      key == kFileCount
                          ? fmt::format("{} files of {}, and here are {}", other.dump(),
                                        is.value("kind", "?"), value.dump())
                          : fmt::format("other files in {}, or with the same in another order",
                                        is.value("kind", "?")),
                      chain),
          "continue with the files it was saved with, in their order; their directory may differ");
    }
    throw invalid_argument(
        fmt::format("the saved position belongs to another input pipeline: {} of its {} is {}, "
                    "here it is {} (pipeline: {})",
                    key, is.value("kind", "?"), other.dump(), value.dump(), chain),
        hint);
  }
}

}  // namespace

void check_identity(const json& saved, const json& here) {
  const std::string hint = "a position fits the pipeline and the size of the data it was saved by";
  if (chain_of(saved) != chain_of(here)) {
    throw invalid_argument(
        fmt::format("the saved position belongs to another input pipeline: saved by {}, this is {}",
                    chain_of(saved), chain_of(here)),
        hint);
  }
  compare(saved, here, chain_of(here), hint);
}

}  // namespace muster::inline v0_1::data::internal
