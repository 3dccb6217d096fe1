#include "muster/data/auto_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "muster/base/error_of.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// File f holds the records 100 f, 100 f + 1, …
std::string file_of(int64_t f, int64_t records) {
  return fmt::format("{}-{}", 100 * f, 100 * f + records);
}
std::vector<std::string> files_of(int64_t files, int64_t records) {
  std::vector<std::string> names;
  for (int64_t f = 0; f < files; ++f) names.push_back(file_of(f, records));
  return names;
}
Dataset names_of(int64_t files, int64_t records) {
  return Dataset::from_tensor_slices(Element(Strings(files_of(files, records))));
}
Dataset opened(const Element& name) {
  return number_files({std::string(name.value().strings()[0])});
}

AutoShardPolicy policy_of(const std::string& name) {
  for (const auto policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                            AutoShardPolicy::kHint, AutoShardPolicy::kOff}) {
    if (to_string(policy) == name) return policy;
  }
  throw invalid_argument("no policy " + name);
}

// The arguments of "name(1,2)" or "name([1, 2])".
std::vector<int64_t> arguments(const std::string& op) {
  std::vector<int64_t> numbers;
  for (size_t at = op.find_first_of("0123456789"); at != std::string::npos;
       at = op.find_first_of("0123456789", at)) {
    size_t used = 0;
    numbers.push_back(std::stoll(op.substr(at), &used));
    at += used;
  }
  return numbers;
}

Dataset with_op(const Dataset& dataset, std::string op) {
  if (op.starts_with("each: ")) op = op.substr(6);
  const std::vector<int64_t> numbers = arguments(op);
  if (op.starts_with("flat_map(TFRecord")) return dataset.flat_map(opened);
  if (op.starts_with("parallel_interleave(TFRecord")) {
    return dataset.interleave(opened, {.cycle_length = numbers.at(0), .parallel = true});
  }
  if (op.starts_with("batch")) return dataset.batch(numbers.at(0));
  if (op.starts_with("rebatch")) return dataset.rebatch(numbers);
  if (op.starts_with("prefetch")) return dataset.prefetch(numbers.at(0));
  if (op.starts_with("assert_cardinality")) return dataset.assert_cardinality(numbers.at(0));
  if (op.starts_with("shard")) return dataset.shard(numbers.at(0), numbers.at(1));
  throw invalid_argument("no op " + op);
}

// The pipeline of a case of the collection; throws for cases that Muster cannot express: data sets
// of data sets.
Dataset pipeline_of(const json& source, const json& ops) {
  if (source.contains("concat")) {
    std::vector<Dataset> parts;
    for (const json& part : source["concat"]) parts.push_back(pipeline_of(part, ops));
    return parts.at(0).concatenate(parts.at(1));
  }
  const auto counts = [&](const char* key, const char* records) {
    return std::pair{source[key]["num_files"].get<int64_t>(), source[key][records].get<int64_t>()};
  };
  Dataset dataset = [&] {
    if (source.contains("list_files")) {
      const auto [files, records] = counts("list_files", "records_per_file");
      const Dataset names = names_of(files, records);
      return source["list_files"].value("shuffle", false) ? names.shuffle(files) : names;
    }
    if (source.contains("textline_dataset")) {
      const auto [files, records] = counts("textline_dataset", "lines_per_file");
      return number_files(files_of(files, records));
    }
    if (source.contains("raw_tfrecord_dataset")) {
      const auto [files, records] = counts("raw_tfrecord_dataset", "records_per_file");
      return number_files(files_of(files, records));
    }
    if (source.contains("make_tf_record_dataset")) {
      const json& made = source["make_tf_record_dataset"];
      const auto [files, records] = counts("make_tf_record_dataset", "records_per_file");
      return names_of(files, records)
          .interleave(opened, {.cycle_length = made["parallel_reads"], .parallel = true})
          .repeat(made["num_epochs"])
          .batch(made["batch_size"], {.drop_remainder = made["drop_final_batch"]});
    }
    if (source.contains("range")) return Dataset::range(source["range"].get<int64_t>());
    throw invalid_argument("no source " + source.dump());
  }();
  for (const json& op : ops) dataset = with_op(dataset, op.get<std::string>());
  return dataset;
}

int64_t number_of(const json& element) {
  if (element.is_number()) return element.get<int64_t>();
  const std::vector<int64_t> parts = arguments(element.get<std::string>());  // "f3:r0"
  return 100 * parts.at(0) + parts.at(1);
}

// The elements a case expects of its worker; nothing if it only says that workers share none.
std::optional<Lists> expected_of(const json& expect) {
  Lists expected;
  if (expect.contains("batches")) {
    for (const json& batch : expect["batches"]) {
      expected.emplace_back();
      for (const json& element : batch) expected.back().push_back(number_of(element));
    }
  } else if (expect.contains("elements")) {
    for (const json& element : expect["elements"]) {
      if (element.is_array()) {
        expected.emplace_back();
        for (const json& row : element) expected.back().push_back(number_of(row));
      } else {
        expected.push_back({number_of(element)});
      }
    }
  } else if (expect.contains("elements_rule")) {
    for (int64_t i = 0; i < 1024; i += 2) expected.push_back({i});
  } else {
    return std::nullopt;
  }
  return expected;
}

