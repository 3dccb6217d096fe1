#include "muster/tpu/tpu_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "muster/base/error_of.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;
using Attributes = std::map<std::string, std::string>;

// GKE, the second host of a slice v5litepod-8 with four chips a host.
const Variables kTpuSlice{{"TPU_NAME", "pool-1"},
                          {"TPU_WORKER_ID", "1"},
                          {"TPU_WORKER_HOSTNAMES", "train-0.net,train-1.net"},
                          {"TPU_ACCELERATOR_TYPE", "v5litepod-8"},
                          {"TPU_HOST_BOUNDS", "1,2,1"},
                          {"TPU_CHIPS_PER_HOST_BOUNDS", "2,2,1"},
                          {"TPU_SKIP_MDS_QUERY", "true"}};
// A process for each chip of two hosts with two chips each: the first process of the second host.
const Variables kTpuChips{{"TPU_PROCESS_ADDRESSES", "a:8476,a:8477,b:8476,b:8477"},
                          {"CLOUD_TPU_TASK_ID", "2"},
                          {"TPU_PROCESS_PORT", "8476"},
                          {"TPU_VISIBLE_CHIPS", "0"},
                          {"TPU_PROCESS_BOUNDS", "2,2,1"},
                          {"TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"}};

// Worker 1 of a slice with two hosts, as the metadata server of its TPU VM describes it.
const Attributes kTpuVm{
    {"tpu-env",
     "ACCELERATOR_TYPE: 'v4-16'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nTPU_PROCESS_BOUNDS: '1,1,2'\n"
     "TPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\nWORKER_ID: '1'\nZONE: 'us-central2-b'\n"},
    {"worker-network-endpoints", "unknown:unknown:10.0.0.4,unknown:unknown:10.0.0.5"}};

ReadTpuAttribute reader_of(const Attributes& attributes) {
  return [attributes](const std::string& name) -> std::optional<std::string> {
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::nullopt : std::optional(found->second);
  };
}

Attributes with(Attributes attributes, const std::string& name, const std::string& text) {
  attributes[name] = text;
  return attributes;
}

ResolvedCluster cluster_in(const Environment& environment) {
  return resolve_cluster(environment, {.worker_zero_may_be_chief = true});
}

Error refusal(const TpuResolverOptions& options, const Variables& variables,
              const ReadTpuAttribute& read_attribute = {}) {
  return error_of([&] { TpuResolver(options, Environment(variables), read_attribute); });
}

TEST(TpuResolver, ReadsTheVariablesOfGke) {
  const TpuResolver tpu({}, Environment(kTpuSlice));
  EXPECT_EQ(tpu.name(), "pool-1");
  EXPECT_EQ(tpu.accelerator_type(), "v5litepod-8");
  EXPECT_EQ(tpu.worker(), 1);
  EXPECT_THAT(tpu.hosts(), ElementsAre("train-0.net", "train-1.net"));
  EXPECT_EQ(tpu.chips_per_worker(), 4);
  EXPECT_EQ(tpu.cluster_spec(),
            ClusterSpec({{"worker", {"train-0.net:8470", "train-1.net:8470"}}}));
  const TpuResolver chips({.port = 9000}, Environment(kTpuChips));
  EXPECT_EQ(chips.worker(), 2);
  EXPECT_EQ(chips.num_workers(), 4);
  EXPECT_EQ(chips.chips_per_worker(), 1);
  EXPECT_EQ(chips.cluster_spec(),
            ClusterSpec({{"worker", {"a:9000", "a:9000", "b:9000", "b:9000"}}}));
}

TEST(TpuResolver, ReadsTheMetadataOfATpuVm) {
  const TpuResolver tpu({.tpu = "mine", .zone = "us-central2-b"}, Environment(), reader_of(kTpuVm));
  EXPECT_EQ(tpu.name(), "mine");
  EXPECT_EQ(tpu.accelerator_type(), "v4-16");
  EXPECT_EQ(tpu.worker(), 1);
  EXPECT_THAT(tpu.hosts(), ElementsAre("10.0.0.4", "10.0.0.5"));
  EXPECT_EQ(tpu.chips_per_worker(), 4);
  // Training finds the same cluster in this environment.
  const ResolvedCluster cluster = cluster_in(tpu.environment());
  EXPECT_EQ(cluster.source, "TPU");
  EXPECT_EQ(cluster.rank, 1);
  EXPECT_EQ(cluster.num_workers, 2);
  EXPECT_EQ(cluster.coordinator_address, "10.0.0.4:29501");
  const TpuResolver six(
      {}, Environment(),
      reader_of(with(kTpuVm, "worker-network-endpoints", "u:u:fd00::4,u:u:fd00::5")));
  EXPECT_EQ(six.cluster_spec().address({"worker", 1}), "[fd00::5]:8470");
}

