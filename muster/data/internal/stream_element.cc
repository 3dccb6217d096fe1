#include "muster/data/internal/stream_element.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return internal_error(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return internal_error(error.what());
  } catch (...) {
    return internal_error("something was thrown that is not a std::exception");
  }
}

}  // namespace

std::vector<Element> take_elements(std::span<StreamElement> items) {
  std::vector<Element> elements;
  elements.reserve(items.size());
  for (StreamElement& item : items) {
    item.settle();
    elements.push_back(std::move(item.element));
  }
  return elements;
}

void rethrow_first(std::span<StreamElement> items) {
  const auto failed = std::find_if(items.begin(), items.end(),
                                   [](const StreamElement& item) { return item.error != nullptr; });
  if (failed == items.end()) return;
  const EmptiedAtEnd emptied{items};
  std::rethrow_exception(std::exception_ptr(failed->error));
}

std::exception_ptr current_failure(const std::string& stage) {
  const bool lost = is_lost(std::current_exception());
  const Error error = stage.empty() ? current_error() : current_error().with_context(stage);
  return lost ? std::make_exception_ptr(DataLost(error)) : std::make_exception_ptr(error);
}

std::exception_ptr current_loss(const std::string& stage) {
  const Error error = stage.empty() ? current_error() : current_error().with_context(stage);
  return std::make_exception_ptr(DataLost(error));
}

bool is_lost(const std::exception_ptr& error) {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const DataLost&) {
    return true;
  } catch (...) {
    return false;
  }
}

void note_lost(const std::exception_ptr& error, std::exception_ptr* lost) {
  if (lost != nullptr && *lost == nullptr && is_lost(error)) *lost = error;
}

std::exception_ptr with_origin(const std::exception_ptr& error, const std::string& origin) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    const Error detailed = current_error().with_detail("in " + origin);
    return is_lost(error) ? std::make_exception_ptr(DataLost(detailed))
                          : std::make_exception_ptr(detailed);
  }
}

void StreamElement::settle() {
  if (block == nullptr) return;
  element = unversioned(block->transform([this](const Value& value) { return value.row(row); }));
  block.reset();
}

uint64_t hold(StreamElement& item) {
  const uint64_t bytes = size_in_bytes(item);
  constexpr uint64_t kLarge = 1024;  // bytes; the tensor itself takes some 200
  if (item.block == nullptr || bytes < kLarge * item.block->values().size()) return bytes;
  item.element = item.block->transform([&](const Value& value) -> Value {
    return value.is_tensor() ? Value(value.tensor()[item.row].clone()) : value.row(item.row);
  });
  item.block.reset();
  return bytes;
}

Element unversioned(const Element& element) {
  const torch::NoGradGuard no_grad;
  return element.transform([](const Value& value) -> Value {
    if (!value.is_tensor() || !value.tensor().defined() ||
        value.tensor().layout() != at::kStrided) {
      return value;
    }
    // Unlike detach() and variable_data() it may be given another shape in place.
    const Tensor& rows = value.tensor();
    return at::empty({0}, rows.options())
        .set_(rows.storage(), rows.storage_offset(), rows.sizes(), rows.strides());
  });
}

uint64_t size_in_bytes(const StreamElement& item) {
  if (item.block == nullptr) return size_in_bytes(item.element);
  int64_t rows = 1;  // of the first value; a misfit is reported where it matters
  for (const Value& value : item.block->values()) {
    if (!value.is_tensor() || !value.tensor().defined() || value.tensor().dim() == 0) continue;
    rows = std::max<int64_t>(1, value.tensor().size(0));
    break;
  }
  return size_in_bytes(*item.block) / static_cast<uint64_t>(rows);
}

uint64_t size_in_bytes(const Element& element) {
  uint64_t bytes = 0;
  for (const Value& value : element.values()) {
    if (value.is_tensor()) {
      if (!value.tensor().defined()) continue;
      bytes += static_cast<uint64_t>(value.tensor().nbytes());
    } else {
      const Strings& strings = value.strings();
      if (strings.size() == 0) continue;
      const std::string_view last = strings[strings.size() - 1];  // they lie one after another
      bytes += static_cast<uint64_t>(strings.size()) * sizeof(int64_t) +
               static_cast<uint64_t>(last.data() + last.size() - strings[0].data());
    }
  }
  return bytes;
}

}  // namespace muster::inline v0_1::data::internal