// Checks the result of auto_shard() for a case of the collection.
void check_case(const json& known) {
  const json& expect = known["expect"];
  const Dataset dataset = pipeline_of(known["source"], known["ops"]);
  const int64_t workers = known["num_workers"];
  const int64_t index = known["index"].is_number() ? known["index"].get<int64_t>() : 0;
  const AutoShardPolicy policy = policy_of(known["policy"]);
  if (expect.contains("error")) {
    for (const int64_t worker : {int64_t{0}, workers - 1}) {  // on all alike
      const Error error = error_of([&] { auto_shard(dataset, workers, worker, policy); });
      EXPECT_EQ(to_string(error.kind()), expect["error"].get<std::string>());
      EXPECT_THAT(error.what(), HasSubstr(expect.value("contains", std::string())));
    }
    return;
  }
  const AutoSharded sharded = auto_shard(dataset, workers, index, policy);
  if (expect.contains("applied")) {
    EXPECT_EQ(to_string(sharded.applied), expect["applied"].get<std::string>());
  }
  if (expect.contains("files")) {
    const Lists batches = read(sharded.dataset);
    std::set<int64_t> files;
    for (const auto& batch : batches) {
      for (const int64_t number : batch) files.insert(number / 100);
    }
    EXPECT_EQ(json(files), expect["files"]);
    EXPECT_EQ(batches.size(), expect["num_batches"].get<size_t>());
    return;
  }
  const std::optional<Lists> wanted = expected_of(expect);
  if (!wanted) {
    const Lists mine = read(sharded.dataset);
    const Lists others = read(auto_shard(dataset, workers, 1, policy).dataset);
    for (const auto& row : mine) EXPECT_EQ(std::count(others.begin(), others.end(), row), 0);
    EXPECT_EQ(mine.size() + others.size(), read(dataset).size());
    return;
  }
  Lists expected = *wanted;
  if (known.value("order", std::string("exact")) == "exact") {
    EXPECT_EQ(read(sharded.dataset), expected);
  } else {
    Lists got = read(sharded.dataset);
    std::sort(got.begin(), got.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(got, expected);
  }
}

TEST(AutoShard, KnownCases) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (data == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  std::ifstream file(std::string(data) + "/../golden/autoshard_cases.json");
  // The known cases of tf.data do not come with the project either.
  if (!file) GTEST_SKIP() << "the known cases are not beside MUSTER_TEST_DATA";
  const std::set<std::string> cannot_be_said{"map_to_datasets_then_interleave_identity",
                                             "dataset_of_reader_datasets_groups_of_10"};
  int checked = 0;
  const json cases = json::parse(file);
  for (const json& known : cases["autoshard"]) {
    const std::string id = known["id"];
    if (cannot_be_said.contains(id)) continue;
    SCOPED_TRACE(id);
    check_case(known);
    ++checked;
  }
  EXPECT_GE(checked, 10);
}

TEST(AutoShard, WorkersTogetherReadEverythingOnce) {
  for (const bool shuffled : {false, true}) {
    const Dataset names = shuffled ? names_of(7, 5).shuffle(7, {.seed = 4}) : names_of(7, 5);
    const Dataset dataset = names.interleave(opened, {.cycle_length = 2}).shuffle(6).batch(4);
    for (const AutoShardPolicy policy : {AutoShardPolicy::kFile, AutoShardPolicy::kData}) {
      std::multiset<int64_t> all;
      for (int64_t worker = 0; worker < 3; ++worker) {
        const AutoSharded mine = auto_shard(dataset, 3, worker, policy);
        EXPECT_EQ(mine.applied, policy);
        EXPECT_TRUE(mine.dataset.hand_sharded());
        for (const auto& batch : read(mine.dataset)) all.insert(batch.begin(), batch.end());
      }
      EXPECT_EQ(all.size(), 35u) << to_string(policy);
      EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 35u) << to_string(policy);
    }
  }
}

// tf.data gives worker 1 of 3 these sizes; its pieces are the pieces of the whole batch.
TEST(AutoShard, DividesBatchesThatEachWorkerRebatchesInItsOwnWay) {
  const auto of = [](std::vector<int64_t> sizes, int64_t workers, int64_t worker) {
    const Dataset batches = Dataset::range(8).batch(4).rebatch(std::move(sizes));
    return read(auto_shard(batches.prefetch(1), workers, worker, AutoShardPolicy::kData).dataset);
  };
  EXPECT_EQ(of({2, 1, 1}, 3, 0), (Lists{{0, 1}, {4, 5}}));
  EXPECT_EQ(of({1, 1, 2}, 3, 1), (Lists{{2, 3}, {6, 7}}));
  EXPECT_EQ(of({1, 2, 1}, 3, 2), (Lists{{}, {}}));
  // Two replicas in each worker: a piece for each of the four.
  EXPECT_EQ(of({1, 1, 1, 1}, 2, 0), (Lists{{0}, {2}, {4}, {6}}));
  EXPECT_EQ(of({1, 1, 1, 1}, 2, 1), (Lists{{1}, {3}, {5}, {7}}));
}

