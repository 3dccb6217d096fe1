// The law of sources that fail: a file that does not open, or cannot be read to its end, is an
// error of the pipeline, whatever stands after it; nothing ends early without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/data/csv.h"
#include "muster/data/distribute.h"
#include "muster/data/internal/node.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/data/text_lines.h"
#include "muster/data/tfrecord.h"
#include "muster/formats/gzip.h"
#include "muster/formats/tfrecord.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct Stage {
  std::string name{};
  std::function<Dataset(const Dataset&)> of{};  // scalars from scalars
};

Element total(const Element& x) { return Element(x.value().tensor().sum()); }
bool always(const Element&) { return true; }
bool never(const Element&) { return false; }

// Every call that may stand after a source, with the arguments under which it could lose some.
std::vector<Stage> stages() {
  const auto numbers = Dataset::range(3);
  const auto zero = [](const Element&) { return int64_t{0}; };
  const auto whole = [](int64_t, const Dataset& window) { return window; };
  const auto left = [](const Element& x) { return x.part(0); };
  return {
      {"take", [](const Dataset& d) { return d.take(50); }},
      {"skip", [](const Dataset& d) { return d.skip(1); }},
      {"skip more", [](const Dataset& d) { return d.skip(100); }},
      {"shard 0", [](const Dataset& d) { return d.shard(2, 0); }},
      {"shard 1", [](const Dataset& d) { return d.shard(2, 1); }},
      {"shard 49", [](const Dataset& d) { return d.shard(50, 49); }},
      {"shuffle", [](const Dataset& d) { return d.shuffle(3); }},
      {"shuffle all", [](const Dataset& d) { return d.shuffle(100); }},
      {"repeat", [](const Dataset& d) { return d.repeat(2); }},
      {"batch", [](const Dataset& d) { return d.batch(2).map(total); }},
      {"batch, no remainder",
       [](const Dataset& d) { return d.batch(100, {.drop_remainder = true}).map(total); }},
      {"global_batch", [](const Dataset& d) { return d.global_batch(3).unbatch(); }},
      {"padded_batch",
       [](const Dataset& d) { return d.padded_batch(50, {.drop_remainder = true}).unbatch(); }},
      {"rebatch",
       [](const Dataset& d) {
         return d.batch(2).rebatch({5}, {.drop_remainder = true}).unbatch();
       }},
      {"map", [](const Dataset& d) { return d.map(same); }},
      {"map with a key",
       [](const Dataset& d) { return d.map([](const Element& x, RandomKey) { return x; }); }},
      {"parallel map", [](const Dataset& d) { return d.map(same, {.num_parallel_calls = 2}); }},
      {"map out of order",
       [](const Dataset& d) {
         return d.map(same, {.num_parallel_calls = 2, .deterministic = false});
       }},
      {"prefetch", [](const Dataset& d) { return d.prefetch(2); }},
      {"filter", [](const Dataset& d) { return d.filter(always); }},
      {"filter all", [](const Dataset& d) { return d.filter(never); }},
      {"take_while", [](const Dataset& d) { return d.take_while(always); }},
      {"unique", [](const Dataset& d) { return d.unique(); }},
      {"scan",
       [](const Dataset& d) {
         return d.scan(Element(torch::scalar_tensor(0, at::kLong)),
                       [](const Element& s, const Element& x) { return std::pair(s, x); });
       }},
      {"enumerate",
       [](const Dataset& d) {
         return d.enumerate().map([](const Element& x) { return x.part(1); });
       }},
      {"concatenate before", [=](const Dataset& d) { return d.concatenate(numbers); }},
      {"concatenate behind", [=](const Dataset& d) { return numbers.concatenate(d); }},
      {"zip",
       [=](const Dataset& d) {
         return Dataset::zip({d, Dataset::range(200)}).map(left);
       }},
      {"zip behind",
       [=](const Dataset& d) {
         return Dataset::zip({Dataset::range(200), d}).map(left);
       }},
      {"flat_map",
       [](const Dataset& d) {
         return d.flat_map([](const Element&) { return Dataset::range(2); });
       }},
      {"flat_map that opens",
       [=](const Dataset& d) { return numbers.flat_map([d](const Element&) { return d; }); }},
      {"interleave that opens",
       [=](const Dataset& d) {
         return numbers.interleave([d](const Element&) { return d.skip(1); }, {.cycle_length = 2});
       }},
      {"parallel interleave",
       [=](const Dataset& d) {
         return numbers.interleave([d](const Element&) { return d; },
                                   {.cycle_length = 2, .parallel = true});
       }},
      {"window", [](const Dataset& d) { return d.window(2).map(total); }},
      {"window with gaps", [](const Dataset& d) { return d.window(2, {.shift = 5}).map(total); }},
      {"window with strides",
       [](const Dataset& d) { return d.window(2, {.stride = 2}).map(total); }},
      {"whole windows",
       [](const Dataset& d) { return d.window(40, {.drop_remainder = true}).map(total); }},
      {"window with a function",
       [](const Dataset& d) { return d.window(3, [](const Dataset& w) { return w.skip(1); }); }},
      {"group_by_window", [=](const Dataset& d) { return d.group_by_window(zero, whole, 2); }},
      {"bucket_by_sequence_length",
       [=](const Dataset& d) {
         return d
             .bucket_by_sequence_length(
                 zero,
                 {.boundaries = {3}, .batch_sizes = {40, 40}, .padding = {.drop_remainder = true}})
             .map(total);
       }},
      {"cache", [](const Dataset& d) { return d.cache(); }},
      {"cache in a file",
       [](const Dataset& d) {
         static const TempDirectory directory;
         static int files = 0;
         return d.cache(directory / std::to_string(files++));
       }},
      {"choose_from_datasets",
       [=](const Dataset& d) {
         return Dataset::choose_from_datasets(
             {d, numbers}, Dataset::range(200).map(
                               [](const Element& x) { return Element(x.value().tensor() * 0); }));
       }},
      {"choices",
       [=](const Dataset& d) {
         return Dataset::choose_from_datasets(
             {numbers.repeat(), numbers},
             d.map([](const Element& x) { return Element(x.value().tensor() * 0); }));
       }},
      {"sample_from_datasets",
       [=](const Dataset& d) {
         return Dataset::sample_from_datasets({d, numbers});
       }},
      {"with_seed", [](const Dataset& d) { return d.with_seed(3); }},
      {"with_options", [](const Dataset& d) { return d.with_options({}); }},
      {"assert_cardinality", [](const Dataset& d) { return d.assert_cardinality(1000); }},
  };
}

