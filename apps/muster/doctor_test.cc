#include "apps/muster/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "muster/base/temp_directory.h"
#include "muster/launch/certificates.h"

namespace muster::app {
namespace {

using launch::CompletedProcess;
using launch::run_to_end;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using namespace std::chrono_literals;

json probe_facts() {
  return json::parse(R"({
    "version": "0.1.0",
    "cpu": {"avx2": true, "avx512": true},
    "blas": {"library": "/usr/lib/openblas-openmp/libblas.so.3",
             "openblas": {"version": "OpenBLAS 0.3.21", "core": "SkylakeX", "parallel": "openmp"}},
    "openmp": ["/usr/lib/libgomp.so.1"],
    "allocator": "/usr/lib/libmimalloc.so.2.0",
    "torch": {"built_against": "1.13.1", "loaded": "1.13.1", "library": "/usr/lib/libtorch_cpu.so",
              "cpu_capability": "AVX512", "mkl": false, "cuda_devices": 0,
              "nccl": false},
    "gemm_gflops": 98.4,
    "talk": {"coordinator": {"state": "ok"}, "tcp": {"state": "ok"},
             "shared_memory": {"state": "ok"}},
    "done": true})");
}

// A machine on which all is well.
DoctorFacts healthy() {
  DoctorFacts facts{.version = "0.1.0"};
  facts.machine = {
      .cores = {.cores = {0, 1, 2, 3}, .usable = 4},
      .memory = 16ull << 30,
      .memory_available = 12ull << 30,
      .open_files = 1024,
      .interfaces = {{"lo", {"127.0.0.1", "::1"}, true, true}, {"eth0", {"10.0.0.5"}, false, true}},
      .host_name = "node5",
      .hosts = {{"node5", {"10.0.0.5"}}}};
  facts.probe = {.path = "/opt/bin/muster-probe", .ran = CompletedProcess{}, .deadline = 60};
  facts.probe.facts = probe_facts();
  return facts;
}

DoctorFacts with_environment(Environment environment) {
  DoctorFacts facts = healthy();
  facts.environment = std::move(environment);
  return facts;
}

// The gravest finding of that name; the first of several.
Finding find(const DoctorFacts& facts, const std::string& name) {
  std::optional<Finding> found;
  for (const Finding& finding : judge(facts)) {
    if (finding.name == name && (!found || finding.level > found->level)) found = finding;
  }
  if (!found) ADD_FAILURE() << "nothing is said of " << name;
  return found.value_or(Finding{});
}

// Something is wrong with `name`, and nothing but it.
Finding only(const DoctorFacts& facts, const std::string& name, Level level) {
  for (const Finding& finding : judge(facts)) {
    if (finding.name != name) {
      EXPECT_LE(finding.level, Level::kNote) << finding.name << ": " << finding.text;
    }
    if (finding.level >= Level::kWarning) {
      EXPECT_NE(finding.fix, "") << finding.name;
    }
  }
  EXPECT_EQ(doctor_exit_code(judge(facts)), level == Level::kProblem ? 1 : 0);
  Finding found = find(facts, name);
  EXPECT_EQ(found.level, level) << found.text;
  return found;
}

TEST(Doctor, AMachineInOrder) {
  const DoctorFacts facts = healthy();
  for (const Finding& finding : judge(facts)) {
    EXPECT_LE(finding.level, Level::kNote) << finding.name << ": " << finding.text;
    EXPECT_NE(finding.text, "") << finding.name;
  }
  EXPECT_EQ(find(facts, "LibTorch").text, "1.13.1, kernels for AVX512");
  EXPECT_EQ(find(facts, "BLAS").text,
            "OpenBLAS 0.3.21, kernels for SkylakeX, OpenMP build: 98 GFLOP/s on one core");
  EXPECT_EQ(find(facts, "Network").text, "lo 127.0.0.1 ::1, eth0 10.0.0.5");
  EXPECT_EQ(find(facts, "NCCL").level, Level::kNote);
  EXPECT_EQ(doctor_exit_code(judge(facts)), 0);
  EXPECT_THAT(doctor_text(judge(facts), false), ::testing::EndsWith("\nall is well\n"));
}

TEST(Doctor, SlowBlas) {
  DoctorFacts facts = healthy();
  facts.probe.facts["blas"] = {{"library", "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"}};
  const Finding reference = only(facts, "BLAS", Level::kWarning);
  EXPECT_THAT(reference.text, HasSubstr("reference BLAS"));
  EXPECT_THAT(reference.fix, AllOf(HasSubstr("libopenblas0-openmp"), HasSubstr("find_package"),
                                   HasSubstr("update-alternatives"), Not(HasSubstr("LD_"))));
  facts.environment = Environment{{"LD_PRELOAD", "libblas.so.3"}};
  EXPECT_THAT(find(facts, "BLAS").fix,
              HasSubstr("try without LD_PRELOAD, which is set; or apt-get"));

  facts = healthy();
  facts.probe.facts["blas"]["openblas"]["parallel"] = "threads";
  EXPECT_THAT(only(facts, "BLAS", Level::kWarning).fix, HasSubstr("libopenblas0-openmp"));
  facts.probe.facts["blas"]["openblas"]["parallel"] = "none";
  EXPECT_THAT(only(facts, "BLAS", Level::kWarning).text, HasSubstr("one thread"));

  facts = with_environment({{"OPENBLAS_CORETYPE", "Haswell"}});
  EXPECT_EQ(find(facts, "BLAS").level, Level::kOk);  // set, but it does no harm
  facts.probe.facts["blas"]["openblas"]["core"] = "Haswell";
  EXPECT_THAT(only(facts, "BLAS", Level::kWarning).fix, HasSubstr("unset OPENBLAS_CORETYPE"));
  facts.probe.facts["cpu"]["avx512"] = false;
  EXPECT_EQ(find(facts, "BLAS").level, Level::kOk);

  facts = healthy();
  facts.probe.facts["blas"] = {{"library", ""}};
  facts.probe.facts["torch"]["mkl"] = true;
  EXPECT_THAT(find(facts, "BLAS").text, HasSubstr("Intel MKL"));
}

TEST(Doctor, AllocatorAndOpenMp) {
  DoctorFacts facts = healthy();
  facts.probe.facts["allocator"] = "/usr/lib/x86_64-linux-gnu/libc.so.6";
  EXPECT_THAT(only(facts, "Allocator", Level::kWarning).fix, HasSubstr("libmimalloc-dev"));
  facts.probe.facts["allocator"] = "/usr/lib/libjemalloc.so.2";
  EXPECT_EQ(find(facts, "Allocator").level, Level::kOk);

  facts = healthy();
  facts.probe.facts["openmp"].push_back("/opt/intel/libiomp5.so");
  EXPECT_THAT(only(facts, "OpenMP", Level::kWarning).text, HasSubstr("libgomp.so.1, libiomp5.so"));
}

TEST(Doctor, LibTorchOfAnotherVersion) {
  DoctorFacts facts = healthy();
  facts.probe.facts["torch"]["loaded"] = "2.6.0";
  EXPECT_THAT(only(facts, "LibTorch", Level::kProblem).text,
              AllOf(HasSubstr("1.13.1"), HasSubstr("2.6.0")));
  facts = healthy();
  facts.probe.facts["version"] = "0.0.9";
  EXPECT_THAT(find(facts, "Version").text, HasSubstr("0.0.9"));
  EXPECT_EQ(doctor_exit_code(judge(facts)), 1);
  facts = healthy();
  facts.probe.facts["blas"] = "fast";  // words of another version
  EXPECT_THAT(find(facts, "LibTorch").text, HasSubstr("does not know"));
  EXPECT_EQ(doctor_exit_code(judge(facts)), 1);
}

TEST(Doctor, ProcessesThatCannotTalk) {
  DoctorFacts facts = healthy();
  json& talk = facts.probe.facts["talk"];
  talk["shared_memory"] = {{"state", "failed"}, {"error", "memfd_create failed"}, {"hint", ""}};
  EXPECT_THAT(only(facts, "Shared memory", Level::kWarning).fix, HasSubstr("MUSTER_TRANSPORT=tcp"));
  talk["shared_memory"] = {{"state", "ok"}};
  talk["tcp"] = {{"state", "failed"}, {"error", "connection refused"}, {"hint", "look there"}};
  const Finding tcp = only(facts, "TCP", Level::kProblem);
  EXPECT_THAT(tcp.text, HasSubstr("connection refused"));
  EXPECT_THAT(tcp.fix, AllOf(HasSubstr("look there"), HasSubstr("firewall")));
  talk["tcp"] = talk["shared_memory"] = {{"state", "skipped"}};
  EXPECT_THAT(find(facts, "TCP").text, HasSubstr("not tried: processes find each other"));
  talk["tcp"]["why"] = "built without it";
  EXPECT_EQ(find(facts, "TCP").text, "not tried: built without it");
  talk["coordinator"] = {{"state", "failed"}, {"error", "no route"}, {"hint", ""}};
  EXPECT_THAT(only(facts, "Coordinator", Level::kProblem).fix, Not(HasSubstr("http_proxy")));
  facts.environment = Environment{{"http_proxy", "proxy:3128"}};
  EXPECT_THAT(find(facts, "Coordinator").fix, HasSubstr("http_proxy"));
}

// Without facts of the probe, what it said when it failed is judged, and the rest anyway.
DoctorFacts failed_probe(CompletedProcess ran) {
  DoctorFacts facts = healthy();
  facts.probe.facts = json::object();
  facts.probe.ran = std::move(ran);
  return facts;
}

TEST(Doctor, AProbeThatCannotBeLoaded) {
  DoctorFacts facts = failed_probe(
      {.status = {.code = 127},
       .err = "/opt/bin/muster-probe: error while loading shared libraries: libtorch_cpu.so.1.13: "
              "cannot open shared object file: No such file or directory\n"});
  Finding found = only(facts, "LibTorch", Level::kProblem);
  EXPECT_THAT(found.text, HasSubstr("libtorch_cpu.so.1.13: cannot open shared object file"));
  EXPECT_THAT(found.fix, AllOf(HasSubstr("libtorch-dev"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_EQ(find(facts, "Cores").text, "4");
  EXPECT_THAT(find(facts, "Not checked").text, HasSubstr("BLAS"));

  facts.probe.ran->err = "x: error while loading shared libraries: libfoo.so.3: file too short\n";
  EXPECT_THAT(find(facts, "LibTorch").fix, HasSubstr("apt-file search libfoo.so.3"));
  facts.probe.ran->err = "x: symbol lookup error: x: undefined symbol: _ZN2at4mainEv\n";
  EXPECT_THAT(find(facts, "LibTorch").text, HasSubstr("undefined symbol: _ZN2at4mainEv"));
  facts.probe.ran->err =
      "x: /lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x)\n";
  EXPECT_THAT(find(facts, "LibTorch").fix, HasSubstr("build Muster on this machine"));
}

TEST(Doctor, AProbeThatDiesOrHangsOrIsNotThere) {
  DoctorFacts facts = failed_probe({.status = {.signal = SIGILL}});
  EXPECT_THAT(find(facts, "LibTorch").text, HasSubstr("while loading libraries"));
  facts.probe.facts = probe_facts();
  for (const char* later : {"gemm_gflops", "talk", "done"}) facts.probe.facts.erase(later);
  facts.probe.doing = "multiplying matrices";
  const Finding illegal = only(facts, "LibTorch", Level::kProblem);
  EXPECT_THAT(illegal.text, AllOf(HasSubstr("SIGILL"), HasSubstr("while multiplying matrices")));
  EXPECT_THAT(illegal.fix, HasSubstr("OPENBLAS_CORETYPE"));
  // What it had said before is shown.
  EXPECT_THAT(find(facts, "BLAS").text, HasSubstr("OpenBLAS"));
  EXPECT_THAT(find(facts, "Not checked").text, Not(HasSubstr("BLAS")));

  facts = failed_probe({.status = {.signal = SIGKILL}, .timed_out = true});
  EXPECT_THAT(only(facts, "LibTorch", Level::kProblem).text, HasSubstr("within 60 s"));
  facts = failed_probe({.status = {.code = 1}, .err = "noise\nerror: no such thing\n"});
  EXPECT_THAT(only(facts, "LibTorch", Level::kProblem).text, HasSubstr("error: no such thing"));
  facts = failed_probe({});
  EXPECT_THAT(only(facts, "LibTorch", Level::kProblem).text, HasSubstr("exit code 0"));

  facts.probe = {.looked_in = {"/opt/bin", "/opt/libexec/muster"}};
  const Finding absent = only(facts, "LibTorch", Level::kNote);
  EXPECT_THAT(absent.text, HasSubstr("/opt/bin or /opt/libexec/muster"));
  EXPECT_THAT(absent.fix, HasSubstr("./dev build muster-probe"));
  EXPECT_EQ(doctor_exit_code(judge(facts)), 0);
}

TEST(Doctor, MemoryCoresAndFiles) {
  DoctorFacts facts = healthy();
  facts.machine.memory_available = 300 << 20;
  EXPECT_THAT(only(facts, "Memory", Level::kWarning).text, HasSubstr("300"));
  facts = healthy();
  facts.machine.memory_limit = 512 << 20;
  EXPECT_THAT(only(facts, "Memory", Level::kWarning).text, HasSubstr("limited to 512"));
  facts.machine.memory_limit = 64ull << 30;  // more than there is
  EXPECT_THAT(find(facts, "Memory").text, Not(HasSubstr("limited")));
  facts = healthy();
  facts.machine.open_files = 64;
  EXPECT_THAT(only(facts, "Open files", Level::kWarning).fix, HasSubstr("ulimit -n"));
  facts = healthy();
  facts.machine.cores.usable = 2;
  EXPECT_THAT(find(facts, "Cores").text, HasSubstr("2 (a quota of the container; 4 are there)"));
}

TEST(Doctor, NetworkAndHostName) {
  DoctorFacts facts = healthy();
  facts.machine.interfaces[0].up = false;
  EXPECT_THAT(only(facts, "Network", Level::kProblem).fix, HasSubstr("ip link set lo up"));
  facts = healthy();
  facts.machine.hosts["node5"] = {"127.0.1.1"};
  EXPECT_THAT(only(facts, "Host name", Level::kNote).text, HasSubstr("write 10.0.0.5"));
  facts.machine.hosts["node5"] = {};
  EXPECT_THAT(only(facts, "Host name", Level::kNote).text, HasSubstr("no address"));
}

std::string tf_config(const std::string& first, const std::string& second, int index) {
  return json{{"cluster", {{"worker", {first, second}}}},
              {"task", {{"type", "worker"}, {"index", index}}}}
      .dump();
}

// A task of a job that has a token.
Environment with_token(const std::string& tf_config) {
  return {{"TF_CONFIG", tf_config}, {"MUSTER_JOB_TOKEN", "a token of the test"}};
}

TEST(Doctor, TfConfig) {
  EXPECT_THAT(find(healthy(), "TF_CONFIG").text, HasSubstr("not set"));
  DoctorFacts facts = with_environment(with_token(tf_config("node5:2222", "node6:2222", 0)));
  facts.machine.hosts["node6"] = {"10.0.0.6"};
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kOk).text, HasSubstr("rank 0 of 2"));

  // This is node5, and not node6.
  facts.environment = with_token(tf_config("node5:2222", "node6:2222", 1));
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kWarning).text, HasSubstr("not an address of this"));
  facts.environment = with_token(tf_config("node5:2222", "gone:2222", 0));
  facts.machine.hosts["gone"] = {};
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kWarning).text, HasSubstr("'gone'"));
  facts.environment = with_token(tf_config("node5:2222", "gone:2222", 1));
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kProblem).text, HasSubstr("'gone'"));
  // As Debian's installer writes /etc/hosts.
  facts.environment = with_token(tf_config("node5:2222", "node6:2222", 0));
  facts.machine.hosts["node5"] = {"127.0.1.1"};
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kWarning).fix, HasSubstr("write 10.0.0.5"));
  // All on this machine: nobody else must reach it.
  facts.environment = with_token(tf_config("node5:2222", "node5:2223", 0));
  EXPECT_EQ(find(facts, "TF_CONFIG").level, Level::kOk);

  facts = with_environment(with_token(tf_config("node5:2222", "node5:x", 0)));
  const Finding wrong = only(facts, "TF_CONFIG", Level::kProblem);
  EXPECT_THAT(wrong.text, HasSubstr("node5:x"));
  facts.environment = Environment{{"TF_CONFIG", "{"}};
  EXPECT_EQ(only(facts, "TF_CONFIG", Level::kProblem).text.find("TF_CONFIG"), 0u);
  facts.environment = Environment{
      {"TF_CONFIG",
       R"({"cluster":{"chief":["node5:1"],"ps":["node6:2"]},"task":{"type":"ps","index":0}})"},
      {"MUSTER_JOB_TOKEN", "0123456789abcdef0123456789abcdef"}};
  facts.machine.hosts["node6"] = {};
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kProblem).text,
              HasSubstr("'node6', the host of ps:0, is not known here"));
  // An evaluator connects to nobody: neither addresses nor a token matter.
  facts.environment = Environment{
      {"TF_CONFIG",
       R"({"cluster":{"worker":["gone:1","far:2"]},"task":{"type":"evaluator","index":0}})"}};
  EXPECT_THAT(only(facts, "TF_CONFIG", Level::kOk).text,
              HasSubstr("evaluates outside of the cluster"));
}

