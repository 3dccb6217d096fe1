#include "muster/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/numpy_input_fn.h"
#include "muster/formats/npy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// numpy.savez_compressed(x=numpy.arange(6, dtype="<f4").reshape(2, 3),
//                        names=numpy.array(["a", "b\u00e9"])).
constexpr std::string_view kDeflated =
    "504b0304140000000800000021004fe9002a550000009800000005001400782e6e70790100100098000000000000"
    "0055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f"
    "5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc0"
    "0100504b0304140000000800000021002f1189144d00000090000000090014006e616d65732e6e70790100100090"
    "000000000000004d000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e136aa4aea3a09e965f"
    "54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a1400ae4406084802e297400c00"
    "504b01021403140000000800000021004fe9002a5500000098000000050000000000000000000000800100000000"
    "782e6e7079504b01021403140000000800000021002f1189144d0000009000000009000000000000000000000080"
    "018c0000006e616d65732e6e7079504b050600000000020002006a000000140100000000";

std::string write_archive(const TempDirectory& dir) {
  std::string bytes;
  for (size_t at = 0; at < kDeflated.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(std::string(kDeflated.substr(at, 2)), nullptr, 16));
  }
  local_file_system().write_atomically(dir / "a.npz", bytes_of(bytes)).value();
  return dir / "a.npz";
}

void write_unsigned(const std::string& path, uint64_t item_bytes, uint64_t last) {
  std::string data;
  for (const uint64_t number : {uint64_t{0}, uint64_t{7}, last}) {
    std::string bytes;
    append_little_endian(bytes, number);
    data += bytes.substr(0, item_bytes);
  }
  const auto file = local_file_system().open_staged(path).value();
  formats::write_npy(*file,
                     {.kind = formats::NpyKind::kUint, .item_bytes = item_bytes, .shape = {3}},
                     bytes_of(data))
      .value();
  file->commit().value();
}

TEST(Npy, EveryDtypeComesBack) {
  const TempDirectory dir;
  for (const DType dtype :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kFloat,
        at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const Tensor tensor = torch::arange(12).remainder(5).to(dtype).view({3, 4}).t();
    save_npy(dir / "a.npy", tensor);
    const Tensor back = load_npy(dir / "a.npy");
    EXPECT_EQ(back.scalar_type(), dtype);
    EXPECT_TRUE(torch::equal(back, tensor.contiguous())) << dtype_name(dtype);
  }
  save_npy(dir / "scalar.npy", torch::scalar_tensor(2.5));
  EXPECT_EQ(load_npy(dir / "scalar.npy").item<float>(), 2.5f);
  save_npy(dir / "none.npy", torch::zeros({0, 3}));
  EXPECT_EQ(describe(load_npy(dir / "none.npy")), "float32[0, 3]");
  EXPECT_THAT(
      error_of([&] { save_npy(dir / "b.npy", torch::zeros({1}, at::kBFloat16)); }).message(),
      HasSubstr("NumPy has no bfloat16"));
  EXPECT_EQ(error_of([&] { load_npy(dir / "b.npy"); }).kind(), ErrorKind::kNotFound);
}

TEST(Npy, UnsignedNumbersBecomeWiderOnes) {
  const TempDirectory dir;
  write_unsigned(dir / "2.npy", 2, 65535);
  EXPECT_TRUE(torch::equal(load_npy(dir / "2.npy"), torch::tensor({0, 7, 65535}, at::kInt)));
  write_unsigned(dir / "4.npy", 4, 4294967295);
  EXPECT_TRUE(torch::equal(load_npy(dir / "4.npy"),
                           torch::tensor({int64_t{0}, int64_t{7}, int64_t{4294967295}})));
  write_unsigned(dir / "8.npy", 8, INT64_MAX);
  EXPECT_EQ(load_npy(dir / "8.npy")[2].item<int64_t>(), INT64_MAX);
  write_unsigned(dir / "9.npy", 8, uint64_t{INT64_MAX} + 1);
  EXPECT_THAT(error_of([&] { load_npy(dir / "9.npy"); }).message(),
              AllOf(HasSubstr("element 2 is 9223372036854775808"), HasSubstr("9.npy")));
}

