// The weights of a parameter server in memory that the workers of its host read in place of asking
// for them. They lie in groups. A reader gets the state of a group before an update or after it: a
// counter next to the weights is odd while an update is under way, and has a new value when it is
// over. A reader holds no lock, so a killed reader leaves none behind.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "muster/base/shared_memory.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

// The server's side. Thread safety: any thread may change a group, one at a time.
class SharedWeights {
 public:
  // Room for `bytes` of weights, each tensor of them rounded up to kAlignment. Throws Unavailable.
  SharedWeights(size_t groups, int64_t bytes);

  static constexpr int64_t kAlignment = 64;  // bytes
  static int64_t rounded_up(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  // One more step is in the weights.
  void count_step();

  // uint8 [bytes], zeroed. Throws Internal when no memory is left.
  Tensor allocate(int64_t bytes);
  // Where in the file memory lies that allocate() has given.
  int64_t place_of(const Tensor& tensor) const;
  const SharedMemory& memory() const { return *memory_; }

  // While it lives, the group is being changed. A store whose weights are not shared has nullptr.
  class Change {
   public:
    Change(SharedWeights* weights, size_t group);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    std::atomic<uint64_t>* const counter_;
  };

 private:
  std::shared_ptr<SharedMemory> memory_;  // tensors keep it
  int64_t used_ = 0;
};

// A worker's side. Thread safety: any thread.
class SharedWeightsReader {
 public:
  // Maps the file of a server's SharedWeights. Throws Unavailable, and Corrupt for another file.
  SharedWeightsReader(FileDescriptor file, int64_t bytes, size_t groups);

  size_t groups() const { return groups_; }
  int64_t bytes() const { return memory_.bytes(); }
  // How many steps are in the weights: weights that are read after this call have at least as many.
  int64_t steps() const;
  // Calls `copy` with the beginning of the file, to copy weights of one group out of it. False if
  // updates came in between again and again, or one under way did not end: the copy is inconsistent
  // then.
  bool read(size_t group, const std::function<void(const std::byte* file)>& copy) const;

 private:
  SharedMemory memory_;
  size_t groups_;
};

}  // namespace muster::inline v0_1::ps
