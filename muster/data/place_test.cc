// Errors say which element they are about, wherever it came from, and which stage refused it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The message of the only error there is.
std::string error_in(Iterator& iterator) {
  std::vector<std::string> errors;
  while (true) {
    try {
      if (!iterator.next()) break;
    } catch (const Error& error) {
      errors.push_back(error.message());
    }
  }
  if (errors.size() != 1) return fmt::format("{} errors", errors.size());
  return errors.front();
}
std::string error_in(const Dataset& dataset) { return error_in(*dataset.iterator()); }

Dataset files_of(const Dataset& names) {
  return names.interleave(
      [](const Element& name) { return number_files({std::string(name.value().strings()[0])}); },
      {.cycle_length = 2});
}

Dataset three_names() {
  return Dataset::from_tensor_slices(Strings(std::vector<std::string>{"0-4", "10-14", "20-24"}));
}

TEST(Place, NamesFileAndElement) {
  EXPECT_THAT(error_in(failing_on(12, number_files({"0-4", "10-14"}))),
              StartsWith("map 'check' failed on element 2 of 10-14 (pass 0), int64[], in "));
  EXPECT_THAT(error_in(failing_on(12, number_files({"0-4", "10-14"}).shuffle(100).take(8))),
              StartsWith("map 'check' failed on element 2 of 10-14 (pass 0)"));
}

TEST(Place, NamesFileAndElementAfterInterleave) {
  const std::string expected =
      "map 'check' failed on element 3 of 20-24, in what interleave makes of source element 2 "
      "(pass "
      "0)";
  EXPECT_THAT(error_in(failing_on(23, files_of(three_names()))), StartsWith(expected));
  EXPECT_THAT(error_in(failing_on(23, files_of(three_names()).shuffle(5, {.seed = 3}))),
              StartsWith(expected));
}

TEST(Place, IsTheSameInARestoredIterator) {
  const Dataset dataset = failing_on(23, files_of(three_names()));
  const auto iterator = dataset.iterator();
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(iterator->next());
  const auto again = dataset.iterator();
  again->restore(iterator->save());
  EXPECT_THAT(error_in(*again), HasSubstr("element 3 of 20-24"));
  EXPECT_THAT(error_in(*iterator), HasSubstr("element 3 of 20-24"));
}

TEST(Place, NamesTheInputOfConcatenate) {
  const Dataset both = Dataset::range(0, 5).concatenate(Dataset::range(10, 15));
  EXPECT_THAT(error_in(failing_on(3, both)),
              HasSubstr("failed on source element 3, in input 0 of concatenate (pass 0)"));
  EXPECT_THAT(error_in(failing_on(13, both)),
              HasSubstr("failed on source element 3, in input 1 of concatenate (pass 0)"));
  const Dataset three =
      both.filter([](const Element&) { return true; }).concatenate(Dataset::range(20, 25));
  EXPECT_THAT(error_in(failing_on(13, three)), HasSubstr("source element 3, in input 1 of"));
  EXPECT_THAT(error_in(failing_on(23, three)), HasSubstr("source element 3, in input 2 of"));
  const auto itself = [](const Element& element) { return Dataset::from_tensors(element); };
  const Dataset made = both.flat_map(itself).concatenate(Dataset::range(20, 25));
  EXPECT_THAT(error_in(failing_on(23, made)), HasSubstr("source element 3, in input 1 of"));
  const Dataset right = Dataset::range(20, 25).concatenate(both);
  EXPECT_THAT(error_in(failing_on(13, right)),
              HasSubstr("source element 3, in input 1 of concatenate, in input 1 of concatenate"));
}