struct Lost {
  std::string name{};
  std::vector<std::string> files{};
};
// The number of a file that is lost is even and odd, so that it is not a shard's alone.
const std::vector<Lost>& lost_sources() {
  static const std::vector<Lost> all{{"missing", {"missing"}},
                                     {"missing first", {"missing", "0-5"}},
                                     {"missing behind", {"0-5", "missing", "20-21"}},
                                     {"cut", {"0-9cut"}},
                                     {"cut behind", {"0-3", "10-19cut"}}};
  return all;
}

// Throws once, at its third element.
Dataset failing_generator() {
  return Dataset::from_generator([]() -> Dataset::Generator {
    return [next = int64_t{0}]() mutable -> std::optional<Element> {
      if (next == 8) return std::nullopt;
      if (next++ == 2) throw std::runtime_error("the missing database");
      return Element(torch::scalar_tensor(next - 1, at::kLong));
    };
  });
}

// All errors of the pipeline; "" where it comes to its end without a word.
std::string said_by(const Dataset& dataset, const IteratorOptions& options = {}) {
  std::string said;
  const auto iterator = dataset.iterator(options);
  for (int places = 0; places < 5000; ++places) {
    try {
      if (!iterator->next()) return said;
    } catch (const Error& error) {
      said += error.what();
    }
  }
  ADD_FAILURE() << "without end: " << dataset.describe();
  return said;
}

class LostSources : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(1); }
};