// What a program refuses to start with is a problem before, by the same rule.
TEST(Doctor, WhatKeepsUnauthenticatedPeersOut) {
  const auto with = [](std::vector<std::pair<std::string, std::string>> variables) {
    std::map<std::string, std::string> all(variables.begin(), variables.end());
    all.try_emplace("TF_CONFIG", tf_config("node5:2222", "node6:2222", 0));
    DoctorFacts facts = with_environment(Environment(all));
    facts.machine.hosts["node6"] = {"10.0.0.6"};
    return facts;
  };
  const Finding open = only(with({}), "MUSTER_JOB_TOKEN", Level::kProblem);
  EXPECT_THAT(open.text, HasSubstr("peers are not authenticated"));
  EXPECT_THAT(open.fix, HasSubstr("export MUSTER_JOB_TOKEN="));
  const auto problems = [](const DoctorFacts& facts) {
    std::vector<std::string> names;
    for (const Finding& finding : judge_environment(facts)) {
      if (finding.level == Level::kProblem) names.push_back(finding.name);
    }
    return names;
  };
  EXPECT_THAT(problems(with({{"TF_CONFIG", tf_config("node6:2222", "node5:2222", 1)}})),
              ElementsAre("MUSTER_JOB_TOKEN"));
  EXPECT_THAT(problems(with({{"MUSTER_JOB_TOKEN", "0123456789abcdef"}})), IsEmpty());
  EXPECT_THAT(problems(with({{"MUSTER_INSECURE", "1"}})), IsEmpty());
  EXPECT_THAT(problems(with({{"TF_CONFIG", tf_config("127.0.0.1:1", "127.0.0.1:2", 0)}})),
              IsEmpty());

  const TempDirectory directory;
  const auto certificates = [&](const std::string& folder, const std::string& host, int days) {
    return launch::write_certificates(launch::make_certificates({host}, days), directory / folder);
  };
  EXPECT_THAT(problems(with(certificates("ours", "node5", 1))), IsEmpty());
  auto other = certificates("other", "node7", 1);
  const Finding named = only(with(other), "MUSTER_TLS_CERT", Level::kProblem);
  EXPECT_THAT(named.text, AllOf(HasSubstr("is for 'node7', and not for 'node5'")));
  EXPECT_THAT(named.fix, HasSubstr("MUSTER_TLS_SERVER_NAME"));
  // Only the coordinator's has to be for the host.
  other.emplace_back("TF_CONFIG", tf_config("node6:2222", "node5:2222", 1));
  EXPECT_THAT(problems(with(other)), IsEmpty());
  other.back() = {"MUSTER_TLS_SERVER_NAME", "node7"};
  EXPECT_THAT(problems(with(other)), IsEmpty());
}