TEST(Place, OfFlatMapIsWhatItWasMadeOf) {
  const auto ten_times = [](const Element& element) {
    const int64_t begin = 10 * first_number(element);
    return Dataset::range(begin, begin + 10);
  };
  EXPECT_THAT(
      error_in(failing_on(34, Dataset::range(0, 5).flat_map(ten_times))),
      HasSubstr("failed on source element 4, in what flat_map makes of source element 3 (pass 0)"));
  const Dataset twice = Dataset::range(0, 2).flat_map(ten_times).flat_map(ten_times);
  EXPECT_THAT(
      error_in(failing_on(134, twice)),
      HasSubstr("failed on source element 4, in what flat_map makes of source element 3, in "
                "what flat_map makes of source element 1 (pass 0)"));
  const auto both = [&](const Element& element) {
    return Dataset::from_tensors(element).flat_map(ten_times);
  };
  for (const int64_t number : {3, 13}) {
    EXPECT_THAT(error_in(failing_on(number, Dataset::range(0, 2).flat_map(both))),
                HasSubstr(fmt::format("in what flat_map makes of source element 0, in what "
                                      "flat_map makes of source element {} (pass 0)",
                                      number / 10)));
  }
  const Dataset parts = Dataset::range(0, 3).flat_map([](const Element& element) {
    const int64_t begin = 4 * first_number(element);
    return Dataset::range(begin, begin + 2).concatenate(Dataset::range(begin + 2, begin + 4));
  });
  EXPECT_THAT(error_in(failing_on(7, parts)),
              HasSubstr("source element 1, in input 1 of concatenate, in what flat_map makes of "
                        "source element 1 (pass 0)"));
  // The place in the source, not in some reordered result.
  const Dataset shuffled = Dataset::range(0, 5).shuffle(5, {.seed = 7}).repeat(2).skip(5);
  EXPECT_THAT(error_in(failing_on(34, shuffled.flat_map(ten_times))),
              HasSubstr("in what flat_map makes of source element 3 "));
}

TEST(Place, OfBatches) {
  EXPECT_THAT(error_in(failing_on(6, Dataset::range(0, 10).batch(3))),
              HasSubstr("failed on the batch that begins at example 6 (pass 0), int64[3]"));
  const auto batches = [](const Element& name) {
    return number_files({std::string(name.value().strings()[0])}).batch(2);
  };
  EXPECT_THAT(error_in(failing_on(12, three_names().flat_map(batches))),
              HasSubstr("failed on the batch that begins at example 2 of 10-14, in what flat_map "
                        "makes of source element 1 (pass 0)"));
  EXPECT_THAT(error_in(failing_on(7, Dataset::range(0, 10).batch(3).unbatch())),
              HasSubstr("failed on example 7 (pass 0)"));
  EXPECT_THAT(error_in(failing_on(4, Dataset::range(0, 10).batch(3).rebatch({2}))),
              HasSubstr("failed on batch 2 (pass 0)"));
}

// A count of examples is none of the file's where a stage between changes it.
TEST(Place, OfBatchesNamesNoFileThatItDoesNotCountIn) {
  const auto all = [](const Element&) { return true; };
  const Dataset file = number_files({"0-10"});
  EXPECT_THAT(error_in(failing_on(6, file.take(8).batch(3))),
              HasSubstr("the batch that begins at example 6 of 0-10 (pass 0)"));
  EXPECT_THAT(error_in(failing_on(6, file.filter(all).batch(3))),
              HasSubstr("the batch that begins at example 6 (pass 0)"));
  EXPECT_THAT(error_in(failing_on(3, file.skip(3).batch(3))),
              HasSubstr("the batch that begins at example 0 (pass 0)"));
  EXPECT_THAT(error_in(failing_on(0, file.repeat(2).skip(10).batch(20))),
              HasSubstr("the batch that begins at example 0 (pass"));
  const auto again = [](const Element& element) { return Dataset::from_tensors(element); };
  EXPECT_THAT(error_in(failing_on(6, file.flat_map(again).batch(3))),
              HasSubstr("the batch that begins at example 6 (pass 0)"));
}

TEST(Place, OfRowsIsToldWhereABatchMadeThem) {
  EXPECT_THAT(error_in(failing_on(7, number_files({"0-10"}).batch(3).unbatch())),
              HasSubstr("failed on example 7 of 0-10 (pass 0)"));
  const Dataset pairs = Dataset::from_tensor_slices(torch::arange(10, at::kLong).view({5, 2}));
  EXPECT_THAT(error_in(failing_on(7, pairs.unbatch())), HasSubstr("failed on an element (pass 0)"));
  EXPECT_THAT(error_in(failing_on(7, Dataset::range(0, 10).batch(3).rebatch({2}).unbatch())),
              HasSubstr("failed on an element (pass 0)"));
}

