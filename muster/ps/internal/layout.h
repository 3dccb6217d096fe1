// Which part of which weight lives on which server, as a worker knows it.
// Thread safety: immutable after it is made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/net/server_messages.h"
#include "muster/optim/train_op.h"
#include "muster/plan/placement.h"
#include "muster/ps/parameter_server.h"

namespace muster::inline v0_1::ps {

class Layout {
 public:
  // A part of a weight: of parameter `parameter` of the FlatParameters, or of table `table`.
  struct Part {
    plan::Shard shard{};
    int parameter = -1;
    int table = -1;
    size_t place = 0;  // among the shards of its server
  };
  // Gives places to the variables of `table` that are in `parameters`, in the order of their
  // creation.
  Layout(const distribute::VariableTable& table, distribute::FlatParameters& parameters,
         const optim::TrainOp& train_op, const distribute::ParameterServerOptions& options,
         int servers);

  const std::vector<Part>& parts() const { return parts_; }
  // The parts on a server, by index, in the order of their places there.
  const std::vector<size_t>& parts_on(size_t server) const { return by_server_[server]; }
  // The parts of a table, by index, in the order of their rows.
  const std::vector<size_t>& parts_of_table(int table) const {
    return by_table_[static_cast<size_t>(table)];
  }
  // The shards that a server holds.
  std::vector<net::shards::Shard> shards_on(size_t server) const;

  // The name in a checkpoint of a server's `name`, and its part number: 0 of 1 if it is all of it.
  struct Named {
    std::string name{};
    int part = 0;
    int parts = 1;
  };
  Named logical(const std::string& name) const;

 private:
  std::vector<std::string> names_;  // of the variables that were placed
  std::vector<Part> parts_;
  std::vector<std::vector<size_t>> by_server_;
  std::vector<std::vector<size_t>> by_table_;
  std::map<std::string, Named> cut_;  // shard's name -> variable, for variables that are cut
};

}  // namespace muster::inline v0_1::ps
