// `muster run --nodes=I/N --rendezvous=HOST:PORT`: a run on several machines, of which each has a
// launcher with the same command. The launchers meet at a rendezvous, start their tasks together,
// and start them again together: rendezvous.h has the rules. The launcher of machine 0 serves the
// rendezvous; if it ends, the run ends on all machines. Thread safety: as launch::run().
#pragma once

#include <string>
#include <string_view>

#include "muster/launch/run.h"

namespace muster::inline v0_1::nodes {

// Which machine this is, and where the launchers meet.
struct NodeOptions {
  int node = 0;   // the number of this machine, from 0
  int nodes = 1;  // of all machines
  // The run is elastic, and continues while as many tasks are left as so many machines have; 0: it
  // is not.
  int least = 0;
  std::string rendezvous{};  // "host:port" of machine 0, as the others reach it
  double join_time = 600;    // seconds until a machine that does not come is given up
};

// Parses "I/N" and "I/MIN:MAX". Throws InvalidArgument.
NodeOptions parse_nodes(std::string_view text);

// Throws InvalidArgument for options that do not go together on several machines.
void check_node_options(const launch::RunOptions& options, const NodeOptions& node);

// Runs this machine's part of the run, and waits for its end on all machines. `options` are those
// of one machine, equal on all; the chief and the evaluator are on machine 0 alone. The job's name
// and token come from the environment (cluster::read_job). Returns the exit code of the run, the
// same on all machines; 138 when the rendezvous was lost. Throws InvalidArgument when this launcher
// does not belong to the run that the rendezvous is for, and what RendezvousServer throws.
int run_node(const launch::RunOptions& options, const NodeOptions& node);

}  // namespace muster::inline v0_1::nodes