// Elements that are kept do not keep the data set they came from.
TEST(Place, KeepsNoDataSet) {
  std::weak_ptr<const Source> source;
  const auto open = [&source](const Element&) {
    class Small final : public Source {
     public:
      std::string kind() const override { return "small"; }
      int64_t size() const override { return 2; }
      Element element(int64_t) const override { return Element(torch::ones({1})); }
    };
    const auto made = std::make_shared<const Small>();
    source = made;
    return Dataset::from_source(made);
  };
  const auto iterator = Dataset::range(0, 1).flat_map(open).cache().shuffle(10).iterator();
  ASSERT_TRUE(iterator->next());
  EXPECT_TRUE(source.expired());
}

TEST(Place, OfFilterAndZip) {
  const auto check = [](const Element& element) -> bool {
    if (first_number(element) == 12) throw std::runtime_error("not this one");
    return true;
  };
  const Dataset files = number_files({"0-4", "10-14"});
  EXPECT_THAT(error_in(files.filter(check)),
              HasSubstr("filter failed on element 2 of 10-14 (pass"));
  EXPECT_THAT(error_in(failing_on(12, Dataset::zip({files, Dataset::range(0, 8)}))),
              HasSubstr("failed on element 2 of 10-14, in input 0 of zip (pass"));
}

TEST(Place, IsUnknownAfterAFileOfACache) {
  const TempDirectory dir;
  const Dataset kept = files_of(three_names()).cache(dir / "kept");
  EXPECT_EQ(rest_of(*kept.iterator()).size(), 12U);
  EXPECT_THAT(error_in(failing_on(23, kept)), HasSubstr("failed on an element (pass 0)"));
}

TEST(Batch, NamesStageAndKeyOfWhatDoesNotFit) {
  const auto grow = [](const Element& element) {
    return Element::tuple({Element::dict({{"age", torch::ones({1})},
                                          {"words", torch::ones({first_number(element) + 1})}}),
                           torch::ones({})});
  };
  const std::string cause =
      "[0].words: cannot put element 0, float32[1], and element 1, float32[2], into one batch";
  for (const Dataset& rows : {Dataset::range(0, 4).map(grow), number_files({"0-4"}).map(grow),
                              Dataset::range(0, 4).map(grow, {.num_parallel_calls = 2}),
                              Dataset::range(0, 4).map(grow).cache()}) {
    const auto iterator = rows.batch(4).iterator();
    const Error error = error_of([&] { iterator->next(); });
    EXPECT_THAT(error.what(), HasSubstr(cause));
    EXPECT_THAT(error.message(), StartsWith("no batch that begins with "));
    EXPECT_THAT(error.message(), HasSubstr("> batch(4)"));
  }
  const auto padded =
      number_files({"0-4"}).map(grow).padded_batch(4, {.padded_shapes = {{-1}, {2}, {}}});
  EXPECT_THAT(error_in(padded), HasSubstr("> padded_batch(4)"));
  const auto padding = padded.iterator();
  std::optional<Element> batch;
  EXPECT_THAT(error_of([&] { batch = padding->next(); }).what(),
              HasSubstr("[0].words: padded_batch: row 2 has shape [3]"));
  EXPECT_THAT(error_in(number_files({"0-4"}).map(grow).skip(2).batch(2)),
              HasSubstr("that begins with element 2 of 0-4 (pass 0), in "));
  // The error of an element is reported unchanged.
  EXPECT_THAT(error_in(failing_on(2, number_files({"0-4"})).batch(4)),
              StartsWith("map 'check' failed on element 2 of 0-4"));
}

