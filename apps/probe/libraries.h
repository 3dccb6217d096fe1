// Determines which libraries this process has really loaded, whatever the linker was given. Thread
// safety: const functions of the process's state.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace muster::probe {

// Returns the paths of all loaded shared libraries, as the loader found them.
std::vector<std::string> loaded_libraries();

// Returns the file that defines `symbol` for all code that looks it up, with links resolved; empty
// if no file does.
std::string provider_of(const char* symbol);
// Returns the file that holds the code or data at `address`.
std::string provider_of(const void* address);

// Returns {"library": path, "openblas": {"version", "core", "parallel":
// "openmp"|"threads"|"none"}}. The path is empty when no library exports a BLAS; "openblas" is
// absent when it is another BLAS.
nlohmann::json describe_blas();

// Returns the paths of the OpenMP runtimes; more than one is a mistake.
std::vector<std::string> openmp_runtimes();

}  // namespace muster::probe
