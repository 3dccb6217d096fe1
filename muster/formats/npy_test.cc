#include "muster/formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "muster/base/file_system.h"
#include "muster/formats/internal/test_bytes.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A file of version `major` with this dict.
std::string npy(const std::string& dict, const std::string& data, int major = 1) {
  std::string file = std::string("\x93NUMPY", 6) + static_cast<char>(major) + '\0';
  if (major == 1) {
    append_little_endian(file, static_cast<uint16_t>(dict.size()));
  } else {
    append_little_endian(file, static_cast<uint32_t>(dict.size()));
  }
  return file + dict + data;
}

std::string dict(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

template <typename Number>
std::string bytes(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) append_little_endian(text, number);
  return text;
}

Result<NpyHeader> header_of(const std::string& file) {
  return read_npy_header(*memory_reader(bytes_of(file), "x.npy"));
}

// Header and data.
struct Array {
  NpyHeader header;
  std::string data{};
};
Result<Array> array_of(const std::string& file) {
  const auto reader = memory_reader(bytes_of(file), "x.npy");
  Result<NpyHeader> header = read_npy_header(*reader);
  if (!header.ok()) return header.error();
  Array array{header.value(), {}};
  if (array.header.is_text()) {
    Result<NpyTexts> texts = read_npy_texts(*reader, array.header);
    if (!texts.ok()) return texts.error();
    EXPECT_EQ(texts.value().offsets.size(), static_cast<size_t>(array.header.size()) + 1);
    array.data = texts.value().bytes;
    return array;
  }
  array.data.resize(array.header.data_bytes());
  Status read = read_npy_data(*reader, array.header, std::as_writable_bytes(std::span(array.data)));
  if (!read.ok()) return read.error();
  return array;
}

// The bytes that numpy 1.24 writes, for each version.
TEST(Npy, ReadsAndWritesTheBytesOfNumpy) {
  const std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (), }";
  const std::string file = std::string("\x93NUMPY\x01\x00v\x00", 10) + header +
                           std::string(128 - 10 - 1 - header.size(), ' ') + "\n" +
                           bytes<double>({3.0});
  const Array array = array_of(file).value();
  EXPECT_EQ(array.header.dtype(), "float64");
  EXPECT_TRUE(array.header.shape.empty());
  EXPECT_EQ(array.data, bytes<double>({3.0}));
  StringSink sink;
  write_npy(sink, array.header, bytes_of(array.data)).value();
  EXPECT_EQ(sink.content, file);

  const Array second = array_of(npy(dict("<u2", "(3,)"), bytes<uint16_t>({0, 1, 2}), 2)).value();
  EXPECT_EQ(second.header.dtype(), "uint16");
  EXPECT_EQ(second.data, bytes<uint16_t>({0, 1, 2}));
  EXPECT_EQ(array_of(npy(dict("<c8", "(1,)"), bytes<float>({1, 2}), 3)).value().header.dtype(),
            "complex64");
}

TEST(Npy, EveryTypeComesBackFromBothByteOrders) {
  for (const std::string type :
       {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}) {
    const size_t width = std::stoul(type.substr(1));
    const size_t swapped = type[0] == 'c' ? width / 2 : width;
    std::string little;
    for (size_t i = 0; i < 6 * width; ++i)
      little += static_cast<char>(type == "b1" ? i % 2 : i * 7);
    std::string big = little;
    for (size_t at = 0; at < big.size(); at += swapped) {
      std::reverse(big.begin() + static_cast<ptrdiff_t>(at),
                   big.begin() + static_cast<ptrdiff_t>(at + swapped));
    }
    const Array from_little = array_of(npy(dict("<" + type, "(2, 3)"), little)).value();
    const Array from_big = array_of(npy(dict(">" + type, "(2, 3)"), big)).value();
    EXPECT_EQ(from_little.data, little) << type;
    EXPECT_EQ(from_big.data, little) << type;
    StringSink sink;
    write_npy(sink, from_big.header, bytes_of(from_big.data)).value();
    EXPECT_EQ(sink.content.size() % 64, little.size() % 64);
    const Array back = array_of(sink.content).value();
    EXPECT_EQ(back.data, little) << type;
    EXPECT_EQ(back.header.dtype(), from_little.header.dtype());
    EXPECT_EQ(back.header.shape, (std::vector<int64_t>{2, 3}));
  }
}

