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

bool tells_of_memory(const std::string& text) {
  return text.find("DefaultCPUAllocator") != std::string::npos ||
         text.find("out of memory") != std::string::npos;
}

bool tells_of_machine(const std::string& text) {
  for (const char* word : {"INTERNAL ASSERT FAILED", "CUDA error", "CUDNN", "cuDNN error", "CUBLAS",
                           "NCCL error", "device-side assert"}) {
    if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace muster::inline v0_1
