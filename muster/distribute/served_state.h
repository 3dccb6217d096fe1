// What parameter servers hold of a run: weights, optimizer slots and counters. The chief reads and
// writes it. Thread safety: belongs to the replica's thread.
//
// Any call may throw PeerLost naming the server or the task that failed, or Timeout. But for
// verify(), they come after the build.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute {

class ServedState {
 public:
  virtual ~ServedState() = default;

  // Reads and verifies all of `checkpoint`, which was found at `prefix`. Servers that see its
  // directory share the work. Throws Corrupt.
  virtual void verify(const CheckpointReader& checkpoint, const std::string& prefix) = 0;

  // What the servers hold, by checkpoint name.
  virtual std::map<std::string, TensorSpec> specs() = 0;
  // Gives them these values. Names are those of specs(), all or some.
  virtual void write(const std::map<std::string, Tensor>& tensors) = 0;
  // Gives them these rows, from row `begin` on, of the table of that name.
  virtual void write_rows(const std::string& name, int64_t begin, const Tensor& rows) = 0;
  // Slots that begin as the weights become what the weights are now. Called after weights of
  // another run are written, and before the first step.
  virtual void begin_slots() = 0;
  // Gives them what `checkpoint` has, which was found at `prefix`. Servers that see its directory
  // read it themselves, each what it holds. REQUIRES: it has all that specs() has, in this form.
  virtual void restore(const CheckpointReader& checkpoint, const std::string& prefix) = 0;
  // What the servers hold after one and the same step.
  struct Cut {
    int64_t step = 0;
    std::vector<std::string> positions{};  // of the workers in their data, by rank; "": beginning
    std::vector<bool> ended{};             // of each, whether its data is used up
    std::map<std::string, Tensor> tensors{};
    // Of read_for_checkpoint(): what servers have written in place of `tensors`.
    formats::SafetensorsParts parts = {};
    // Why `parts` is empty: what is no number, "variable dense/kernel holds nan ..."; or what one
    // of the servers could not write.
    std::string non_finite = {};
    std::optional<Error> failed = {};
  };
  // All of it, in memory of its own.
  virtual Cut read() = 0;
  // The same, for a checkpoint: where all servers see the directory of checkpoints, each writes its
  // part there, and `parts` says what lies where. Nothing is written where the weights hold what is
  // no number; where one server cannot write, nothing of the others is left either.
  virtual Cut read_for_checkpoint() = 0;
};

}  // namespace muster::inline v0_1::distribute