// Element (i, j, k, ...) of the file is its own row-major index, so data must come out ascending.
TEST(Npy, FortranOrderBecomesRowMajor) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {5}, {3, 4}, {70, 33}, {1, 40}, {40, 1}, {2, 3, 4}, {33, 2, 3, 35}, {2, 1, 3, 1, 2}}) {
    const int64_t size =
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<int32_t> fortran;
    for (int64_t at = 0; at < size; ++at) {
      int64_t rest = at, index = 0;
      std::vector<int64_t> position;
      for (const int64_t axis : shape) {
        position.push_back(rest % axis);
        rest /= axis;
      }
      for (size_t axis = 0; axis < shape.size(); ++axis)
        index = index * shape[axis] + position[axis];
      fortran.push_back(static_cast<int32_t>(index));
    }
    std::vector<int32_t> ascending(static_cast<size_t>(size));
    std::iota(ascending.begin(), ascending.end(), 0);
    std::string text = "(";
    for (const int64_t axis : shape) text += std::to_string(axis) + ",";
    const Array array = array_of(npy(dict("<i4", text + ")", true), bytes(fortran))).value();
    EXPECT_EQ(array.data, bytes(ascending)) << text;
  }
}

TEST(Npy, StringsLoseTheirPaddingAndBecomeUtf8) {
  EXPECT_EQ(array_of(npy(dict("|S2", "(2,)"), std::string("abc\0", 4))).value().data, "abc");
  const std::string letters = bytes<uint32_t>({'a', 0, 'b', 0xe9, 0x4e0d, 0x1f600});
  EXPECT_EQ(array_of(npy(dict("<U2", "(3,)"), letters)).value().data, "ab\u00e9\u4e0d\U0001f600");
  const Array big = array_of(npy(dict(">U1", "(1,)"), std::string("\0\0\0\xe9", 4))).value();
  EXPECT_EQ(big.data, "\u00e9");
  EXPECT_EQ(big.header.dtype(), "U1");
  for (const uint32_t none : {0x110000u, 0xd800u, 0xffffffffu}) {
    const Error error = array_of(npy(dict("<U1", "(2,)"), bytes<uint32_t>({'a', none}))).error();
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("element 1"), HasSubstr(std::to_string(none))));
  }
}

TEST(Npy, OtherBytesThanZeroAndOneAreStillBools) {
  EXPECT_EQ(array_of(npy(dict("|b1", "(3,)"), std::string("\x00\x02\xff", 3))).value().data,
            std::string("\0\1\1", 3));
}

TEST(Npy, UnsupportedArraysSayWhatToSave) {
  const auto refused = [](const std::string& descr) {
    const Error error =
        header_of(npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }\n",
                      std::string(16, '\0')))
            .error();
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << descr;
    EXPECT_THAT(error.message(), StartsWith("not supported: 'x.npy'"));
    EXPECT_THAT(error.hint(), HasSubstr("numpy.save"));
    return error.message();
  };
  EXPECT_THAT(refused("'|O'"), HasSubstr("Python objects"));
  EXPECT_THAT(refused("'<M8[D]'"), HasSubstr("dates"));
  EXPECT_THAT(refused("[('a', '<i4'), ('b', '<f8')]"), HasSubstr("records"));
  EXPECT_THAT(refused("'<f16'"), HasSubstr("<f16"));
  EXPECT_THAT(refused("'<i3'"), HasSubstr("<i3"));
  EXPECT_THAT(refused("'|V8'"), HasSubstr("|V8"));
  EXPECT_THAT(refused("''"), HasSubstr("dtype ''"));
}

