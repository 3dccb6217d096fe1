// The memory store, in which files of one checkpoint wait to be written until the test opens them.
// Thread safety: any thread.
#pragma once

#include <fmt/format.h>

#include <future>
#include <mutex>
#include <string>

#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1::testing {

class HeldSave {
 public:
  // Empties the store, now and at the end.
  explicit HeldSave(int64_t step) : HeldSave(fmt::format("ckpt-{}.", step)) {}
  // The files whose paths contain `held`.
  explicit HeldSave(const std::string& held) {
    memory_store().clear();
    memory_store().on_request([held, opened = opened_](int64_t, const std::string& path) {
      if (path.find(held) != std::string::npos) opened.wait();
    });
  }
  ~HeldSave() {
    open();
    memory_store().clear();
  }
  HeldSave(const HeldSave&) = delete;
  HeldSave& operator=(const HeldSave&) = delete;

  void open() {
    std::call_once(once_, [this] { open_.set_value(); });
  }

 private:
  std::once_flag once_;
  std::promise<void> open_;
  const std::shared_future<void> opened_{open_.get_future()};
};

}  // namespace muster::inline v0_1::testing
