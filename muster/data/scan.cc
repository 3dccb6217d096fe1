// Transformations that carry something along: take_while(), unique(), scan(), reduce().
#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/data/internal/node.h"
#include "muster/data/internal/stream_element.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

namespace in = data::internal;

namespace {

void check_given(std::string_view call, bool given) {
  if (!given) throw invalid_argument(fmt::format("{}() got an empty function", call));
}

void check_state(std::string_view call, const Element& initial) {
  for (const Value& value : initial.values()) {
    if (!value.is_tensor() || value.tensor().defined()) continue;
    throw invalid_argument(fmt::format("{}(): the first state has an undefined tensor", call),
                           "give a tensor such as torch::zeros({})");
  }
}

}  // namespace

Dataset Dataset::take_while(Predicate fn, const std::string& name) const {
  check_given("take_while", fn != nullptr);
  return Dataset(in::make_node(in::TakeWhile{std::move(fn), name}, {node_}));
}

Dataset Dataset::unique() const { return Dataset(in::make_node(in::Unique{}, {node_})); }

Dataset Dataset::scan(Element initial, ScanFunction fn, const std::string& name) const {
  check_given("scan", fn != nullptr);
  check_state("scan", initial);
  return Dataset(in::make_node(in::Scan{std::move(initial), std::move(fn), name}, {node_}));
}

Element Dataset::reduce(Element initial, const ReduceFunction& fn,
                        const IteratorOptions& options) const {
  check_given("reduce", fn != nullptr);
  check_state("reduce", initial);
  if (cardinality() == kInfinite) {
    throw invalid_argument(fmt::format("reduce(): the data set {} has no end", describe()),
                           "limit it with take(n)");
  }
  const auto iterator = this->iterator(options);
  Element state = std::move(initial);
  for (int64_t number = 0; const std::optional<Element> element = iterator->next(); ++number) {
    try {
      const torch::NoGradGuard no_grad;
      Element next = fn(state, *element);
      in::check_defined(next);
      state = std::move(next);
    } catch (...) {
      std::rethrow_exception(in::current_failure(
          fmt::format("reduce failed on element {} of {}, {}, with the state {}", number,
                      describe(), element->describe(), state.describe())));
    }
  }
  return state;
}

}  // namespace muster::inline v0_1
