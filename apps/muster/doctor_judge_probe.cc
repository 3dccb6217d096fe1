#include <fmt/format.h>

#include <array>
#include <csignal>

#include "apps/muster/doctor.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::app {
namespace {

using nlohmann::json;

std::string last_line(const std::string& text) {
  const std::string_view all = trim(text);
  return std::string(all.substr(all.rfind('\n') + 1));
}

// The Debian package that contains a library.
std::string install(const std::string& library) {
  constexpr std::array<std::pair<const char*, const char*>, 12> kPackages{{
      {"libtorch", "libtorch-dev"},
      {"libc10", "libtorch-dev"},
      {"libprotobuf", "libprotobuf-dev"},
      {"libmimalloc", "libmimalloc-dev"},
      {"libopenblas", "libopenblas0-openmp"},
      {"libblas", "libopenblas0-openmp"},
      {"liblapack", "libopenblas0-openmp"},
      {"libspdlog", "libspdlog-dev"},
      {"libfmt", "libfmt-dev"},
      {"libgomp", "libgomp1"},
      {"libre2", "libre2-dev"},
      {"libstdc++", "libstdc++6"},
  }};
  for (const auto& [prefix, package] : kPackages) {
    if (library.starts_with(prefix)) {
      return fmt::format("apt-get install --reinstall {}", package);
    }
  }
  return fmt::format("install the package that has it (apt-file search {})", library);
}

// Explains the loader's message about a library it cannot use: "ld: error while loading shared
// libraries: libx.so.1: cannot open shared object file: No such file or directory".
std::optional<Finding> loader_error(const std::string& err) {
  constexpr std::string_view kLoading = "error while loading shared libraries: ";
  constexpr std::string_view kSymbol = "symbol lookup error: ";
  const std::string elsewhere =
      "; if it is in a separate folder, put that folder into LD_LIBRARY_PATH (which may hold a "
      "wrong one now)";
  if (size_t at = err.find(kLoading); at != std::string::npos) {
    at += kLoading.size();
    const std::string what = err.substr(at, err.find('\n', at) - at);
    const std::string library = file_of(what.substr(0, what.find(": ")));
    return Finding{Level::kProblem, "LibTorch",
                   fmt::format("muster-probe cannot be loaded: {}", what),
                   install(library) + elsewhere};
  }
  if (size_t at = err.find(kSymbol); at != std::string::npos) {
    at += kSymbol.size();
    return Finding{
        Level::kProblem, "LibTorch",
        fmt::format("muster-probe cannot be loaded: {}", err.substr(at, err.find('\n', at) - at)),
        "build Muster again: what it was built with and what is loaded differ, or "
        "LD_LIBRARY_PATH names another version"};
  }
  if (err.find("' not found (required by ") != std::string::npos) {
    return Finding{Level::kProblem, "LibTorch", "muster-probe cannot be loaded: " + last_line(err),
                   "build Muster on this machine, or run it on a system as new as the one it was "
                   "built on"};
  }
  return std::nullopt;
}

std::string remedy_for_signal(int signal) {
  switch (signal) {
    case SIGILL:
      return "a library uses instructions this CPU does not have: unset OPENBLAS_CORETYPE and "
             "ATEN_CPU_CAPABILITY if set, else take a LibTorch and an OpenBLAS built for this CPU";
    case SIGKILL:
      return "see whether the machine or the container ran out of memory: dmesg | tail";
    default:
      return "two versions of a library may be mixed: look into LD_LIBRARY_PATH and LD_PRELOAD, or "
             "build Muster again";
  }
}

// Explains why there are no facts, or not all of them.
std::optional<Finding> judge_start(const ProbeFacts& probe) {
  const auto problem = [](std::string text, std::string fix) {
    return Finding{Level::kProblem, "LibTorch", std::move(text), std::move(fix)};
  };
  if (probe.path.empty()) {
    // Nothing is wrong: a quickstart builds the command without it.
    return Finding{
        Level::kNote, "LibTorch",
        "not examined: muster-probe, which does that, is not in " + join(probe.looked_in, " or "),
        "build it: ./dev build muster-probe; an installation of all of Muster has it"};
  }
  if (probe.not_started) {
    return problem("cannot be examined: " + probe.not_started->message(),
                   "build Muster for this machine, and let " + probe.path + " be executable");
  }
  const launch::CompletedProcess& ran = *probe.ran;
  const std::string at = probe.doing.empty() ? "loading libraries" : probe.doing;
  if (ran.timed_out) {
    return problem(
        fmt::format("muster-probe did not end within {:g} s; it was {}", probe.deadline, at),
        "if the machine or its disk is slow give it longer (muster doctor --timeout "
        "300); else see what it waits for: strace -f " +
            probe.path);
  }
  if (ran.status.signal != 0) {
    return problem(fmt::format("muster-probe was {} while {}", launch::explain(ran.status), at),
                   remedy_for_signal(ran.status.signal));
  }
  if (!ran.status.ok() || !probe.facts.contains("done")) {
    if (auto found = loader_error(ran.err)) return found;
    const std::string said = last_line(ran.err);
    return problem(
        fmt::format("muster-probe failed with exit code {} while {}{}", ran.status.code, at,
                    said.empty() ? "" : ": " + said),
        "build Muster again for this machine; if that does not help, report what muster doctor "
        "--json prints");
  }
  return std::nullopt;
}

Finding judge_torch(const json& torch, const json& cpu, const Environment& environment) {
  const std::string built = torch.at("built_against"), loaded = torch.at("loaded");
  const std::string library = torch.at("library"), capability = torch.at("cpu_capability");
  Finding finding{.name = "LibTorch",
                  .text = fmt::format("{}, kernels for {}", loaded, capability),
                  .details = {library}};
  if (!loaded.empty() && loaded != built) {
    finding.level = Level::kProblem;
    finding.text =
        fmt::format("Muster was built against version {}, but {} is loaded", built, loaded);
    finding.fix =
        "build Muster again with this LibTorch, or take the other one's folder out of "
        "LD_LIBRARY_PATH";
  } else if (const auto forced = environment.get("ATEN_CPU_CAPABILITY");
             forced && cpu.at("avx2") == true && !capability.starts_with("AVX")) {
    finding.level = Level::kWarning;
    finding.text += fmt::format(": ATEN_CPU_CAPABILITY={} keeps it from faster ones", *forced);
    finding.fix = "unset ATEN_CPU_CAPABILITY";
  }
  return finding;
}

Finding judge_devices(const json& torch) {
  const int64_t gpus = torch.at("cuda_devices");
  if (gpus == 0) return {Level::kNote, "Devices", "the CPU; LibTorch sees no GPU"};
  return {Level::kNote, "Devices",
          fmt::format("the CPU, and {} GPU{}: --strategy=one_device:cuda, mirrored:cuda", gpus,
                      gpus == 1 ? "" : "s")};
}

Finding judge_nccl(const json& torch) {
  return {Level::kNote, "NCCL",
          torch.at("nccl").get<bool>()
              ? "built in: gradients of several GPUs travel by it"
              : "not built in: gradients of several GPUs would travel through the CPU"};
}

Finding judge_openmp(const json& runtimes) {
  std::vector<std::string> files;
  for (const json& path : runtimes) files.push_back(file_of(path));
  if (files.empty()) return {Level::kNote, "OpenMP", "none: LibTorch uses its own threads"};
  if (files.size() == 1) return {Level::kOk, "OpenMP", files.front()};
  return {Level::kWarning, "OpenMP",
          fmt::format("{} runtimes at once ({}): their threads compete for the cores", files.size(),
                      join(files, ", ")),
          "link one: the one LibTorch was built with (ldd libtorch_cpu.so), also in the BLAS",
          runtimes.get<std::vector<std::string>>()};
}

Finding judge_allocator(const std::string& library) {
  const std::string file = file_of(library);
  for (const char* name : {"mimalloc", "jemalloc", "tcmalloc"}) {
    if (file.find(name) != std::string::npos) {
      return {Level::kOk, "Allocator", name, "", {library}};
    }
  }
  if (file.starts_with("libc.so") || file.starts_with("libc-")) {
    return {
        Level::kWarning, "Allocator",
        "glibc's, which gives large blocks back after each step: steps take 2 to 3 times as "
        "long",
        fmt::format("apt-get install libmimalloc-dev (3.0 is left out: it breaks the heap), then "
                    "configure and build again ({})",
                    kLinkHint)};
  }
  return {Level::kNote, "Allocator", "malloc comes from " + library};
}

void judge_talk(const json& talk, const Environment& environment, std::vector<Finding>* findings) {
  struct Check {
    const char* key{};
    const char* name{};
    const char* good{};
    const char* fix{};  // after the error's own hint
  };
  constexpr std::array<Check, 3> kChecks{{
      {"coordinator", "Coordinator", "two processes met on 127.0.0.1",
       "let processes of this machine connect to each other on 127.0.0.1: is the loopback "
       "interface up, does a firewall or a sandbox (seccomp) forbid it?"},
      {"tcp", "TCP", "two processes summed tensors over TCP on 127.0.0.1",
       "let processes of this machine connect to each other on 127.0.0.1, on any port: is the "
       "loopback interface up, does a firewall forbid it?"},
      {"shared_memory", "Shared memory", "two processes summed tensors in place",
       "allow memfd_create and Unix sockets in the sandbox (seccomp) these processes run in; until "
       "then MUSTER_TRANSPORT=tcp works"},
  }};
  for (const Check& check : kChecks) {
    const json& result = talk.at(check.key);
    const std::string state = result.at("state");
    if (state == "ok") {
      findings->push_back({Level::kOk, check.name, check.good});
    } else if (state == "skipped") {
      findings->push_back(
          {Level::kNote, check.name,
           "not tried: " +
               result.value("why", "processes find each other through the coordinator")});
    } else {
      std::string fix = check.fix;
      const bool coordinator = check.key == std::string("coordinator");
      const std::string hint = result.at("hint");
      // The hint of a coordinator's error is about TF_CONFIG, and there is none here.
      if (!coordinator && !hint.empty()) fix = hint + "; " + fix;
      if (coordinator && (environment.has("http_proxy") || environment.has("https_proxy"))) {
        fix += "; a proxy is set, try without: env -u http_proxy -u https_proxy muster doctor";
      }
      // Without shared memory TCP is used.
      const bool spare = check.key == std::string("shared_memory");
      findings->push_back({spare ? Level::kWarning : Level::kProblem, check.name,
                           "two processes cannot talk: " + result.at("error").get<std::string>(),
                           fix});
    }
  }
}

}  // namespace

