#include "muster/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/checkpoint/read_tensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::files;
using ::testing::HasSubstr;
using testing::make_checkpoint;
using testing::overwrite;
using testing::same;

// The parts of a safetensors file, taken apart by its specification.
struct RawFile {
  nlohmann::json header;
  std::string data;
};
RawFile parse_raw(const std::string& content) {
  const auto length = load_little_endian<uint64_t>(content.data());
  return {nlohmann::json::parse(content.substr(8, length)), content.substr(8 + length)};
}
std::string render_raw(const RawFile& raw) {
  const std::string header = raw.header.dump();
  std::string out;
  append_little_endian<uint64_t>(out, header.size());
  return out + header + raw.data;
}

std::string crc_text(const std::string& bytes) {
  return fmt::format("crc32c:{:08x}", crc32c(bytes_of(bytes)));
}

// The bytes that the header digest covers, as checkpoint.h describes it.
std::string header_digest(const nlohmann::json& header) {
  std::string text = header["__metadata__"]["muster"].get<std::string>() + "\n";
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    text += fmt::format("{} {} [{}]\n", name, entry["dtype"].get<std::string>(),
                        fmt::join(entry["shape"].get<std::vector<int64_t>>(), ", "));
  }
  return crc_text(text);
}

TEST(ReadTensors, GivesWhatTheFileHoldsAndVerifiesIt) {
  TempDirectory directory;
  const Checkpoint saved = make_checkpoint(120);
  const std::string path = directory / "a.safetensors";
  write_checkpoint(files(), path, saved);
  const std::map<std::string, Tensor> read = read_tensors(files(), path);
  ASSERT_EQ(read.size(), saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) EXPECT_TRUE(read.at(name).equal(tensor)) << name;
  EXPECT_EQ(error_of([&] { read_tensors(files(), directory / "b.safetensors"); }).kind(),
            ErrorKind::kNotFound);
  std::string content = files().read_file(path).value();
  content.back() = static_cast<char>(content.back() ^ 1);
  overwrite(path, content);
  EXPECT_EQ(error_of([&] { read_tensors(files(), path); }).kind(), ErrorKind::kCorrupt);
}

TEST(Checkpoint, RoundTripsEveryDtypeAndShape) {
  TempDirectory directory;
  const Checkpoint saved = make_checkpoint(120);
  write_checkpoint(files(), directory / "a.safetensors", saved);
  const Checkpoint loaded = read_checkpoint(files(), directory / "a");
  EXPECT_TRUE(same(saved, loaded));
  EXPECT_EQ(loaded.tensors.count("global_step"), 0u);
  EXPECT_TRUE(loaded.tensors.at("dense/kernel").is_contiguous());
}

TEST(Checkpoint, StoresWhatIsNotContiguousOrWantsGradients) {
  TempDirectory directory;
  Checkpoint saved;
  saved.tensors["transposed"] = torch::arange(12, at::kFloat).reshape({3, 4}).t();
  saved.tensors["expanded"] = torch::tensor(3.5).expand({2, 3});
  saved.tensors["strided"] = torch::arange(10).slice(0, 1, 9, 3);
  saved.tensors["leaf"] = torch::ones({2}).requires_grad_();
  saved.tensors["negated"] = torch::_neg_view(torch::tensor({1.0f, -2.0f}));
  write_checkpoint(files(), directory / "a.safetensors", saved);
  const Checkpoint loaded = read_checkpoint(files(), directory / "a.safetensors");
  EXPECT_TRUE(same(saved, loaded));
  EXPECT_FALSE(loaded.tensors.at("leaf").requires_grad());
  EXPECT_EQ(loaded.tensors.at("strided")[2].item<int64_t>(), 7);
}