TEST(Doctor, Variables) {
  EXPECT_THAT(
      only(with_environment({{"MUSTER_THREADS", "many"}}), "MUSTER_THREADS", Level::kProblem).fix,
      HasSubstr("export MUSTER_THREADS=4"));
  EXPECT_THAT(
      only(with_environment({{"OMP_NUM_THREADS", "9"}}), "OMP_NUM_THREADS", Level::kWarning).text,
      HasSubstr("9 threads on 4"));
  EXPECT_EQ(find(with_environment({{"OMP_NUM_THREADS", "4"}}), "OMP_NUM_THREADS").level,
            Level::kOk);
  EXPECT_EQ(find(with_environment({{"MUSTER_TRANSPORT", "tcp"}}), "MUSTER_TRANSPORT").level,
            Level::kOk);
  EXPECT_THAT(
      only(with_environment({{"MUSTER_TRANSPORT", "pigeon"}}), "MUSTER_TRANSPORT", Level::kProblem)
          .fix,
      HasSubstr("auto, tcp, shared_memory or nccl"));
}

TEST(Doctor, GathersWhatThisMachineIs) {
  const MachineFacts facts =
      gather_machine(Environment{{"TF_CONFIG", tf_config("127.0.0.1:1", "[::1]:2", 0)}});
  EXPECT_THAT(facts.hosts.at("127.0.0.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(facts.hosts, Contains(Key("::1")));
  EXPECT_GE(facts.cores.usable, 1);
  EXPECT_GT(facts.memory, facts.memory_available);
  EXPECT_GT(facts.memory_available, 0u);
  EXPECT_THAT(facts.interfaces, Contains(Field(&NetworkInterface::loopback, true)));
}

TEST(Doctor, TextAndJsonSayTheSame) {
  DoctorFacts facts = healthy();
  facts.probe.facts["allocator"] = "/lib/libc.so.6";
  const std::vector<Finding> findings = judge(facts);
  const std::string text = doctor_text(findings, false);
  EXPECT_THAT(text, HasSubstr("\nwarning  Allocator      glibc's"));
  EXPECT_THAT(text, HasSubstr("\n         fix: apt-get install libmimalloc-dev"));
  EXPECT_THAT(text, HasSubstr("\n1 warning: "));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(doctor_text(findings, true), HasSubstr("\033[33m"));
  const json document = doctor_json(findings, facts);
  EXPECT_EQ(document.at("exit_code"), 0);
  ASSERT_EQ(document.at("findings").size(), findings.size());
  EXPECT_EQ(document.at("findings").at(0).at("level"), "ok");
  EXPECT_EQ(document.at("machine").at("usable_cores"), 4);
  EXPECT_EQ(document.at("probe").at("facts").at("gemm_gflops"), 98.4);
}

// The real command, in `folder`, with NAME=value pairs before it.
CompletedProcess doctor(const std::string& folder, const std::string& variables,
                        const std::string& options) {
  return run_to_end(
      {"/bin/sh", "-c",
       "unset TF_CONFIG; " + variables + " exec " + folder + "/muster doctor " + options},
      100s);
}

class DoctorCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("MUSTER_BIN_DIR");
    ASSERT_NE(folder, nullptr) << "run this test through ctest";
    bin_ = folder;
    std::filesystem::copy_file(bin_ + "/muster", alone_ / "muster");
  }

  void need_probe() {
    if (!std::filesystem::exists(bin_ + "/muster-probe")) {
      GTEST_SKIP() << "this build has the ground storey alone, and so no muster-probe";
    }
  }

  // A probe that is a shell script, next to the command alone.
  void plant_probe(const std::string& script) {
    std::ofstream(alone_ / "muster-probe") << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(alone_ / "muster-probe", std::filesystem::perms::owner_all);
  }

  // A problem, or a note, with what was found out without LibTorch below it.
  void expect_the_rest(const CompletedProcess& ran, const std::string& level = "problem ") {
    EXPECT_EQ(ran.status.code, level == "problem " ? 1 : 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with(level + " LibTorch")) << ran.out;
    for (const char* line : {"\nok       Cores", "  Memory", "  Network", "  TF_CONFIG"}) {
      EXPECT_THAT(ran.out, HasSubstr(line));
    }
  }

  std::string bin_;
  TempDirectory alone_;
};

