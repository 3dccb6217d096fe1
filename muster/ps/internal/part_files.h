// The files of checkpoints that a parameter server reads and writes itself. Thread safety: any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/net/server_messages.h"
#include "muster/ps/internal/shard_store.h"

namespace muster::inline v0_1::ps {

// Reads a server's part, a tensor of that form, of `name` in a checkpoint: from its row `begin` on,
// or all of it if that is unset. Calls `take` with a few MB at a time: with rows, and the server's
// number of the first one; or with a tensor as a whole, and nothing. Throws the errors of reading.
void read_in_pieces(
    const CheckpointReader& checkpoint, const std::string& name, const TensorSpec& form,
    std::optional<int64_t> begin,
    const std::function<void(std::optional<int64_t> first, const Tensor& values)>& take);

class PartFiles {
 public:
  // `model_dir`: where this task sees checkpoints; "": nowhere. `fs`, nullptr for the local one,
  // outlives it.
  PartFiles(std::string model_dir, FileSystem* fs);

  // Whether the chief has just written `text` into kSightFile of the same directory.
  bool sees(const std::string& text) const;
  // Writes `copy`, which is all content of `store`, to the file of that name. Throws the errors of
  // write_checkpoint_part(); InvalidArgument for a name that is not a part's.
  net::shards::Written write(const std::string& name, const ShardStore& store,
                             const std::map<std::string, Tensor>& copy) const;
  // Reads and verifies its share of a checkpoint. Throws the errors of reading.
  void verify(const net::shards::Verify& request) const;
  // Writes the values that `request` names into `store`. Throws the errors of reading.
  void restore(const net::shards::Restore& request, ShardStore& store) const;

 private:
  // Throws InvalidArgument for a name that is none of a checkpoint.
  std::unique_ptr<CheckpointReader> open(const std::string& name) const;

  const std::string model_dir_;
  FileSystem& fs_;
};

}  // namespace muster::inline v0_1::ps
