// A run with everything in a bucket: data, model_dir, events, evaluations. It is killed, continued,
// and ends with the bits of an undisturbed run on a disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "muster/base/file_system.h"
#include "muster/stores/s3_store.h"
#include "tests/end_to_end/program.h"
#include "tests/support/s3_stand_in.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class BucketRun : public ::testing::Test {
 protected:
  Variables environment() const { return bucket_.environment().variables(); }
  Ran muster(const Words& words) {
    Words command = {binary("muster")};
    command.insert(command.end(), words.begin(), words.end());
    return run(command, environment());
  }
  // mnist with data and model_dir in the bucket.
  static Words in_bucket(const Words& flags) {
    Words words = {binary("mnist"), "--data_dir=s3://bucket/data", "--model_dir=s3://bucket/run/"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }

  S3StandIn bucket_;
  const std::unique_ptr<FileSystem> files_ =
      stores::make_s3_store(stores::S3Options::from(bucket_.environment()));
  const TempDirectory directory_;
};

TEST_F(BucketRun, KilledAndContinuedItEndsAsOnADisk) {
  const Words flags = {"--max_steps=120", "--save_checkpoints_steps=20"};
  const Ran whole = run(mnist(directory_ / "whole", flags));
  ASSERT_EQ(whole.code, 0) << whole.output;
  const Ran data = muster({"cp", "-r", digits(), "s3://bucket/data"});
  ASSERT_EQ(data.code, 0) << data.output;

  until_in_time([&] {
    EXPECT_TRUE(files_->remove_tree("s3://bucket/run").ok());
    Program killed(in_bucket(flags), environment());
    killed.wait_for("saved s3://bucket/run/model.ckpt-40");
    killed.signal(SIGKILL);
    const int code = killed.wait();
    if (files_->exists("s3://bucket/run/model.ckpt-120.safetensors").value()) return false;
    EXPECT_EQ(code, -SIGKILL) << killed.output();
    return true;
  });
  // Some requests of the rest fail, as in every long run.
  bucket_.server().fail({.only = "PUT /bucket/run/model.ckpt", .status = 503}, 2);
  bucket_.server().fail({.only = "GET /bucket/data", .cut_after = 100}, 2);
  const Ran rest = run(muster_run({"--evaluator"}, in_bucket(flags)), environment());
  ASSERT_EQ(rest.code, 0) << rest.output;
  EXPECT_THAT(rest.output, AllOf(HasSubstr("continuing after step"), Not(HasSubstr("] E "))));
  EXPECT_TRUE(files_->read_file("s3://bucket/run/model.ckpt-120.safetensors").value() ==
              checkpoint_bytes(directory_ / "whole", 120));

  std::set<std::string> evaluated;
  for (const std::string& name : files_->list_directory("s3://bucket/run/evaluations").value()) {
    const auto entry =
        nlohmann::json::parse(files_->read_file("s3://bucket/run/evaluations/" + name).value());
    evaluated.insert(entry["checkpoint"]);
  }
  EXPECT_TRUE(evaluated.contains("model.ckpt-120"));
  EXPECT_THAT(muster({"inspect", "events", "s3://bucket/run/eval", "--tag", "accuracy"}).output,
              HasSubstr("120  "));
  EXPECT_THAT(muster({"inspect", "checkpoint", "s3://bucket/run"}).output, HasSubstr("120"));
  EXPECT_FALSE(files_->exists("s3://bucket/run/writer.lease").value()) << "the run is over";

  // Copied to a disk, it is a run like any other.
  const Ran copied = muster({"cp", "-r", "s3://bucket/run", directory_ / "back"});
  ASSERT_EQ(copied.code, 0) << copied.output;
  const Ran again = run(mnist(directory_ / "back", flags));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("nothing to train"));
  EXPECT_EQ(result_of(again), result_of(whole));
  EXPECT_EQ(bucket_.open_uploads(), 0u);
}

TEST_F(BucketRun, ASaveThatIsForbiddenIsTriedAgainAndOneTooManyEndsIt) {
  const Ran data = muster({"cp", "-r", digits(), "s3://bucket/data"});
  ASSERT_EQ(data.code, 0) << data.output;
  const Words flags = {"--max_steps=100", "--save_checkpoints_steps=20"};
  bucket_.server().fail({.only = "PUT /bucket/run/model.ckpt-20", .status = 403}, 1);
  bucket_.server().fail({.only = "POST /bucket/run/model.ckpt-20", .status = 403}, 1);
  const Ran patient = run(in_bucket(flags), environment());
  EXPECT_EQ(patient.code, 0) << patient.output;
  EXPECT_THAT(patient.output,
              AllOf(HasSubstr("cannot save the checkpoint 's3://bucket/run/model.ckpt-20'"),
                    HasSubstr("1 of 2 allowed failures in a row")));
  // The bucket stays away from its last save on.
  bucket_.server().fail({.only = "/bucket/run/model.ckpt-140", .status = 403}, 1000);
  const Ran ended =
      run(in_bucket({"--max_steps=140", "--save_checkpoints_steps=20"}), environment());
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("model.ckpt-140"), HasSubstr("hint: ")));
  EXPECT_THAT(muster({"inspect", "checkpoint", "s3://bucket/run"}).output, HasSubstr("120"));
}

}  // namespace
}  // namespace muster::testing