TEST_F(DoctorCommand, FindsThisInstallationFit) {
  need_probe();
  if (IsSkipped()) return;
  const CompletedProcess ran = doctor(bin_, "", "--json");
  EXPECT_EQ(ran.status.code, 0) << ran.out << ran.err;
  const json document = json::parse(ran.out);
  std::map<std::string, json> findings;
  for (const json& finding : document.at("findings")) findings[finding.at("name")] = finding;
  EXPECT_EQ(findings["LibTorch"].at("level"), "ok");
  EXPECT_THAT(findings["LibTorch"].at("text"), ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\..*"));
  for (const char* way : {"Coordinator", "TCP", "Shared memory"})
    EXPECT_EQ(findings[way].at("level"), "ok") << findings[way];
  EXPECT_GT(document.at("probe").at("facts").at("gemm_gflops"), 0);
  EXPECT_GT(document.at("machine").at("memory_bytes"), 0);
  EXPECT_THAT(document.at("machine").at("interfaces"), Not(IsEmpty()));
}

TEST_F(DoctorCommand, WithoutTheProbe) {
  const CompletedProcess ran = doctor(alone_.path(), "", "");
  expect_the_rest(ran, "note    ");
  EXPECT_THAT(ran.out,
              HasSubstr("muster-probe, which does that, is not in " + alone_.path() + " or "));
}

TEST_F(DoctorCommand, WithALibTorchThatCannotBeLoaded) {
  need_probe();
  if (IsSkipped()) return;
  const json document = json::parse(doctor(bin_, "", "--json").out);
  // The path it was loaded by may be a link to this file; the name that is asked for is shorter.
  const std::filesystem::path real =
      document.at("probe").at("facts").at("torch").at("library").get<std::string>();
  if (!real.string().starts_with("/usr/lib/") && !real.string().starts_with("/lib/")) {
    GTEST_SKIP() << "the path of " << real << " is written into muster-probe";
  }
  TempDirectory broken;
  std::string name = real.filename().string();
  for (;;) {  // libtorch_cpu.so.1.13.1, .so.1.13, .so.1, .so
    std::ofstream(broken / name).flush();
    if (name.ends_with(".so")) break;
    name.resize(name.rfind('.'));
  }
  const CompletedProcess ran = doctor(bin_, "LD_LIBRARY_PATH=" + broken.path(), "");
  expect_the_rest(ran);
  EXPECT_THAT(ran.out, HasSubstr("libtorch_cpu.so"));
  EXPECT_THAT(ran.out, HasSubstr("file too short"));
  EXPECT_THAT(ran.out, HasSubstr("fix: apt-get install --reinstall libtorch-dev"));
}

TEST_F(DoctorCommand, WithAProbeThatCrashesOrHangs) {
  plant_probe("echo '{\"doing\": \"multiplying matrices\"}'; kill -ILL $$");
  CompletedProcess ran = doctor(alone_.path(), "", "");
  expect_the_rest(ran);
  EXPECT_THAT(ran.out, HasSubstr("SIGILL"));
  EXPECT_THAT(ran.out, HasSubstr("while multiplying matrices"));
  plant_probe("exec sleep 60");
  ran = doctor(alone_.path(), "", "--timeout 1");
  expect_the_rest(ran);
  EXPECT_THAT(ran.out, HasSubstr("did not end within 1 s"));
  std::filesystem::permissions(alone_ / "muster-probe", std::filesystem::perms::owner_read);
  ran = doctor(alone_.path(), "", "");
  expect_the_rest(ran);
  EXPECT_THAT(ran.out, HasSubstr("cannot start"));
}

TEST_F(DoctorCommand, SeesAWrongTfConfig) {
  const CompletedProcess ran = run_to_end(
      {"/bin/sh", "-c", "TF_CONFIG='{\"cluster\": 3}' exec " + alone_.path() + "/muster doctor"},
      100s);
  EXPECT_EQ(ran.status.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("\nproblem  TF_CONFIG"));
}

}  // namespace
}  // namespace muster::app
