// The part of a run on parameter servers: weights, optimizer slots and counters. The chief reads
// and writes it. Thread safety: belongs to the replica's thread.
//
// Any call may throw PeerLost naming the server or the task that failed, or Timeout. Except for
// verify(), calls come after the build.
#pragma once

#include <cstdint>
#include <functional>
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

  // The contents of the servers, by checkpoint name.
  virtual std::map<std::string, TensorSpec> specs() = 0;
  // Writes these values to the servers. Names are names of specs(), all or some.
  virtual void write(const std::map<std::string, Tensor>& tensors) = 0;
  // Gives them these rows, from row `begin` on, of the table of that name.
  virtual void write_rows(const std::string& name, int64_t begin, const Tensor& rows) = 0;
  // Slots that begin as the weights get the weights' present values. Called after weights of
  // another run are written, and before the first step.
  virtual void begin_slots() = 0;
  // Writes the values of `checkpoint`, which was found at `prefix`, to the servers. Servers that
  // see its directory read their shards themselves. REQUIRES: it has all names of specs(), in this
  // form.
  virtual void restore(const CheckpointReader& checkpoint, const std::string& prefix) = 0;
  // The contents of the servers after one and the same step.
  struct Cut {
    int64_t step = 0;
    std::vector<std::string> positions{};  // of the workers in their data, by rank; "": beginning
    std::vector<bool> ended{};             // of each, whether its data is used up
    std::map<std::string, Tensor> tensors{};
    // From read_for_checkpoint(): the files that servers have written in place of `tensors`.
    formats::SafetensorsParts parts = {};
    // Why `parts` is empty: a NaN or infinite value, "variable dense/kernel holds nan ..."; or the
    // error of a server that could not write.
    std::string non_finite = {};
    std::optional<Error> failed = {};
    // From read_for_checkpoint(/*later=*/true): adds `tensors`, or `parts` and what follows it, to
    // the cut that it is given. Any thread may call it once, while this object is used as before.
    // It throws as this object does, and may be dropped: then the servers have written for nothing.
    // The next cut for a checkpoint comes after it.
    std::function<void(Cut& cut)> rest = {};
  };
  // All of it, in memory of its own.
  virtual Cut read() = 0;
  // The same, for a checkpoint: if all servers see the directory of checkpoints, each writes its
  // part there, and `parts` names the places. Nothing is written if the weights hold NaN or
  // infinity; if one server cannot write, the files of the others are removed too. With `later` it
  // returns as soon as each server has a copy of its part, and Cut::rest fetches them.
  virtual Cut read_for_checkpoint(bool later) = 0;
};

}  // namespace muster::inline v0_1::distribute
