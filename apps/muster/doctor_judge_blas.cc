#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/muster/doctor.h"

namespace muster::app {
namespace {

using nlohmann::json;

// The name that Debian gives this architecture.
#if defined(__x86_64__)
constexpr const char* kMultiarch = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr const char* kMultiarch = "aarch64-linux-gnu";
#else
constexpr const char* kMultiarch = "ARCHITECTURE";
#endif

// Says how to get the build of OpenBLAS that shares LibTorch's threads.
std::string advise_openmp_build(const Environment& environment) {
  std::string advice;
  for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH"}) {
    if (environment.has(name)) advice += fmt::format("try without {}, which is set; or ", name);
  }
  return advice +
         fmt::format(
             "apt-get install libopenblas0-openmp, then link your program again ({}); or choose it "
             "for all programs: update-alternatives --config libblas.so.3-{}",
             kLinkHint, kMultiarch);
}

// Judges OpenBLAS. `rate` is the measured speed, as a part of the sentence, or empty.
void judge_openblas(const json& facts, const std::string& rate, const Environment& environment,
                    Finding& finding) {
  const json& openblas = facts.at("blas").at("openblas");
  const std::string core = openblas.at("core"), parallel = openblas.at("parallel");
  finding.text = fmt::format("{}, kernels for {}", openblas.at("version").get<std::string>(), core);
  if (parallel != "openmp") {
    finding.level = Level::kWarning;
    finding.text += parallel == "threads" ? ", the build with its own threads (together with "
                                            "LibTorch's, several are slower than one)"
                                          : ", the build for one thread";
    finding.text += rate;
    finding.fix = advise_openmp_build(environment);
    return;
  }
  finding.text += ", OpenMP build" + rate;
  const bool avx512 = facts.at("cpu").at("avx512") == true;
  constexpr std::array kNew = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  if (!avx512 || std::ranges::find(kNew, core) != kNew.end()) return;
  if (const auto forced = environment.get("OPENBLAS_CORETYPE")) {
    finding.level = Level::kWarning;
    finding.text += fmt::format("; OPENBLAS_CORETYPE={} keeps it from AVX-512", *forced);
    finding.fix = "unset OPENBLAS_CORETYPE, unless results must have the bits of older CPUs";
  } else {
    finding.details.push_back(
        "this CPU has AVX-512, which these kernels do not use; OPENBLAS_CORETYPE=SkylakeX does");
  }
}

}  // namespace

Finding judge_blas(const json& facts, const Environment& environment) {
  const json& blas = facts.at("blas");
  const std::string library = blas.at("library");
  Finding finding{.name = "BLAS"};
  if (!library.empty()) finding.details.push_back(library);
  const std::string rate =
      facts.contains("gemm_gflops")
          ? fmt::format(": {:.0f} GFLOP/s on one core", facts.at("gemm_gflops").get<double>())
          : "";
  if (blas.contains("openblas")) {
    judge_openblas(facts, rate, environment, finding);
    return finding;
  }
  const bool mkl = facts.contains("torch") && facts.at("torch").at("mkl") == true;
  const std::string file = file_of(library);
  if (mkl || file.starts_with("libmkl")) {
    finding.text = "Intel MKL" + rate;
  } else if (file.starts_with("libblas.") || file.starts_with("libcblas.")) {
    finding.level = Level::kWarning;
    finding.text = "the reference BLAS, which makes a training step several times slower" + rate;
    finding.fix = advise_openmp_build(environment);
  } else if (library.empty()) {
    finding.level = Level::kNote;
    finding.text = "inside LibTorch, of a kind that does not say its name" + rate;
  } else {
    finding.text = file + rate;
  }
  return finding;
}

}  // namespace muster::app
