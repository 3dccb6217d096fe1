// Contestants that are Python programs in benchmarks/peers. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/support/compare.h"

namespace muster::bench {

// `arguments` begin with the file in benchmarks/peers. It gets the allocator and the BLAS that we
// have.
Contestant python_peer(const std::string& name, const std::vector<std::string>& arguments);

// Makes it run by the Python of an environment that `./dev peers NAME` made, whose packages bring a
// BLAS of their own. Returns false, and prints a line, if there is none.
bool in_environment(const std::string& name, Contestant* contestant);

// Adds the peer of such an environment to the contestants, if it exists. `rows` are examples of a
// step; `arguments` as python_peer() takes them.
void add_peer(const std::string& name, const std::string& environment,
              const std::vector<std::string>& arguments, int64_t rows,
              std::vector<Contestant>* contestants);

// The same for tf.data of TensorFlow 2.15 and of today: input_tensorflow.py with these arguments.
void add_tf_data(const std::vector<std::string>& arguments, int64_t rows,
                 std::vector<Contestant>* contestants);

// Whether `module` can be imported; if not, prints that its rows are left out, and which Debian
// `package` has it.
bool has_python(const std::string& module, const std::string& package);

}  // namespace muster::bench