TEST(Npy, DamageSaysWhatIsWrong) {
  const auto message = [](const std::string& file) {
    const Error error = header_of(file).error();
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_NE(error.hint(), "");
    return error.message();
  };
  EXPECT_THAT(message(""), HasSubstr("it is empty"));
  EXPECT_THAT(message("<html>0123456789"), HasSubstr("starts with 3c 68 74 6d"));
  EXPECT_THAT(message(npy(dict("<i4", "(1,)"), "aaaa", 4)), HasSubstr("version 4.0"));
  EXPECT_THAT(message(npy(dict("<i4", "(2,)"), "aaaa")),
              AllOf(HasSubstr("cut short"), HasSubstr("8 bytes"), HasSubstr("4 found")));
  EXPECT_THAT(message(npy(dict("<i4", "(2,)"), "aaaabbbbc")), HasSubstr("too long"));
  EXPECT_THAT(message(npy(dict("<i4", "(4611686018427387904, 4)"), "")), HasSubstr("can be"));
  EXPECT_THAT(message(npy(dict("<i4", "(0, 9223372036854775807, 2)"), "")), HasSubstr("can be"));
  EXPECT_THAT(message(npy(dict("<f8", "(9223372036854775807,)"), "")), HasSubstr("can be"));
  EXPECT_THAT(message(npy(dict("|S0", "(1000000000000,)"), "")), HasSubstr("width 0"));
  EXPECT_THAT(message(npy(dict("<i4", "(99999999999999999999,)"), "")), HasSubstr("'shape'"));
  for (const char* shape : {"(-1,)", "3", "(3)", "(3 4)", "('a',)", "(3,"}) {
    EXPECT_THAT(message(npy(dict("<i4", shape), std::string(12, 'a'))), HasSubstr("'shape'"))
        << shape;
  }
  EXPECT_THAT(message(npy("{'descr': '<i4'}", "")), HasSubstr("lacks one of"));
  EXPECT_THAT(message(npy("{'descr': '<i4', 'descr': '<i4'}", "")), HasSubstr("twice"));
  EXPECT_THAT(message(npy("{'other': 1}", "")), HasSubstr("'other'"));
  EXPECT_THAT(message(npy(dict("<i4", "(1,)") + "x", "aaaa")), HasSubstr("after the dict"));
  // As Python 2 wrote it.
  EXPECT_TRUE(header_of(npy(dict("<i4", "(3L,)"), std::string(12, 'a'))).ok());
}

TEST(Npy, EveryPrefixAndFlippedBitGivesAnAnswer) {
  for (const std::string& whole :
       {npy(dict("<i4", "(2, 2)", true), bytes<int32_t>({1, 2, 3, 4})),
        npy(dict("<U2", "(2,)"), bytes<uint32_t>({'a', 0, 'b', 0xe9}), 2)}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto array = array_of(whole.substr(0, length));
      ASSERT_FALSE(array.ok()) << length;
      EXPECT_EQ(array.error().kind(), ErrorKind::kCorrupt);
    }
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      const auto array = array_of(damaged);
      if (array.ok() && !array.value().header.is_text()) {
        EXPECT_EQ(array.value().data.size(), array.value().header.data_bytes());
      }
    }
  }
}

TEST(Npy, RefusesToWriteWhatDoesNotFit) {
  StringSink sink;
  EXPECT_FALSE(write_npy(sink, {.item_bytes = 4, .shape = {3}}, bytes_of("abcd")).ok());
  EXPECT_FALSE(write_npy(sink, {.item_bytes = 4, .shape = {-1}}, bytes_of("")).ok());
  EXPECT_EQ(sink.content, "");
}

}  // namespace
}  // namespace muster::inline v0_1::formats
