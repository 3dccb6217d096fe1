// A library that adds a kind of device to LibTorch at run time: XLA, by muster/xla. Core loads it
// when a program names such a device, and nothing of it is in a process that names none.
// Thread safety: every function may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/device.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// The memory of a device, in bytes.
struct DeviceMemory {
  int64_t used = 0;
  int64_t most = 0;   // that were used at a time, since the process started
  int64_t limit = 0;  // that can be used
};

// What such a library does. It throws std::exception with a message and, after a line break, what
// to do; core makes Errors of these. Another attempt cannot help where it throws
// std::invalid_argument: a variable of the environment is wrong, or the calls are in a wrong order.
class DeviceLibrary {
 public:
  virtual ~DeviceLibrary() = default;
  // The number of devices of this process. The first call starts the runtime of the devices.
  virtual int count() = 0;
  // Makes all devices of this process one device, number 0, and returns how many they are. Not
  // after count(). From then on LibTorch has the operation muster::shard_rows(Tensor batch): it
  // divides the rows of a tensor on that device between them, if they are a multiple of the number.
  virtual int join() = 0;
  // Compiles the operations that were recorded for the device since the last call, or finds the
  // program that it compiled for the same operations, and starts the program.
  virtual void run_recorded(int device) = 0;
  // The number of programs that were compiled in this process.
  virtual int64_t compilations() = 0;
  // The number of programs that were started in this process, new ones and known ones.
  virtual int64_t runs() = 0;
  // The seed of random numbers that operations of LibTorch draw on the device.
  virtual void seed(int device, uint64_t seed) = 0;
  // nullopt if the runtime does not know it. XLA's runtime for the CPU does not.
  virtual std::optional<DeviceMemory> memory(int device) = 0;
};

// A library exports a function of this name and type. The version of LibTorch is "2.9.0". It
// throws as the functions of DeviceLibrary do.
using MakeDeviceLibrary = DeviceLibrary* (*)(const char* libtorch_version);
inline constexpr const char* kMakeDeviceLibrary = "muster_make_device_library_2";

// Loads the library of this kind of device on the first call. Does nothing for a kind that LibTorch
// has, and for one that no library of Muster adds. Throws NotFound if the library or what it needs
// is not installed.
void load_device_library(at::DeviceType type);
// The library that was loaded for this kind of device; nullptr if none was.
DeviceLibrary* device_library(at::DeviceType type);
// The number of devices of a library. Throws InvalidArgument if the environment is wrong, and
// Unavailable if they do not start.
int count_devices(DeviceLibrary& library);
// Makes all devices of this kind in this process one device, whose index is 0, and returns how many
// they are: what it computes with the rows of a batch is divided between them. A second call
// returns the same. Throws what load_device_library() throws, InvalidArgument if the program has
// used one of them already or the environment is wrong, and Unavailable if they do not start.
MUSTER_PART_EXPORT int join_devices(at::DeviceType type);
// The number of devices that compute as `device`: 1 without join_devices().
MUSTER_PART_EXPORT int joined_devices(Device device);
// Divides the rows of a tensor on `device` between its joined devices. Does nothing for one device,
// and for a tensor that is not a batch: one without rows, or with a number of rows that is not a
// multiple of the devices.
void shard_rows(const Tensor& tensor);
// Sets the seed of random numbers that operations of LibTorch draw on the device. Does nothing for
// the CPU and GPUs.
void seed_device(Device device, uint64_t seed);
// Runs what was recorded for the device. Does nothing for a device that records nothing: the CPU
// and GPUs. Throws the device_failure() of the library's exception, and Unavailable for others.
void run_recorded(Device device);

}  // namespace muster::inline v0_1