TEST(Checkpoint, FileIsWhatTheSafetensorsSpecificationSays) {
  TempDirectory directory;
  Checkpoint saved{.global_step = 41, .epoch = 2, .inputs = "{\"a\": [1]}", .notes = {{"k", "v"}}};
  const std::string nine = "123456789";
  saved.tensors["digits"] =
      torch::from_blob(const_cast<char*>(nine.data()), {9}, at::kByte).clone();
  saved.tensors["pair"] = torch::tensor({1.0f, -2.0f});
  write_checkpoint(files(), directory / "a.safetensors", saved);

  const RawFile raw = parse_raw(files().read_file(directory / "a.safetensors").value());
  const auto slice = [&](const char* name) {
    const auto offsets = raw.header[name]["data_offsets"];
    return raw.data.substr(offsets[0], offsets[1].get<size_t>() - offsets[0].get<size_t>());
  };
  EXPECT_EQ(raw.header["digits"]["dtype"], "U8");
  EXPECT_EQ(slice("digits"), nine);
  EXPECT_EQ(raw.header["pair"]["shape"], nlohmann::json({2}));
  EXPECT_EQ(load_little_endian<float>(slice("pair").data() + 4), -2.0f);
  EXPECT_EQ(raw.header["global_step"]["dtype"], "I64");
  EXPECT_EQ(raw.header["global_step"]["shape"], nlohmann::json::array());
  EXPECT_EQ(load_little_endian<int64_t>(slice("global_step").data()), 41);

  const auto& metadata = raw.header["__metadata__"];
  for (const auto& [key, value] : metadata.items()) EXPECT_TRUE(value.is_string()) << key;
  EXPECT_EQ(metadata["format"], "pt");
  const auto muster = nlohmann::json::parse(metadata["muster"].get<std::string>());
  EXPECT_EQ(muster["format_version"], 1);
  EXPECT_EQ(muster["global_step"], 41);
  EXPECT_EQ(muster["epoch"], 2);
  EXPECT_EQ(muster["inputs"], nlohmann::json({{"a", {1}}}));
  EXPECT_EQ(muster["notes"], nlohmann::json({{"k", "v"}}));
  EXPECT_EQ(muster["digests"]["digits"], "crc32c:e3069283");  // RFC 3720's check value
  EXPECT_EQ(muster["digests"]["pair"], crc_text(slice("pair")));
  EXPECT_EQ(metadata["muster_digest"], header_digest(raw.header));
}

TEST(Checkpoint, TensorsThatCannotBeStoredAreNamed) {
  TempDirectory directory;
  const std::string path = directory / "a.safetensors";
  const auto expect = [&](Checkpoint checkpoint, const std::string& message) {
    const Error error = error_of([&] { write_checkpoint(files(), path, checkpoint); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr(message));
    EXPECT_FALSE(files().exists(path).value());
  };
  expect({.tensors = {{"z", torch::zeros({2}, at::kComplexFloat)}}}, "'z'");
  expect({.tensors = {{"s", torch::eye(2).to_sparse()}}}, "'s'");
  expect({.tensors = {{"u", Tensor()}}}, "'u'");
  expect({.tensors = {{"global_step", torch::zeros({})}}}, "'global_step'");
  expect({.tensors = {{"__metadata__", torch::zeros({})}}}, "'__metadata__'");
  expect({.inputs = "{"}, "inputs");
}

// Invariant: after any flipped bit, loading says Corrupt or returns exactly the saved values.
TEST(Checkpoint, EveryFlippedBitIsFoundOrHarmless) {
  TempDirectory directory;
  const std::string path = directory / "a.safetensors";
  const Checkpoint saved = make_checkpoint(120);
  write_checkpoint(files(), path, saved);
  const std::string good = files().read_file(path).value();
  const size_t header_end = 8 + load_little_endian<uint64_t>(good.data());
  int found = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    overwrite(path, bad);
    try {
      ASSERT_TRUE(same(saved, read_checkpoint(files(), path))) << "byte " << at;
      ASSERT_LT(at, header_end) << "a flipped bit of a tensor went unseen";
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << "byte " << at << ": " << error.what();
      ASSERT_THAT(error.message(), HasSubstr(path));
      ++found;
    }
  }
  // Only the value of "format" may change unseen.
  EXPECT_GE(found, static_cast<int>(good.size()) - 40);
}