TEST_F(LostSources, AreErrorsBehindEveryTwoStages) {
  const std::vector<Stage> all = stages();
  for (const Lost& lost : lost_sources()) {
    const std::string& file = lost.name.starts_with("missing") ? "missing" : lost.files.back();
    const bool in_pairs = lost.name.ends_with("behind");
    for (const Stage& first : all) {
      const Dataset once = first.of(number_files(lost.files));
      EXPECT_THAT(said_by(once), HasSubstr(file)) << lost.name << ", " << first.name;
      for (size_t i = 0; in_pairs && i < all.size(); ++i) {
        EXPECT_THAT(said_by(all[i].of(once)), HasSubstr(file))
            << lost.name << ", " << first.name << ", " << all[i].name;
      }
    }
  }
}

// A stage that is not among them is added above.
TEST_F(LostSources, TheStagesAreAllThereAre) {
  std::set<size_t> seen;
  const std::function<void(const data::internal::Node&)> look = [&](const auto& node) {
    seen.insert(node.spec.index());
    for (const auto& input : node.inputs) look(*input);
  };
  for (const Stage& stage : stages())
    look(*data::internal::DatasetAccess::node(stage.of(number_files({"missing"}))));
  look(*data::internal::DatasetAccess::node(
      Dataset::from_generator([] { return Dataset::Generator(); })));
  // ignore_errors(), and the batches that auto_shard() cuts.
  EXPECT_EQ(seen.size() + 2, std::variant_size_v<data::internal::Spec>);
}

TEST_F(LostSources, AnyPositionGivesTheSameRest) {
  for (const Lost& lost : lost_sources()) {
    for (const Stage& stage : stages()) {
      if (stage.name == "map out of order") continue;
      for (const Dataset& dataset : {stage.of(number_files(lost.files)),
                                     stage.of(number_files(lost.files, false)).skip(1)}) {
        const Lists whole = read(dataset);
        const auto iterator = dataset.iterator();
        for (size_t i = 0; i <= whole.size(); ++i) {
          const auto other = dataset.iterator();
          other->restore(iterator->save());
          ASSERT_EQ(rest_of(*other), Lists(whole.begin() + static_cast<ptrdiff_t>(i), whole.end()))
              << lost.name << ", " << stage.name << ", " << i;
          try {
            iterator->next();
          } catch (const Error&) {  // an element like others
          }
        }
      }
    }
  }
}

TEST_F(LostSources, EveryReplicaHasTheErrorInTheSameBatch) {
  for (const Lost& lost : lost_sources()) {
    for (const Dataset& dataset :
         {number_files(lost.files).batch(2), number_files(lost.files).global_batch(3),
          number_files(lost.files).batch(4, {.drop_remainder = true}),
          number_files(lost.files).batch(2).rebatch({1, 2})}) {
      std::set<std::vector<size_t>> places;
      for (int64_t replica = 0; replica < 3; ++replica) {
        const Lists all = read(dataset, {.sharding = {.num_replicas = 3, .replica = replica}});
        std::vector<size_t> errors;
        for (size_t i = 0; i < all.size(); ++i) {
          if (all[i] == std::vector<int64_t>{-1}) errors.push_back(i);
        }
        EXPECT_FALSE(errors.empty()) << lost.name << " " << dataset.describe();
        places.insert(errors);
      }
      EXPECT_EQ(places.size(), 1u) << lost.name << " " << dataset.describe();
    }
  }
}

TEST_F(LostSources, AreWhatGeneratorsThrowToo) {
  for (const Stage& stage : stages()) {
    EXPECT_THAT(said_by(stage.of(failing_generator())), HasSubstr("the missing database"))
        << stage.name;
  }
  EXPECT_EQ(read(failing_generator().skip(3)), (Lists{{-1}, {3}, {4}, {5}, {6}, {7}}));
}

TEST_F(LostSources, AreSaidWhereIgnoreErrorsLeavesThemOut) {
  const Dataset files = number_files({"0-2", "missing", "10-15bad"}).ignore_errors().repeat(2);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read(files).size(), 12u);
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("dropped an element: NotFound: there is no file missing"));
  EXPECT_THAT(said, HasSubstr("dropped 2 of 8 elements"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("damaged")));
  EXPECT_EQ(said.find(" of 8 elements"), said.rfind(" of 8 elements"))
      << "no number twice: " << said;
  // An iterator that goes away says how many it dropped.
  ::testing::internal::CaptureStderr();
  {
    const auto iterator = number_files({"missing", "0-9"}).ignore_errors(true).iterator();
    iterator->next();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("dropped 1 of 2 elements"));
}