std::vector<Finding> judge_probe(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  const ProbeFacts& probe = facts.probe;
  if (auto start = judge_start(probe)) findings.push_back(std::move(*start));
  const json& known = probe.facts;
  try {
    if (known.contains("version") && known.at("version") != facts.version) {
      findings.push_back({Level::kProblem, "Version",
                          fmt::format("muster is {}, but {} is {}", facts.version, probe.path,
                                      known.at("version").get<std::string>()),
                          "install both from one build"});
      return findings;
    }
    if (known.contains("torch")) {
      findings.push_back(judge_torch(known.at("torch"), known.at("cpu"), facts.environment));
      findings.push_back(judge_devices(known.at("torch")));
      findings.push_back(judge_nccl(known.at("torch")));
    }
    if (known.contains("blas")) {
      findings.push_back(judge_blas(known, facts.environment));
      findings.push_back(judge_openmp(known.at("openmp")));
      findings.push_back(judge_allocator(known.at("allocator")));
    }
    if (known.contains("talk")) judge_talk(known.at("talk"), facts.environment, &findings);
  } catch (const json::exception& error) {
    findings.push_back({Level::kProblem, "LibTorch",
                        fmt::format("{} answers in words this muster does not know ({})",
                                    probe.path, error.what()),
                        "install both from one build"});
  }
  if (!known.contains("talk")) {
    findings.push_back({Level::kNote, "Not checked",
                        known.contains("blas")
                            ? "whether processes can talk: muster-probe ended before"
                            : "BLAS, allocator, and whether processes can talk: this needs "
                              "muster-probe"});
  }
  return findings;
}

}  // namespace muster::app
