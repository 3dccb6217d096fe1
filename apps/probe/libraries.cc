#include "apps/probe/libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace muster::probe {
namespace {

std::string resolved(const std::string& path) {
  std::error_code failed;
  const auto real = std::filesystem::canonical(path, failed);
  return failed ? path : real.string();
}

// Finds a function in the library at `path`, or one it depends on. A global look-up will not do,
// because another BLAS may be loaded too.
template <typename Function>
Function function(const std::string& path, const char* name) {
  void* const library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto found = reinterpret_cast<Function>(dlsym(library, name));
  dlclose(library);  // it stays: it was loaded before
  return found;
}

}  // namespace

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* list) {
        // The program itself has no name, and the kernel's own library has no slash in it.
        const std::string name = info->dlpi_name;
        if (name.find('/') != std::string::npos) {
          static_cast<std::vector<std::string>*>(list)->push_back(name);
        }
        return 0;
      },
      &paths);
  return paths;
}

std::string provider_of(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return resolved(info.dli_fname);
}

std::string provider_of(const char* symbol) {
  return provider_of(static_cast<const void*>(dlsym(RTLD_DEFAULT, symbol)));
}

nlohmann::json describe_blas() {
  const std::string library = provider_of("sgemm_");
  nlohmann::json blas = {{"library", library}};
  const auto config = function<const char* (*)()>(library, "openblas_get_config");
  const auto core = function<const char* (*)()>(library, "openblas_get_corename");
  const auto parallel = function<int (*)()>(library, "openblas_get_parallel");
  if (config == nullptr || core == nullptr || parallel == nullptr) return blas;
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::string text = config();
  const size_t end = text.find(' ', text.find(' ') + 1);
  const int kind = parallel();
  blas["openblas"] = {{"version", text.substr(0, end)},
                      {"core", core()},
                      {"parallel", kind == 2   ? "openmp"
                                   : kind == 1 ? "threads"
                                               : "none"}};
  return blas;
}

std::vector<std::string> openmp_runtimes() {
  std::vector<std::string> runtimes;
  for (const std::string& path : loaded_libraries()) {
    const std::string file = path.substr(path.rfind('/') + 1);
    for (const char* name : {"libgomp", "libiomp", "libomp."}) {
      // The copy in a Python wheel has a name such as libgomp-a34b3233.so.1.
      if (file.starts_with(name)) runtimes.push_back(resolved(path));
    }
  }
  return runtimes;
}

}  // namespace muster::probe
