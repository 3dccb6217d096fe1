// Which libraries this process has really loaded, whatever the linker was told.
// Thread safety: const functions of the process's state.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace muster::probe {

// Paths of all loaded shared libraries, as the loader found them.
std::vector<std::string> loaded_libraries();

// The file that defines `symbol` for everybody who looks it up, links resolved; empty when nobody
// defines it.
std::string provider_of(const char* symbol);
// The file that holds the code or data at `address`.
std::string provider_of(const void* address);

// {"library": path, "openblas": {"version", "core", "parallel": "openmp"|"threads"|"none"}}; the
// path is empty when no library exports a BLAS, "openblas" absent when it is another one.
nlohmann::json describe_blas();

// Paths of the OpenMP runtimes: more than one is a mistake.
std::vector<std::string> openmp_runtimes();

}  // namespace muster::probe