TEST(AutoShard, GoesThroughTheStagesThatTfDataGoesThrough) {
  const Dataset files = number_files(files_of(5, 4));
  EXPECT_EQ(auto_shard(files.window(2), 2, 0).applied, AutoShardPolicy::kFile);
  EXPECT_EQ(auto_shard(files.with_seed(3).batch(2), 2, 0).applied, AutoShardPolicy::kFile);
  const auto all = [](const Element&) { return true; };
  const auto zero = [](const Element&) { return int64_t{0}; };
  const auto window = [](int64_t, const Dataset& dataset) { return dataset; };
  for (const Dataset& opaque :
       {files.take_while(all), files.unique(), files.group_by_window(zero, window, 2),
        Dataset::sample_from_datasets({files, files})}) {
    EXPECT_EQ(auto_shard(opaque, 2, 0).applied, AutoShardPolicy::kData) << opaque.describe();
    Lists both = read(auto_shard(opaque, 2, 0).dataset);
    for (auto& element : read(auto_shard(opaque, 2, 1).dataset)) both.push_back(element);
    Lists whole = read(opaque);
    std::sort(both.begin(), both.end());
    std::sort(whole.begin(), whole.end());
    EXPECT_EQ(both, whole) << opaque.describe();
  }
}

TEST(AutoShard, SaysWhatWasChosenAndWhy) {
  const Dataset files = number_files(files_of(5, 2)).batch(2);
  EXPECT_EQ(auto_shard(files, 2, 1).why, "files are divided: worker 1 of 2 reads 2 of 5");
  EXPECT_THAT(auto_shard(Dataset::range(10), 2, 1).why, HasSubstr("does not begin with files"));
  const Dataset off = files.with_options({.auto_shard_policy = AutoShardPolicy::kOff});
  EXPECT_EQ(off.options().auto_shard_policy, AutoShardPolicy::kOff);
  EXPECT_EQ(auto_shard(off, 2, 1).applied, AutoShardPolicy::kOff);
  EXPECT_EQ(read(auto_shard(off, 2, 1).dataset), read(files));
  EXPECT_EQ(off.describe(), files.describe());
}

TEST(AutoShard, FillsInTheHint) {
  const Dataset hinted = Dataset::range(7).shard(kShardHint, kShardHint).batch(2);
  EXPECT_FALSE(hinted.hand_sharded());
  EXPECT_EQ(hinted.cardinality(), 4);
  EXPECT_THAT(
      error_of([&] { hinted.iterator(); }).what(),
      AllOf(HasSubstr("shard(kShardHint, kShardHint)"), HasSubstr("AutoShardPolicy::kHint")));
  const Dataset asked = hinted.with_options({.auto_shard_policy = AutoShardPolicy::kHint});
  EXPECT_EQ(read(asked), read(Dataset::range(7).batch(2)));
  const AutoSharded mine = auto_shard(asked, 3, 1);
  EXPECT_EQ(mine.applied, AutoShardPolicy::kHint);
  EXPECT_EQ(read(mine.dataset), (Lists{{1, 4}}));
  EXPECT_TRUE(mine.dataset.hand_sharded());
  // Batches in front of it are given out whole.
  EXPECT_EQ(read(auto_shard(Dataset::range(7).batch(2).shard(kShardHint, kShardHint), 3, 0,
                            AutoShardPolicy::kHint)
                     .dataset),
            (Lists{{0, 1}, {6}}));
  const AutoSharded without = auto_shard(Dataset::range(4), 2, 1, AutoShardPolicy::kHint);
  EXPECT_THAT(without.why, HasSubstr("every worker reads everything"));
  EXPECT_EQ(read(without.dataset), read(Dataset::range(4)));
  EXPECT_EQ(error_of([] { Dataset::range(3).shard(kShardHint, 0); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(AutoShard, RefusesWhatCannotBe) {
  const Dataset files = number_files(files_of(5, 2));
  EXPECT_EQ(error_of([&] { auto_shard(files, 2, 2); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { auto_shard(files, 0, 0); }).kind(), ErrorKind::kInvalidArgument);
  const Error none = error_of([] { auto_shard(Dataset::range(9), 2, 0, AutoShardPolicy::kFile); });
  EXPECT_EQ(none.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(none.what(), AllOf(HasSubstr("range(9)"), HasSubstr("kData")));
  const Dataset mixed = Dataset::zip({files, Dataset::range(3)});
  EXPECT_EQ(auto_shard(mixed, 2, 0).applied, AutoShardPolicy::kData);
}

}  // namespace
}  // namespace muster::inline v0_1::data
