#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <string_view>

#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/data/internal/csv_testing.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using CsvWriterTest = CsvFiles;

// Rows of every kind of value, as bits.
Element random_rows(Random& random, int64_t count) {
  Tensor single = torch::empty({count}), wide = torch::empty({count}, at::kDouble);
  Tensor whole = torch::empty({count}, at::kLong);
  std::vector<std::string> names;
  constexpr std::string_view kLetters = "ab,\"\n\r ;\xc3\xa9";
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<float>(random.next_u32());
    single.data_ptr<float>()[i] = std::isnan(bits) ? 0.25f : bits;
    const auto wide_bits = std::bit_cast<double>(random.next_u64());
    wide.data_ptr<double>()[i] = std::isnan(wide_bits) ? 0.1 : wide_bits;
    whole.data_ptr<int64_t>()[i] = static_cast<int64_t>(random.next_u64());
    names.emplace_back();
    for (uint64_t k = random.uniform_below(9); k > 0; --k) {
      names.back() += kLetters[random.uniform_below(kLetters.size())];
    }
  }
  return Element::dict({{"single", single},
                        {"wide", wide},
                        {"whole", whole},
                        {"the, \"name\"", Value(Strings(names))}});
}

TEST_F(CsvWriterTest, WrittenValuesAreReadBackToTheLastBit) {
  Random random(derive_key(11, {}));
  const CsvOptions options{.columns = {{"single"},
                                       {"wide", CsvKind::kFloat64},
                                       {"whole", CsvKind::kInt64},
                                       {"the, \"name\"", CsvKind::kString}},
                           .na_values = {}};
  for (int round = 0; round < 5; ++round) {
    const Element rows = random_rows(random, 500);
    CsvWriter writer(dir_ / "w.csv", {.delimiter = round % 2 == 0 ? ',' : ';'});
    writer.write(rows.slice(0, 200));
    writer.write(rows.slice(200, 500));
    writer.commit();
    CsvOptions read = options;
    read.delimiter = round % 2 == 0 ? ',' : ';';
    const Element back = read_all(dir_ / "w.csv", read);
    EXPECT_EQ(back.describe(), rows.describe());
    for (const char* key : {"single", "wide", "whole"}) {
      EXPECT_TRUE(torch::equal(back.at(key).value().tensor(), rows.at(key).value().tensor()))
          << key;
    }
    EXPECT_EQ(texts(back.at("the, \"name\"").value()), texts(rows.at("the, \"name\"").value()));
  }
}

TEST_F(CsvWriterTest, WritesFeaturesAndLabelsAndSingleRows) {
  CsvWriter writer(dir_ / "w.csv");
  EXPECT_EQ(error_of([&] { writer.commit(); }).kind(), ErrorKind::kInvalidArgument);
  const Element features =
      Element::dict({{"b", torch::tensor({1.5f, 0.1f})}, {"a", torch::tensor({true, false})}});
  writer.write(Element::tuple({features, torch::tensor({3, 4}, at::kInt)}));
  writer.write(Element::tuple({Element::dict({{"a", torch::scalar_tensor(true, at::kBool)},
                                              {"b", torch::scalar_tensor(kNoNumber)}}),
                               torch::scalar_tensor(5, at::kLong)}));
  EXPECT_THAT(error_of([&] { writer.write(features); }).message(),
              AllOf(HasSubstr("'a', 'b'"), HasSubstr("'a', 'b', 'label'")));
  EXPECT_THAT(error_of([&] {
                writer.write(Element::tuple(
                    {Element::dict({{"a", torch::zeros({2, 3})}, {"b", torch::zeros({2})}}),
                     torch::zeros({2})}));
              }).message(),
              HasSubstr("'a' is float32[2, 3]"));
  writer.commit();
  EXPECT_EQ(local_file_system().read_file(dir_ / "w.csv").value(),
            "a,b,label\n1,1.5,3\n0,0.1,4\n1,nan,5\n");
  { CsvWriter unfinished(dir_ / "u.csv"); }
  EXPECT_FALSE(local_file_system().exists(dir_ / "u.csv").value());
}

}  // namespace
}  // namespace muster::inline v0_1::data
