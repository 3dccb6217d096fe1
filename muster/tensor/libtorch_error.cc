#include "muster/tensor/libtorch_error.h"

#include <c10/util/Exception.h>

namespace muster::inline v0_1 {

std::string text_of(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find("\nException raised from"));
}

bool tells_of_mixed_devices(const std::string& text) {
  return text.find("on the same device") != std::string::npos;
}

namespace {

bool tells_of_memory(const std::string& text) {
  return text.find("DefaultCPUAllocator") != std::string::npos ||
         text.find("out of memory") != std::string::npos;
}

// Whether a device or LibTorch itself failed, rather than that its arguments were wrong.
bool tells_of_machine(const std::string& text) {
  for (const char* word : {"INTERNAL ASSERT FAILED", "CUDA error", "CUDNN", "cuDNN error", "CUBLAS",
                           "NCCL error", "device-side assert"}) {
    if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Error converted_error(const std::string& message, const std::function<std::string()>& hint) {
  if (tells_of_memory(message)) {
    return internal_error(message, "use a smaller batch, or a machine (or GPU) with more memory");
  }
  if (tells_of_machine(message)) return internal_error(message);
  return invalid_argument(message, hint());
}

}  // namespace muster::inline v0_1