TEST(Npz, GivesADictOfArraysAndStrings) {
  const TempDirectory dir;
  const Element arrays = load_npz(write_archive(dir));
  EXPECT_EQ(arrays.describe(), "{names: string[2], x: float32[2, 3]}");
  EXPECT_EQ(arrays.at("names").value().strings()[1], "b\u00e9");
  EXPECT_TRUE(
      torch::equal(arrays.at("x").value().tensor(), torch::arange(6).to(at::kFloat).view({2, 3})));
  local_file_system().write_atomically(dir / "no.npz", "PK").value();
  EXPECT_EQ(error_of([&] { load_npz(dir / "no.npz"); }).kind(), ErrorKind::kCorrupt);
}

TEST(Npz, IsAnInputFunction) {
  const TempDirectory dir;
  const std::string path = write_archive(dir);
  const auto input_fn = numpy_input_fn(path, "x", {.batch_size = 2, .shuffle = false});
  std::optional<Element> batch;
  ASSERT_TRUE(batch = input_fn().iterator()->next());
  EXPECT_EQ(batch->describe(), "({names: string[2]}, float32[2, 3])");
  const auto features = numpy_input_fn(path, std::nullopt, {.batch_size = 1, .shuffle = false});
  ASSERT_TRUE(batch = features().iterator()->next());
  EXPECT_EQ(batch->describe(), "{names: string[1], x: float32[1, 3]}");
  const Error error = error_of([&] { numpy_input_fn(path, "label", {.shuffle = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("\"label\""), HasSubstr("names: string[2]")));
  EXPECT_EQ(error.hint(), "name one of them as the label");
  EXPECT_EQ(error_of([&] { numpy_input_fn(path, "name", {.shuffle = true}); }).hint(),
            "did you mean 'names'?");
}

// Files of other writers, in both byte orders and both orders of axes.
TEST(RealFiles, Npy) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (data == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  const std::string folder = join_path(data, "npy");
  const auto load = [&](const std::string& name) { return load_npy(join_path(folder, name)); };
  for (const std::string order : {"le", "be"}) {
    EXPECT_TRUE(
        torch::equal(load("int." + order + ".npy"), torch::tensor({3, 4, 5, 6, 7}, at::kInt)));
    for (const std::string layout : {"", "_fortran"}) {
      EXPECT_TRUE(torch::equal(load("unsignedlong" + layout + "." + order + ".npy"),
                               torch::tensor({12, 14, 16, 18, 1234321}, at::kLong)));
      const Tensor numbers = load("double" + layout + "." + order + ".npy");
      EXPECT_EQ(describe(numbers), "float64[3, 3, 3]");
      // As numpy 1.24 reads them.
      EXPECT_EQ(numbers.flatten()[0].item<double>(), 0.29731722517856973);
      EXPECT_EQ(numbers.flatten()[1].item<double>(), 0.04380156762013887);
      EXPECT_EQ(numbers[1][1][0].item<double>(), 0.255067649901883);
      const Tensor bools = load("bool" + layout + "." + order + ".npy").flatten();
      EXPECT_TRUE(torch::equal(bools.narrow(0, 0, 8),
                               torch::tensor({0, 0, 1, 1, 1, 0, 1, 0}, at::kLong).to(at::kBool)));
    }
  }
  for (const std::string& name : local_file_system().list_directory(folder).value()) {
    if (name.find("objarr") == std::string::npos) continue;
    const Error error = error_of([&] {
      if (name.ends_with(".npz")) {
        load_npz(join_path(folder, name));
      } else {
        load(name);
      }
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(),
                AllOf(StartsWith("not supported: "), HasSubstr(name), HasSubstr("Python objects")));
    EXPECT_THAT(error.hint(), HasSubstr("numpy.save"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::data