TEST(Batch, OfRowsThatDoNotFitNamesTheKey) {
  const auto of_width = [](int64_t width) {
    return Dataset::from_tensors(Element::dict({{"a", torch::ones({2, width})}}));
  };
  const auto iterator = of_width(3).concatenate(of_width(4)).rebatch({3}).iterator();
  const Error error = error_of([&] { iterator->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("a: cannot put rows of float32[2, 3] and of float32[1, 4]"));
}

TEST(Batch, PaddingThatIsNoValueOfTheDtypeIsRefused) {
  const Dataset bytes = Dataset::from_tensors(torch::zeros({2}, at::kByte));
  std::optional<Element> batch;
  for (const double wrong : {0.5, 300.0, -1.0, std::nan("")}) {
    const auto iterator =
        bytes.padded_batch(1, {.padded_shapes = {{3}}, .padding_values = {wrong}}).iterator();
    const Error error = error_of([&] { batch = iterator->next(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << wrong;
    EXPECT_THAT(error.what(), HasSubstr("is not uint8"));
  }
  const auto iterator =
      bytes.padded_batch(1, {.padded_shapes = {{3}}, .padding_values = {255}}).iterator();
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->value().tensor()[0][2].item<int64_t>(), 255);
  EXPECT_THROW((void)bytes.padded_batch(1, {.padded_shapes = {{-2}}}), Error);
}

// A map that leaves a tensor undefined fails like one that throws.
TEST(Place, OfAMapThatReturnsAnUndefinedTensor) {
  const auto forgets = [](const Element& element) {
    const bool bad = first_number(element) == 2;
    return Element::dict({{"x", element}, {"label", bad ? Element(Tensor()) : element}});
  };
  for (const Dataset& dataset :
       {number_files({"0-4"}).map(forgets, {.name = "parse"}),
        number_files({"0-4"}).map(forgets, {.name = "parse", .num_parallel_calls = 2}),
        Dataset::range(4).map(forgets, {.name = "parse"}),
        Dataset::range(4).map(forgets, {.name = "parse"}).batch(4)}) {
    const auto iterator = dataset.iterator();
    const Error error = error_of([&] {
      while (iterator->next()) {
      }
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("map 'parse' failed on "));
    EXPECT_THAT(error.what(), HasSubstr("element 2"));
    EXPECT_THAT(error.what(), HasSubstr("the value \"label\" it returned is an undefined tensor"));
  }
}

// The place of a file that does not open: the file, and the reason for opening it.
TEST(Place, OfAFileThatIsMissingInsideOfAnInterleave) {
  class Nameless final : public FileFormat {
   public:
    std::string kind() const override { return "nameless"; }
    std::unique_ptr<ElementReader> open(FileSystem&, const std::string&) const override {
      throw not_found("it is not there");
    }
  };
  const auto open = [](const Element& name) {
    return Dataset::from_files({std::string(name.value().strings()[0])},
                               std::make_shared<const Nameless>());
  };
  const Dataset names = Dataset::from_tensor_slices(Strings(std::vector<std::string>{"a.bin"}));
  for (const Dataset& dataset : {names.interleave(open), names.flat_map(open)}) {
    const auto iterator = dataset.iterator();
    const Error error = error_of([&] { iterator->next(); });
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("element 0 of a.bin"));
    EXPECT_THAT(error.what(), HasSubstr("makes of source element 0"));
    EXPECT_THAT(error.what(), HasSubstr("it is not there"));
  }
  const auto by_format = [](const Element& name) {
    return number_files({std::string(name.value().strings()[0])});
  };
  const Dataset missing = Dataset::from_tensor_slices(Strings(std::vector<std::string>{"missing"}));
  EXPECT_THAT(error_in(missing.interleave(by_format)),
              HasSubstr("there is no file missing; in what interleave makes of source element 0"));
}

TEST(Chains, OfTooManyStagesAreRefused) {
  const auto same = [](const Element& element) { return element; };
  for (const bool sequential : {false, true}) {
    Dataset chain = sequential ? number_files({"0-2"}) : Dataset::range(2);
    for (int stage = 1; stage < 1000; ++stage) chain = chain.map(same);
    EXPECT_EQ(rest_of(*chain.iterator()).size(), 2U);
    const Error error = error_of([&] { (void)chain.map(same); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("a pipeline may have 1000"));
    EXPECT_THAT(error.what(), HasSubstr("one function for map()"));
    EXPECT_LT(std::string(error.what()).size(), 600U);
  }
}

TEST(IgnoreErrors, EndsTheSearchAmongErrorsAlone) {
  const Dataset broken = Dataset::range(0, 100010).map([](const Element& element) -> Element {
    if (first_number(element) < 100001) throw std::runtime_error("broken");
    return element;
  });
  const auto iterator = broken.ignore_errors().iterator();
  std::optional<Element> element;
  EXPECT_THAT(error_of([&] { element = iterator->next(); }).what(),
              HasSubstr("100000 elements in a row cannot be read"));
  ASSERT_TRUE(element = iterator->next());
  EXPECT_EQ(first_number(*element), 100001);
}

// Errors counted in the pass before are not counted in this one, so that a restored iterator and
// the one it was saved from continue alike.
TEST(IgnoreErrors, CountsWithinAPass) {
  const Dataset broken = Dataset::range(0, 60001).map([](const Element& element) -> Element {
    if (first_number(element) > 0) throw std::runtime_error("broken");
    return element;
  });
  const Dataset turned = Dataset::range(0, 60001).map([](const Element& element) -> Element {
    if (first_number(element) < 60000) throw std::runtime_error("broken");
    return element;
  });
  EXPECT_EQ(rest_of(*broken.concatenate(turned).ignore_errors().iterator()).size(), 3U);
  EXPECT_EQ(rest_of(*broken.ignore_errors().concatenate(turned.ignore_errors()).iterator()).size(),
            2U);
}

TEST(Shuffle, OfIndicesThatNoMachineHoldsIsRefused) {
  const auto endless = Dataset::range(0, 10).repeat().shuffle(std::numeric_limits<int64_t>::max());
  const Error error = error_of([&] { (void)endless.iterator(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("would hold 9223372036854775807 elements"));
  // The window is no larger than the data.
  const auto all = Dataset::range(0, 10).shuffle(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(rest_of(*all.iterator()).size(), 10U);
}

TEST(Restore, SaysThatTheFilesAreOthers) {
  const auto iterator = number_files({"0-4", "10-14"}).iterator();
  ASSERT_TRUE(iterator->next());
  const auto other = number_files({"10-14", "0-4"}).iterator();
  EXPECT_THAT(error_of([&] { other->restore(iterator->save()); }).message(),
              HasSubstr("other files in numbers, or with the same in another order"));
  const auto more = number_files({"0-4", "10-14", "20-24"}).iterator();
  EXPECT_THAT(error_of([&] { more->restore(iterator->save()); }).message(),
              HasSubstr("saved with 2 files of numbers, and here are 3"));
}

// Equal names in several folders are distinguished, and so are the files of list_files(); all of
// them may have moved together.
TEST(Restore, FilesAreThoseTheyWere) {
  const TempDirectory dir;
  const auto make = [&](const std::string& name) {
    local_file_system().make_directories(dir / name.substr(0, name.rfind('/'))).value();
    local_file_system().write_atomically(dir / name, std::string("x\ny\n")).value();
    return dir / name;
  };
  const auto folders = [](const std::string& first, const std::string& second) {
    return number_files({first, second}).iterator();
  };
  const auto saved = folders("1/0-4", "2/0-4")->save();
  EXPECT_THROW(folders("2/0-4", "1/0-4")->restore(saved), Error);
  EXPECT_NO_THROW(folders("7/1/0-4", "7/2/0-4")->restore(saved));

  for (const char* name : {"a/1.txt", "a/2.txt", "b/1.txt", "b/2.txt", "c/1.txt", "c/3.txt"})
    make(name);
  const auto listed = [&](const std::string& folder) {
    return Dataset::list_files({dir / folder + "/*.txt"})
        .flat_map([](const Element& path) { return Dataset::from_tensors(path); })
        .iterator();
  };
  const auto position = listed("a")->save();
  EXPECT_NO_THROW(listed("b")->restore(position));
  EXPECT_THAT(error_of([&] { listed("c")->restore(position); }).message(),
              HasSubstr("other files"));
}

TEST(ListFiles, NamesThePatternThatCannotBeListed) {
  EXPECT_THAT(error_of([] { (void)Dataset::list_files({"nowhere://here/*.csv"}); }).message(),
              HasSubstr("nowhere://here/*.csv"));
}

}  // namespace
}  // namespace muster::inline v0_1
