#include "muster/formats/torch_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/safetensors.h"
#include "muster/formats/torch_state_dict.h"
#include "muster/formats/zip.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts from `first` on, float32.
std::string floats(size_t count, float first) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) append_little_endian(bytes, first + static_cast<float>(i));
  return bytes;
}

class TorchExportTest : public ::testing::Test {
 protected:
  void add(const std::string& name, std::vector<int64_t> shape, float first = 0) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    data_[name] = {std::move(shape), floats(count, first), "F32"};
  }
  // The counter that every optimizer has.
  void add_counter(const std::string& name) { data_[name] = {{}, std::string(8, '\0'), "I64"}; }

  Result<std::vector<TorchExported>> exported(const SafetensorsMetadata& metadata = {}) {
    std::vector<TensorView> views;
    for (const auto& [name, array] : data_)
      views.push_back({name, array.dtype, array.shape, bytes_of(array.bytes)});
    auto sink = local_file_system().open_staged(path("c.safetensors")).value();
    write_safetensors(*sink, views, metadata).value();
    sink->commit().value();
    return export_torch(local_file_system(), path("c.safetensors"), path("out.pt"));
  }
  std::string path(const std::string& name) const { return directory_ / name; }
  // The bytes of an entry of the archive that was written, which must lie at a multiple of 64.
  std::string entry(const std::string& name) const {
    const ZipReader zip =
        ZipReader::open(local_file_system().open_reader(path("out.pt")).value()).value();
    for (const ZipEntry& entry : zip.entries()) {
      if (entry.name != "archive/" + name) continue;
      const std::string content = zip.read(entry).value();
      const std::string file = local_file_system().read_file(path("out.pt")).value();
      const auto extra = load_little_endian<uint16_t>(file.data() + entry.offset + 28);
      const size_t begin = entry.offset + 30 + entry.name.size() + extra;
      EXPECT_EQ(begin % 64, 0u) << name;
      EXPECT_EQ(file.substr(begin, content.size()), content) << name;
      return content;
    }
    throw std::out_of_range(name);
  }

  struct Array {
    std::vector<int64_t> shape{};
    std::string bytes{};
    std::string dtype{};
  };
  TempDirectory directory_;
  std::map<std::string, Array> data_;
};

std::string text_of_row(const TorchExported& tensor) {
  std::string text = tensor.name + " -> " + tensor.torch_name + " [";
  for (const int64_t size : tensor.shape) text += std::to_string(size) + ",";
  return text + (tensor.transposed ? "] transposed" : "]");
}

std::vector<std::string> rows(const std::vector<TorchExported>& tensors) {
  std::vector<std::string> all;
  for (const TorchExported& tensor : tensors) all.push_back(text_of_row(tensor));
  return all;
}

TEST_F(TorchExportTest, NamesAndLayoutsAreThoseOfPyTorch) {
  add("net/dense/kernel", {2, 3});
  add("net/dense/bias", {3});
  add("net/conv2d/kernel", {2, 2, 3, 4});
  add("net/norm/gamma", {4});
  add("net/norm/moving_variance", {4});
  add("net/norm/moving_variance/replicas", {2, 4});
  add("net/words/embeddings", {5, 2});
  add("net/lstm/kernel", {2, 4});
  add("net/lstm/recurrent_kernel", {1, 4});
  add("net/attention/query/kernel", {2, 1, 2});
  add("net/fc/weight", {3, 2});
  add_counter("Adam/iterations");
  add("Adam/m/net/dense/kernel", {2, 3});
  add_counter("global_step");
  EXPECT_THAT(
      rows(exported().value()),
      ElementsAre(
          "net/attention/query/kernel -> attention.query.kernel [2,1,2,]",
          "net/conv2d/kernel -> conv2d.weight [4,3,2,2,] transposed",
          "net/dense/bias -> dense.bias [3,]", "net/dense/kernel -> dense.weight [3,2,] transposed",
          "net/fc/weight -> fc.weight [3,2,]", "net/lstm/kernel -> lstm.kernel [2,4,]",
          "net/lstm/recurrent_kernel -> lstm.recurrent_kernel [1,4,]",
          "net/norm/gamma -> norm.weight [4,]", "net/norm/moving_variance -> norm.running_var [4,]",
          "net/words/embeddings -> words.weight [5,2,]"));
  std::string kernel;
  for (const float value : {0, 3, 1, 4, 2, 5}) append_little_endian(kernel, value);
  EXPECT_EQ(entry("data/3"), kernel);
  // Element [o][i][h][w] was [h][w][i][o].
  const std::string conv = entry("data/1");
  for (int o = 0; o < 4; ++o) {
    for (int i = 0; i < 3; ++i) {
      for (int f = 0; f < 4; ++f) {
        const auto at = static_cast<size_t>((o * 3 + i) * 4 + f) * sizeof(float);
        EXPECT_EQ(load_little_endian<float>(conv.data() + at),
                  static_cast<float>((f * 3 + i) * 4 + o));
      }
    }
  }
  EXPECT_EQ(entry("version"), "3\n");
}

