// Data sets over torch::data: its datasets, which are read by index, and its loaders, which are
// read in their order. This header includes nothing of torch::data; include <torch/data.h>
// yourself.
//
//   auto images = torch::data::datasets::MNIST(dir).map(torch::data::transforms::Stack<>());
//   Dataset rows = data::from_torch_dataset(std::move(images)).shuffle(60000).batch(64);
//
// An example becomes a tuple of its data and its target; an example without a target, or a tensor,
// becomes a single value.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/own_reader.h"

namespace muster::inline v0_1::data {

// Makes an element of a batch or an example of torch::data. Thread safety: a pure function.
template <typename Example>
Element element_of_torch(const Example& example) {
  if constexpr (requires { Element(example); }) {
    return Element(example);
  } else if constexpr (requires { Element(example.target); }) {
    return Element::tuple({Element(example.data), Element(example.target)});
  } else if constexpr (requires { example.data; }) {
    return Element(example.data);
  } else {
    std::vector<Element> rows;
    for (const auto& each : example) rows.push_back(element_of_torch(each));
    return Element::stack(rows);
  }
}

// Reads a stateless torch dataset by index, one example for each element: a shuffle, workers and
// saved positions are as exact as for tensors. Use it instead of a loader with a sampler. `dataset`
// has get_batch(indices) and size(), with or without a map() to one batch (Stack). Calls of
// get_batch() never overlap. Throws InvalidArgument if the dataset does not know its size.
template <typename TorchDataset>
Dataset from_torch_dataset(TorchDataset dataset) {
  struct Guarded {
    TorchDataset dataset;
    std::mutex mutex{};
  };
  const auto size = dataset.size();
  if (!size) {
    throw invalid_argument("from_torch_dataset(): the dataset does not know its size",
                           "read it with from_torch_loader()");
  }
  const auto shared = std::make_shared<Guarded>(std::move(dataset));
  return from_rows(static_cast<int64_t>(*size), [shared](int64_t index) {
    const std::vector<size_t> indices{static_cast<size_t>(index)};
    const std::lock_guard lock(shared->mutex);
    return element_of_torch(shared->dataset.get_batch(indices)).transform([](const Value& value) {
      return value.tensor().squeeze(0);
    });
  });
}

// Reads the batches of a loader, one batch for each element: unbatch() and batch() after it make
// batches of another size, or for several replicas. `make` is called at the beginning of each pass
// and returns a new loader (torch::data::make_data_loader()), over a stateless or a stateful
// dataset. A saved position is found by counting, and the log says so: every loader must return the
// same batches, so its sampler must not draw from LibTorch's generator, and it must keep the order
// (DataLoaderOptions::enforce_ordering). For exact positions without reading again, give
// from_reader() the functions of your own dataset.
template <typename Make>
Dataset from_torch_loader(Make make) {
  return from_reader([make = std::move(make)] {
    struct Pass {
      decltype(make()) loader;
      decltype(loader->begin()) at, end;
      bool begun = false;
    };
    auto loader = make();
    auto at = loader->begin();
    auto end = loader->end();
    const auto pass = std::make_shared<Pass>(Pass{std::move(loader), at, end});
    return OwnReader{.next = [pass]() -> std::optional<Element> {
      // The step to the next batch waits for it: only when it is wanted.
      if (std::exchange(pass->begun, true) && pass->at != pass->end) ++pass->at;
      if (pass->at == pass->end) return std::nullopt;
      return element_of_torch(*pass->at);
    }};
  });
}

}  // namespace muster::inline v0_1::data
