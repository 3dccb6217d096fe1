// What the guides call not supported is refused by the code. A sentence that says "not supported"
// and has no row here fails, so a limit that is lifted takes its sentence with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/docs/shown.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Refusal {
  const char* document;
  const char* sentence;  // a part of it, in one line
  const char* source;
  const char* code;  // a part of the error, or of its condition
};

const Refusal kRefusals[] = {
    {"board.md", "with `--report` is not supported", "apps/muster/run_command.cc",
     "not supported: --report with --nodes"},
    {"buckets.md", "profiles that assume a role", "muster/stores/internal/aws_credentials.cc",
     R"("role_arn", "sso_session")"},
    {"checkpoints.md", "checkpoints of version 1;", "muster/tensorflow/tensorflow_checkpoint.cc",
     "as checkpoints of version 1"},
    {"checkpoints.md", "soft and external links, data in other files",
     "muster/hdf/internal/hdf_library.cc", "is a soft link"},
    {"checkpoints.md", "checkpoints of big-endian machines", "muster/bundles/tensor_bundle.cc",
     "endianness != kLittleEndian"},
    {"coming_from_tf_estimator.md", "BMP with other packing",
     "muster/formats/internal/bmp_image_codec.cc", "its pixels are packed in another way"},
    {"export.md", "`not supported: exporting the layer ...`", "muster/tensor/tracing.cc",
     "not supported: exporting "},
    {"export.md", "`not supported: exporting any length of axis 1",
     "muster/export/write_servable.cc", "not supported: exporting {}: at {}"},
    {"export.md", "free lengths with tf.Examples, with feature columns",
     "muster/export/write_servable.cc", "feature columns come before the model"},
    {"export.md", "operations without a counterpart", "muster/onnx/graph_of.cc",
     "has no counterpart in ONNX here"},
    {"export.md", "an operation that is not in Muster's map",
     "muster/imports/internal/onnx_graph.cc", "the operation of the node "},
    {"export.md", "inputs that are texts, and lookup tables",
     "muster/imports/internal/tensorflow_graph.cc", R"(the input \"{}\" of {} is texts)"},
    {"export.md", "`not supported: SavedModel: the operation of the node",
     "muster/imports/internal/tensorflow_graph.cc", "the operation of the node {} of {}"},
    {"export.md", "a layer that contains trees", "muster/imports/internal/tree_kernels.cc",
     "its trees are no operations of LibTorch"},
    {"export.md", "max pooling with dilations", "muster/savedmodel/internal/pool_operations.cc",
     "has windows with holes"},
    {"hooks.md", "`kRollBack` is refused with `not supported`", "muster/train/pace.cc",
     "NonFinitePolicy::kRollBack on parameter servers"},
    {"keras.md", "two models in one scope of several workers", "muster/loop/session.cc",
     "not supported: two models in one scope"},
    {"keras.md", "`class_weight` of a model with several outputs",
     "muster/keras/internal/objective.cc", "class_weight of a model with several outputs"},
    {"launchers.md", "`PMIX_RANK` alone is an error", "muster/cluster/mpi_cluster_source.cc",
     R"(PlaceVariable{"PMIX_RANK", Counts::kRank, true, own})"},
    {"launchers.md", "`--workers=MIN:MAX`, `--ps`", "muster/nodes/node_run.cc",
     "not supported: --workers=MIN:MAX with --nodes"},
    {"launchers.md", "`--tls` and `--dry-run` together with `--nodes`", "muster/nodes/node_run.cc",
     "--tls with --nodes is not supported"},
    {"launchers.md", "several slices of a TPU in one run", "muster/cluster/tpu_slice.cc",
     "not supported: one run on {} slices"},
    {"reliability.md", "`train_on_batch()` is `not supported` there", "muster/keras/model.cc",
     "impl_->require_joined("},
    {"reliability.md", "a worker that joins an elastic run with fit() number 1",
     "muster/loop/internal/loop_elastic.cc", "not supported: a worker that joins an elastic run"},
    {"reliability.md", "the audit of a run on parameter servers", "muster/train/train_replica.cc",
     "not supported: RunConfig.audit on parameter servers"},
    {"layers.md", "Keras's policy `\"bfloat16\"`, with bfloat16 weights",
     "muster/layers/mixed_precision.cc", R"(policy == "bfloat16" || policy == "mixed_bfloat16")"},
    {"libtorch.md", "the gradient of the variable weight is Sparse",
     "muster/distribute/internal/backward.cc", "not supported: the gradient of the variable {} is"},
    {"libtorch.md", "`not supported: backward() with create_graph`",
     "muster/parallel/internal/gradient_sync.cc", "not supported: backward() with create_graph"},
    {"libtorch.md",
     "`not supported: converting a BatchNorm that is not part of a torch::nn::Sequential`",
     "muster/parallel/sync_batch_norm.cc",
     "not supported: converting a BatchNorm that is not part"},
    {"libtorch.md", "`not supported: backward() with create_graph through a SyncBatchNorm`",
     "muster/parallel/sync_batch_norm.cc",
     "not supported: backward() with create_graph through a SyncBatchNorm"},
    {"libtorch.md", "`not supported: Autocast to float16 on cpu`", "muster/parallel/autocast.cc",
     "not supported: Autocast to {} on {}"},
    {"libtorch.md", "several replicas in one process of a Cluster", "muster/parallel/cluster.cc",
     "not supported: several replicas in one process of a Cluster"},
    {"libtorch.md", "These end with an error that says so", "muster/parallel/cluster.cc",
     "has no more data and has joined"},
    {"optimizers.md", "`LBFGS`, which computes the loss several", "muster/optim/torch_optimizer.cc",
     "not supported: torch::optim::LBFGS"},
    {"parameter_servers.md", "`gather()`, `all_gather()`, `assign()`, `fit()` in the scope",
     "muster/loop/internal/loop.cc", R"x(check_meets(first(), "gather()"))x"},
    {"parameter_servers.md", "`gather()`, `all_gather()`, `assign()`, `fit()` in the scope",
     "muster/loop/replica_context.cc", R"x(check_meets(replica_, "all_gather()"))x"},
    {"parameter_servers.md", "`gather()`, `all_gather()`, `assign()`, `fit()` in the scope",
     "muster/loop/internal/served_loop.cc", "Scope::assign() on parameter servers"},
    {"parameter_servers.md", "`gather()`, `all_gather()`, `assign()`, `fit()` in the scope",
     "muster/loop/session.cc", "not supported: fit() in a scope of "},
    {"parameter_servers.md", "`max_staleness` and `replicas_to_aggregate`",
     "muster/calls/cluster_coordinator.cc",
     "not supported: ParameterServerOptions.{} with a ClusterCoordinator"},
    {"parameter_servers.md", "`overlap`, because weights", "muster/calls/cluster_coordinator.cc",
     "not supported: ParameterServerOptions.overlap with a ClusterCoordinator"},
    {"parameter_servers.md", "and `stateful` layers", "muster/calls/internal/remote_replica.cc",
     "with a ClusterCoordinator: any worker may make the next call"},
    {"parameter_servers.md", "`NonFinitePolicy::kRollBack` is not supported",
     "muster/train/pace.cc", "NonFinitePolicy::kRollBack on parameter servers"},
    {"platforms.md", "a LibTorch with the old C++ ABI", "cmake/MusterTorchChecks.cmake",
     "not supported: the LibTorch in"},
    {"platforms.md", "a CUDA build without its toolkit", "cmake/MusterTorchChecks.cmake",
     "there is no CUDA toolkit (nvcc) here"},
    {"platforms.md", "a second one is refused with `not supported`", "muster/keras/internal/fit.cc",
     "a second fit() of a model"},
    {"tpu.md", "`tpu()` on a slice with several hosts", "muster/xla/xla_devices.cc",
     "chips, and {own} of them are its own"},
    {"tpu.md", "several slices in one run", "muster/cluster/tpu_slice.cc",
     "not supported: one run on {} slices"},
    {"tpu.md", "a TPU on another machine", "muster/tpu/tpu_resolver.cc",
     "not supported: the TPU at the address"},
};