TEST_F(TorchExportTest, OnlyAPartThatAllNamesHaveIsTakenAway) {
  add("words/embeddings", {2, 2});
  add("judge/bias", {2});
  EXPECT_THAT(rows(exported().value()), ElementsAre("judge/bias -> judge.bias [2,]",
                                                    "words/embeddings -> words.weight [2,2,]"));
  data_.clear();
  add("weight", {2});
  EXPECT_THAT(rows(exported().value()), ElementsAre("weight -> weight [2,]"));
}

TEST_F(TorchExportTest, CheckpointsThatCannotBeExportedAreReported) {
  EXPECT_EQ(
      export_torch(local_file_system(), path("none.safetensors"), path("out.pt")).error().kind(),
      ErrorKind::kNotFound);
  add_counter("global_step");
  EXPECT_THAT(exported().error().message(), HasSubstr("holds no variable"));
  add("net/norm/gamma", {2});
  add("net/norm/weight", {2});
  EXPECT_THAT(exported().error().message(),
              AllOf(HasSubstr("'net/norm/gamma' and 'net/norm/weight' of"),
                    HasSubstr("would both be 'norm.weight' in PyTorch")));
  data_.erase("net/norm/weight");
  const nlohmann::json about{{"digests", {{"net/norm/gamma", "crc32c:00000000"}}}};
  const Error damaged = exported({{"muster", about.dump()}}).error();
  EXPECT_EQ(damaged.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(damaged.message(), HasSubstr("the tensor 'net/norm/gamma' is damaged"));
  data_["net/norm/gamma"] = {{2}, std::string(2, '\0'), "F8_E4M3"};
  EXPECT_THAT(exported().error().message(), HasSubstr("the dtype F8_E4M3, for which PyTorch"));
  // Nothing of the failed export exists.
  EXPECT_FALSE(local_file_system().exists(path("out.pt")).value());
}

TEST_F(TorchExportTest, AStateDictOfOtherThanItsShapeOrWithANameTwiceIsRefused) {
  auto sink = local_file_system().open_staged(path("out.pt")).value();
  const std::string bytes(8, '\0');
  const TensorView good{"a", "F32", {2}, bytes_of(bytes)};
  const TensorView wide{"b", "F32", {3}, bytes_of(bytes)};
  EXPECT_THAT(write_torch_state_dict(*sink, std::vector{good, good}).error().message(),
              HasSubstr("\"a\" is given twice"));
  EXPECT_THAT(write_torch_state_dict(*sink, std::vector{good, wide}).error().message(),
              HasSubstr("the data of \"b\" have 8 bytes"));
}

// PyTorch's own result for such a file, with a module of its own.
TEST_F(TorchExportTest, PythonLoadsIt) {
  if (std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") != 0)
    GTEST_SKIP() << "needs PyTorch: install python3-torch";
  add("net/dense/kernel", {2, 3}, 1);
  add("net/dense/bias", {3}, 10);
  add("net/scale", {}, 5);
  data_["net/norm/num_batches_tracked"] = {{}, std::string("\x07\0\0\0\0\0\0\0", 8), "I64"};
  data_["net/half"] = {{2}, std::string("\0\x3c\0\x40", 4), "F16"};
  data_["net/empty"] = {{0, 4}, "", "F32"};
  exported().value();
  const std::string script = path("check.py");
  local_file_system()
      .write_atomically(script, std::string_view(R"(
import sys, torch
state = torch.load(sys.argv[1])
dense = torch.nn.Linear(2, 3)
dense.load_state_dict({k[len("dense."):]: v for k, v in state.items() if k.startswith("dense.")})
out = dense(torch.tensor([[1.0, 10.0]]))
assert torch.equal(out, torch.tensor([[1 + 40 + 10.0, 2 + 50 + 11.0, 3 + 60 + 12.0]])), out
assert state["scale"].item() == 5 and state["scale"].shape == ()
assert state["norm.num_batches_tracked"].item() == 7
assert state["norm.num_batches_tracked"].dtype == torch.int64
assert state["half"].tolist() == [1, 2] and state["half"].dtype == torch.float16
assert state["empty"].shape == (0, 4)
assert len(state) == 6, state.keys()
state["scale"].add_(1)
)"))
      .value();
  EXPECT_EQ(std::system(("/usr/bin/python3 " + script + " " + path("out.pt")).c_str()), 0);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