TEST_F(LostSources, AreLeftOutByIgnoreErrorsAlone) {
  const Dataset files = number_files({"0-2", "missing", "10-19cut", "30-31"});
  EXPECT_EQ(flat(files.ignore_errors().skip(1)), (std::vector<int64_t>{1, 10, 11, 30}));
  EXPECT_EQ(flat(files.skip(1).ignore_errors()), (std::vector<int64_t>{1, 10, 11, 30}));
}

TEST_F(LostSources, OfEveryFormatAreNamed) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  const auto write = [&](const std::string& name, std::string_view text) {
    files.write_atomically(dir / name, text).value();
    return dir / name;
  };
  std::string records;
  for (int i = 0; i < 5; ++i) {
    formats::append_tfrecord(records, bytes_of(std::string_view("a record")));
  }
  std::string lines = "a,y\n";
  for (int i = 0; i < 20000; ++i) lines += std::to_string(i * 7919 % 20000) + ",1\n";
  const std::string packed = formats::gzip(bytes_of(lines));
  const auto csv = data::csv_format({.columns = {{"a"}, {"y"}}});
  for (const auto& [path, format] :
       std::vector<std::pair<std::string, std::shared_ptr<const FileFormat>>>{
           {dir / "none.tfrecord", data::tfrecord_format()},
           {write("no_tfrecord", std::string(100, 'x')), data::tfrecord_format()},
           {write("cut.tfrecord", records.substr(0, records.size() - 3)), data::tfrecord_format()},
           {dir / "none.csv", csv},
           {write("quote.csv", "a,y\n1,2\n3,\"4\n5,6\n"), csv},
           {write("cut.csv.gz", packed.substr(0, packed.size() / 2)), csv},
           {dir / "none.txt", data::text_line_format()},
           {write("cut.txt.gz", packed.substr(0, packed.size() / 2)), data::text_line_format()}}) {
    const Dataset dataset = Dataset::from_files({path}, format).map([](const Element&) {
      return Element(torch::zeros({}, at::kLong));
    });
    for (const Dataset& behind :
         {dataset.skip(1 << 20), dataset.shard(2, 0), dataset.shard(2, 1),
          dataset.shard(1 << 20, (1 << 20) - 1), dataset.prefetch().skip(1 << 20),
          dataset.shuffle(10).skip(1 << 20)}) {
      std::string said;
      const auto iterator = behind.iterator();
      try {
        while (iterator->next()) {
        }
      } catch (const Error& error) {
        said = error.what();
      }
      EXPECT_THAT(said, HasSubstr(path)) << behind.describe();
    }
  }
}

TEST_F(LostSources, StopTheWorkerThatHasThem) {
  // The same pipeline on both; the file is missing on one machine.
  const auto of_worker = [](int64_t worker, const std::vector<std::string>& files) {
    const data::ReplicaPlace place{.num_input_pipelines = 2, .input_pipeline_id = worker};
    return data::distribute(number_files(files).batch(2), place, 3).iterator;
  };
  EXPECT_EQ(rest_of(*of_worker(0, {"0-8"})), (Lists{{0, 1}, {4, 5}}));
  EXPECT_EQ(rest_of(*of_worker(1, {"missing"})), (Lists{{-1}}));
}

// A map that fails on an element is not a source: who passes over the element passes over the
// error.
TEST_F(LostSources, AreNotElementsThatCannotBeRead) {
  EXPECT_EQ(flat(number_files({"0-5bad"}).skip(2)), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(flat(number_files({"0-5bad"}).prefetch().skip(2)), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(flat(number_files({"0-5bad"}).shard(2, 0)), (std::vector<int64_t>{0, 2, 4}));
}

}  // namespace
}  // namespace muster::inline v0_1