TEST(Checkpoint, DamagedTensorIsNamedWithBothDigests) {
  TempDirectory directory;
  const std::string path = directory / "a.safetensors";
  const std::string nine = "123456789";
  Checkpoint saved;
  saved.tensors["digits"] =
      torch::from_blob(const_cast<char*>(nine.data()), {9}, at::kByte).clone();
  write_checkpoint(files(), path, saved);
  std::string content = files().read_file(path).value();
  const size_t at = content.rfind(nine);
  ASSERT_NE(at, std::string::npos);
  content[at + 8] = '8';
  overwrite(path, content);
  const Error error = error_of([&] { read_checkpoint(files(), path); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr(path));
  EXPECT_THAT(error.message(), HasSubstr("'digits'"));
  EXPECT_THAT(error.message(), HasSubstr("crc32c:e3069283"));
  EXPECT_THAT(error.message(), HasSubstr(crc_text("123456788")));
}

TEST(Checkpoint, TensorsAreReadOneByOne) {
  TempDirectory directory;
  const std::string path = directory / "a.safetensors";
  const Checkpoint saved = make_checkpoint(3);
  write_checkpoint(files(), path, saved);
  std::string content = files().read_file(path).value();
  content.back() = static_cast<char>(content.back() ^ 1);  // the last tensor's
  overwrite(path, content);

  const auto reader = open_checkpoint(files(), directory / "a");
  EXPECT_EQ(reader->header().global_step, 3);
  EXPECT_EQ(reader->header().notes, saved.notes);
  EXPECT_TRUE(reader->header().tensors.empty());
  const std::vector<std::string> names = reader->names();
  EXPECT_EQ(names.size(), saved.tensors.size() + 1);
  for (const std::string& name : names) {
    if (name == names.back()) {
      EXPECT_EQ(error_of([&] { reader->read(name); }).kind(), ErrorKind::kCorrupt);
    } else if (name == "global_step") {
      EXPECT_EQ(reader->read(name).item<int64_t>(), 3);
    } else {
      EXPECT_TRUE(reader->read(name).equal(saved.tensors.at(name))) << name;
    }
  }
  const Error none = error_of([&] { reader->read("none"); });
  EXPECT_EQ(none.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(none.hint(), ::testing::StartsWith("it has '"));
  EXPECT_EQ(error_of([&] { reader->read("globalstep"); }).hint(), "did you mean 'global_step'?");
}

TEST(Checkpoint, EveryTruncationIsCorrupt) {
  TempDirectory directory;
  const std::string path = directory / "a.safetensors";
  write_checkpoint(files(), path, make_checkpoint(3));
  const std::string good = files().read_file(path).value();
  for (size_t length = 0; length < good.size(); ++length) {
    overwrite(path, good.substr(0, length));
    const Error error = error_of([&] { read_checkpoint(files(), path); });
    ASSERT_EQ(error.kind(), ErrorKind::kCorrupt) << "length " << length << ": " << error.what();
  }
  overwrite(path, good + "x");
  EXPECT_EQ(error_of([&] { read_checkpoint(files(), path); }).kind(), ErrorKind::kCorrupt);
}

TEST(Checkpoint, FilesOfOthersAreRefusedWithAReason) {
  TempDirectory directory;
  const std::string path = directory / "model.ckpt-5.safetensors";
  EXPECT_EQ(error_of([&] { read_checkpoint(files(), path); }).kind(), ErrorKind::kNotFound);

  write_checkpoint(files(), path, make_checkpoint(5));
  RawFile raw = parse_raw(files().read_file(path).value());
  const RawFile good = raw;
  // The test's own rendering is readable: the following ones fail for their own reasons.
  overwrite(path, render_raw(good));
  EXPECT_TRUE(same(make_checkpoint(5), read_checkpoint(files(), path)));

  auto muster = nlohmann::json::parse(raw.header["__metadata__"]["muster"].get<std::string>());
  muster["format_version"] = 2;
  raw.header["__metadata__"]["muster"] = muster.dump();
  raw.header["__metadata__"]["muster_digest"] = header_digest(raw.header);
  overwrite(path, render_raw(raw));
  Error error = error_of([&] { read_checkpoint(files(), path); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("format_version 2"));

  raw = good;
  raw.header.erase("__metadata__");
  overwrite(path, render_raw(raw));
  error = error_of([&] { read_checkpoint(files(), path); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("metadata"));

  files().remove(path).value();
  overwrite(directory / "model.ckpt-5-00001-of-00002.safetensors", "x");
  error = error_of([&] { read_checkpoint(files(), directory / "model.ckpt-5"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("not supported: sharded checkpoint"));

  overwrite(directory / "model.ckpt-6.index", "x");
  error = error_of([&] { read_checkpoint(files(), directory / "model.ckpt-6"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("TensorFlow"));
}

TEST(Checkpoint, NamesAndSteps) {
  EXPECT_EQ(checkpoint_step("model.ckpt-120"), 120);
  EXPECT_EQ(checkpoint_step("/a-7/model.ckpt-0.safetensors"), 0);
  EXPECT_EQ(checkpoint_step("model.ckpt-5-00001-of-00002.safetensors"), -1);
  EXPECT_EQ(checkpoint_step("model.ckpt-"), -1);
  EXPECT_EQ(checkpoint_step("model.ckpt-+5"), -1);
  EXPECT_EQ(checkpoint_step("model.ckpt-05"), -1);
  EXPECT_EQ(checkpoint_step("other-5"), -1);
  EXPECT_EQ(checkpoint_step("model.ckpt-99999999999999999999"), -1);
  EXPECT_EQ(checkpoint_file("a/model.ckpt-1"), "a/model.ckpt-1.safetensors");
  EXPECT_EQ(checkpoint_file("a/model.ckpt-1.safetensors"), "a/model.ckpt-1.safetensors");
}

TEST(Compatibility, ListsEveryDifferenceInOneError) {
  Checkpoint checkpoint;
  checkpoint.tensors["same"] = torch::zeros({2, 3});
  checkpoint.tensors["kernel"] = torch::zeros({784, 10});
  checkpoint.tensors["old"] = torch::zeros({4}, at::kLong);
  checkpoint.tensors["count"] = torch::zeros({}, at::kInt);
  const Compatibility found = compare(
      {{"same", {{2, 3}}}, {"kernel", {{784, 20}}}, {"bias", {{20}}}, {"count", {{}, kInt64}}},
      checkpoint, "run/model.ckpt-7");
  EXPECT_FALSE(found.ok());
  const Error error = error_of([&] { found.throw_if_incompatible(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(
      error.message(),
      "the checkpoint run/model.ckpt-7 does not fit this model: 1 missing, 1 extra, 1 reshaped, 1 "
      "of another dtype\n"
      "missing bias: the model needs float32[20], the checkpoint has none\n"
      "extra old: the checkpoint has int64[4], the model does not know it\n"
      "reshaped kernel: the model needs float32[784, 20], the checkpoint has float32[784, 10]\n"
      "other dtype count: the model needs int64[], the checkpoint has int32[]");
  EXPECT_THAT(error.hint(), HasSubstr("new model_dir"));
}

TEST(Compatibility, FittingModelPasses) {
  Checkpoint checkpoint;
  checkpoint.tensors["a"] = torch::zeros({2});
  const Compatibility found = compare({{"a", {{2}}}}, checkpoint, "x");
  EXPECT_TRUE(found.ok());
  EXPECT_EQ(found.describe(), "");
  EXPECT_NO_THROW(found.throw_if_incompatible());
}

}  // namespace
}  // namespace muster::inline v0_1