TEST(TpuResolver, PrefersVariablesToMetadata) {
  const TpuResolver slice({}, Environment(kTpuSlice), [](const std::string& name) {
    ADD_FAILURE() << "nothing asks for " << name;
    return std::optional<std::string>();
  });
  EXPECT_EQ(slice.accelerator_type(), "v5litepod-8");
  const TpuResolver first({}, {{"TPU_WORKER_ID", "0"}}, reader_of(kTpuVm));
  EXPECT_EQ(first.worker(), 0);
}

TEST(TpuResolver, IsOneWorkerOnTheCpuDevice) {
  const TpuResolver cpu({.tpu = "local"}, {{"PJRT_DEVICE", "CPU"}}, reader_of(kTpuVm));
  EXPECT_EQ(cpu.name(), "");
  EXPECT_EQ(cpu.num_workers(), 1);
  EXPECT_EQ(cpu.chips_per_worker(), 1);
  const TpuResolver four({}, {{"PJRT_DEVICE", "CPU"}, {"CPU_NUM_DEVICES", "4"}});
  EXPECT_EQ(four.chips_per_worker(), 4);
  EXPECT_FALSE(cluster_in(four.environment()).distributed());
}

TEST(TpuResolver, SaysWhatIsWrong) {
  EXPECT_THAT(refusal({}, {}).message(), HasSubstr("no TPU was found"));
  EXPECT_THAT(refusal({}, {{"TPU_WORKER_ID", "0"}}).message(), HasSubstr("no TPU was found"));
  EXPECT_THAT(refusal({}, {}, reader_of({})).message(),
              HasSubstr("no attribute tpu-env: this machine is not a TPU VM"));
  EXPECT_THAT(refusal({}, {}, reader_of({{"tpu-env", "WORKER_ID: '0'"}})).message(),
              HasSubstr("no attribute worker-network-endpoints"));
  EXPECT_THAT(refusal({}, {}, reader_of(with(kTpuVm, "tpu-env", "ZONE: 'a'"))).message(),
              HasSubstr("tpu-env of this TPU VM has no WORKER_ID"));
  EXPECT_THAT(refusal({}, {}, reader_of(with(kTpuVm, "worker-network-endpoints", "a:b"))).message(),
              HasSubstr("'a:b' is not NAME:UID:ADDRESS"));
  EXPECT_THAT(refusal({.zone = "us-east5-a"}, {}, reader_of(kTpuVm)).message(),
              HasSubstr("the zone 'us-east5-a', and this one is in 'us-central2-b'"));
  EXPECT_THAT(refusal({.tpu = "other"}, kTpuSlice).message(),
              HasSubstr("the TPU 'other', and TPU_NAME is 'pool-1'"));
  EXPECT_THAT(refusal({.tpu = "grpc://10.0.0.2:8470"}, kTpuSlice).message(),
              HasSubstr("not supported: the TPU at the address 'grpc://10.0.0.2:8470'"));
  EXPECT_THAT(refusal({.port = 70000}, kTpuSlice).message(),
              HasSubstr("TpuResolverOptions.port is 70000"));
  EXPECT_THAT(refusal({}, with(kTpuSlice, "PJRT_DEVICE", "tpu")).message(),
              HasSubstr("PJRT_DEVICE is 'tpu'"));
  EXPECT_THAT(refusal({}, {{"PJRT_DEVICE", "CPU"}, {"CPU_NUM_DEVICES", "none"}}).message(),
              HasSubstr("CPU_NUM_DEVICES is 'none'"));
  // A variable that the user set, and metadata of two hosts.
  EXPECT_THAT(refusal({}, {{"TPU_PROCESS_BOUNDS", "1,1,1"}}, reader_of(kTpuVm)).message(),
              HasSubstr("TPU_PROCESS_BOUNDS is 1,1,1, which is 1 process, and "
                        "TPU_WORKER_HOSTNAMES has 2"));
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