fs::path source_tree() {
  const char* folder = std::getenv("MUSTER_SOURCE_DIR");
  return folder != nullptr ? folder : "";
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char letter : text) {
    const char space = letter == '\n' ? ' ' : letter;
    if (space != ' ' || !line.ends_with(' ')) line += space;
  }
  return line;
}

TEST(RefusalsTest, AreThoseOfTheCode) {
  for (const Refusal& refusal : kRefusals) {
    EXPECT_THAT(in_one_line(text_in(source_tree() / "docs" / refusal.document)),
                HasSubstr(refusal.sentence))
        << refusal.document;
    EXPECT_THAT(in_one_line(text_in(source_tree() / refusal.source)), HasSubstr(refusal.code))
        << refusal.source;
  }
}

// What a document says is not supported: a paragraph, a row or an item, and the list after it.
std::vector<std::string> limits_of(const std::string& text) {
  std::vector<std::string> found;
  for (const auto& part :
       docs::matches(text, R"((?i)\n([^\n]*\bnot supported\b[^\n]*(?:\n[^\n#]+|\n\n- [^\n]+)*))")) {
    if (!part[1].starts_with("#")) found.push_back(in_one_line(part[1]));
  }
  return found;
}

TEST(RefusalsTest, EveryLimitOfTheGuidesHasARow) {
  int limits = 0;
  for (const auto& entry : fs::directory_iterator(source_tree() / "docs")) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".md") || name == "style.md") continue;
    for (const std::string& limit : limits_of(text_in(entry.path()))) {
      ++limits;
      EXPECT_TRUE(std::any_of(std::begin(kRefusals), std::end(kRefusals),
                              [&](const Refusal& refusal) {
                                return name == refusal.document &&
                                       limit.find(refusal.sentence) != std::string::npos;
                              }))
          << name << ": no row in this test says what refuses it: " << limit.substr(0, 200);
    }
  }
  EXPECT_GE(limits, 10) << "the pattern finds nothing";
}

TEST(RefusalsTest, AHeadingIsNoLimit) {
  EXPECT_TRUE(limits_of("a\n\n## What is not supported\n\n| a | b |\n").empty());
  EXPECT_EQ(limits_of("a\n\n**Not supported:**\n\n- one;\n- two.\n\nand so on\n"),
            std::vector<std::string>{"**Not supported:** - one; - two."});
}

}  // namespace
}  // namespace muster
