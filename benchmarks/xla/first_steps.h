// How long programs take from their command to the device and to their first steps, which compile.
// Thread safety: one call at a time.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/xla/networks.h"

namespace muster::bench {

// The program of a contestant: names the device, trains three steps on it, and prints a line after
// each of these.
void print_first_steps(const XlaNetwork& network, const std::string& device,
                       const std::string& model_dir);

// Starts Muster and torch_xla in Python in turns, without a folder for compiled programs, with an
// empty one and with a full one, and prints the median times as a table. Each process has one core.
void measure_first_steps(const XlaNetwork& network, const std::string& python, int launches);

}  // namespace muster::bench
