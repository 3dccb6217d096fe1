// How the workers of one machine divide a large state: each copies its share at the step of a save,
// and a thread of each writes it, as a part of the chief's checkpoint
// (muster/checkpoint/checkpoint_parts.h). The chief commits the checkpoint when all parts are
// there. Thread safety: belongs to the replica's thread, except what it returns to call on another
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/served_state.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Rows of a tensor that belong to one part; all of a tensor without axes.
struct StateRows {
  PartTensor as{};
  int64_t begin = 0, end = 0;
  bool whole = true;
};

// Divides tensors among `parts`, in the order of their names. All parts have the same number of
// bytes, as far as rows along axis 0 allow.
MUSTER_PART_EXPORT std::vector<std::vector<StateRows>> divide_state(
    const std::map<std::string, TensorSpec>& tensors, size_t parts);

class MUSTER_PART_EXPORT SaveParts {
 public:
  // `replica` outlives it.
  explicit SaveParts(distribute::Replica& replica) : replica_(replica) {}

  // Whether `state`, which all replicas have, is divided when it is saved to `model_dir`: it is
  // large, the replicas are in step, and several processes of the chief's machine see `model_dir`.
  // All replicas call it together, before the calls below. The first call finds the processes out;
  // another directory than the first one has no parts. `fs`, nullptr for that of the path, outlives
  // the threads that write.
  bool divide(const std::map<std::string, Tensor>& state, const std::string& model_dir,
              FileSystem* fs);

  // Views of this replica's share, by the names of its part.
  std::map<std::string, Tensor> share(const std::map<std::string, Tensor>& state) const;
  // What is not divided, but the chief's: values that may differ between replicas, and small ones.
  std::map<std::string, Tensor> rest(const std::map<std::string, Tensor>& state) const;
  // `share`, or its copy, by the names of the state. A tensor has the rows of this share.
  std::map<std::string, Tensor> by_state(const std::map<std::string, Tensor>& share) const;

  // Each save of a divided state calls one of the two, on every replica. `copy` is a copy of
  // share(). On the chief: what it returns writes its share, waits for the other parts, and adds
  // all to the cut; or it says in the cut why there are none. If a worker is lost, the error is
  // PeerLost.
  std::function<void(distribute::ServedState::Cut& cut)> begin_chief(
      int64_t step, std::map<std::string, Tensor> copy);
  // On the others: what it returns writes the share, and tells the chief. It does not throw. With
  // `non_finite`, "variable dense/kernel holds nan ...", it writes nothing. Empty where there is no
  // share.
  std::function<void()> begin(int64_t step, std::map<std::string, Tensor> copy,
                              const std::string& non_finite);

 private:
  struct Plan;
  // Finds the processes that write.
  void meet();
  std::map<std::string, TensorSpec> divisible(const std::map<std::string, Tensor>& state) const;
  Plan next_plan(int64_t step);

  distribute::Replica& replica_;
  bool met_ = false;
  std::string model_dir_;
  FileSystem* fs_ = nullptr;
  std::vector<std::string> writers_;         // their names, the chief first; fewer than two: nobody
  int share_ = -1;                           // of this replica, by its place in writers_; -1: none
  uint64_t draw_ = 0, saves_ = 0;            // the same on all replicas
  std::map<std::string, TensorSpec> specs_;  // of what is divided
  std::vector<std::vector<StateRows>> shares_;  // by writer
};

namespace internal {

// For tests: states with this many bytes or more are divided. Returns the number before, at first
// 512 MiB.
MUSTER_PART_EXPORT int64_t divide_states_from(int64_t bytes);

}  // namespace internal

}  // namespace muster::inline v0_1
