#include "muster/tensor/device_library.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <stdexcept>

#include "muster/base/error.h"
#include "muster/tensor/device_failure.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kFile = "libmuster-xla.so";
constexpr const char* kInstall =
    "build it by -DMUSTER_XLA=ON and keep it in the folder of Muster's libraries: docs/tpu.md";

// Where this code is: in a library of Muster, or in a program.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&load_device_library), &info) == 0) return {};
  std::error_code none;
  return std::filesystem::canonical(info.dli_fname, none).parent_path();
}

void* open_library() {
  const std::filesystem::path here = own_folder();
  for (const std::filesystem::path& file : {here / kFile, here / "../lib" / kFile}) {
    if (!std::filesystem::exists(file)) continue;
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    throw not_found(fmt::format("{} could not be loaded: {}", file.string(), dlerror()), kInstall);
  }
  throw not_found(fmt::format("devices of XLA need {}, which is neither in {} nor in {}", kFile,
                              here.string(), (here / "../lib").lexically_normal().string()),
                  kInstall);
}

std::pair<std::string, std::string> message_and_hint(const std::string& text) {
  const size_t end = text.find('\n');
  return {text.substr(0, end), end == std::string::npos ? "" : text.substr(end + 1)};
}

DeviceLibrary* open_xla() {
  void* const library = open_library();
  const auto make = reinterpret_cast<MakeDeviceLibrary>(dlsym(library, kMakeDeviceLibrary));
  if (make == nullptr)
    throw not_found(fmt::format("{} is of another version of Muster", kFile), kInstall);
  try {
    return make(TORCH_VERSION);
  } catch (const std::exception& error) {
    const auto [message, hint] = message_and_hint(error.what());
    throw not_found("there are no devices of XLA: " + message, hint);
  }
}

std::mutex loading;
DeviceLibrary* xla = nullptr;  // one for the process: its runtime cannot be unloaded
std::atomic<int> joined = 1;   // devices of XLA that are one

// Calls a function of a library. Its exceptions become errors about `subject`: InvalidArgument for
// std::invalid_argument, and otherwise Unavailable.
template <typename Call>
auto told(const std::string& subject, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const auto [message, hint] = message_and_hint(error.what());
    const bool wrong_use = dynamic_cast<const std::invalid_argument*>(&error) != nullptr;
    throw Error(wrong_use ? ErrorKind::kInvalidArgument : ErrorKind::kUnavailable,
                fmt::format("{}: {}", subject, message), hint);
  }
}

}  // namespace

void load_device_library(at::DeviceType type) {
  if (type != at::kXLA) return;
  const std::lock_guard lock(loading);
  if (xla == nullptr && !c10::impl::hasDeviceGuardImpl(type)) xla = open_xla();
}

DeviceLibrary* device_library(at::DeviceType type) {
  if (type != at::kXLA) return nullptr;
  const std::lock_guard lock(loading);
  return xla;
}

int count_devices(DeviceLibrary& library) {
  return told("devices of XLA", [&] { return library.count(); });
}

int join_devices(at::DeviceType type) {
  load_device_library(type);
  DeviceLibrary* const library = device_library(type);
  if (library == nullptr) {
    throw invalid_argument(fmt::format("not supported: {} devices that compute as one",
                                       at::DeviceTypeName(type, /*lower_case=*/true)),
                           "join devices of XLA");
  }
  static const int count = told("devices of XLA", [&] { return library->join(); });
  return joined = count;
}

int joined_devices(Device device) { return device.is_xla() ? joined.load() : 1; }

void shard_rows(const Tensor& tensor) {
  const int devices = joined_devices(tensor.device());
  if (devices == 1 || tensor.dim() == 0 || tensor.size(0) == 0 || tensor.size(0) % devices != 0)
    return;
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("muster::shard_rows", "")
                                    .typed<void(const Tensor&)>();
  operation.call(tensor);
}

void seed_device(Device device, uint64_t seed) {
  DeviceLibrary* const library = device_library(device.type());
  if (library == nullptr) return;
  told(device.str(), [&] { library->seed(device.index(), seed); });
}

void run_recorded(Device device) {
  DeviceLibrary* const library = device_library(device.type());
  if (library == nullptr) return;
  told(device.str(), [&] {
    try {
      library->run_recorded(device.index());
    } catch (const std::exception& error) {
      if (const auto failure = device_failure(device, error)) throw *failure;
      throw;
    }
  });
}

}  // namespace muster::inline v0_1
