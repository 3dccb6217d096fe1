#include "muster/base/nearest.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

const std::vector<std::string> kFlags = {"data_dir",   "model_dir",     "epochs", "max_steps",
                                         "batch_size", "learning_rate", "seed",   "trace"};

TEST(NearestTest, FindsMisspellings) {
  const std::pair<const char*, const char*> words[] = {
      {"bach_size", "batch_size"},    // a letter left out
      {"batch_sizes", "batch_size"},  // one added
      {"batch-size", "batch_size"},   // the other dash
      {"BATCH_SIZE", "batch_size"},   // capitals
      {"sede", "seed"},               // two swapped
      {"learning-rat", "learning_rate"},
      {"modeldir", "model_dir"},
      {"learn", "learning_rate"},  // a beginning
      {"mdoel_dri", "model_dir"},
  };
  for (const auto& [word, meant] : words) EXPECT_EQ(nearest(word, kFlags), meant) << word;
}

TEST(NearestTest, ANumberStandsForTheLettersLeftOut) {
  const std::vector<std::string> targets = {"local", "slurm", "kubernetes"};
  EXPECT_EQ(nearest("k8s", targets), "kubernetes");
  EXPECT_EQ(nearest("K8S", targets), "kubernetes");
  for (const char* other : {"k7s", "k8t", "8", "ks", "k-8s"})
    EXPECT_EQ(nearest(other, targets), std::nullopt) << other;
}

TEST(NearestTest, OffersNothingFarFetched) {
  for (const char* word : {"fly", "hidden_units", "x", "", "dir"}) {
    EXPECT_EQ(nearest(word, kFlags), std::nullopt) << word;
  }
  // Two begin so: neither is offered.
  EXPECT_EQ(nearest("check", {"checkpoint_dir", "checkpoint_steps"}), std::nullopt);
  EXPECT_EQ(nearest("seed", {}), std::nullopt);
}

TEST(NearestTest, AVeryLongWordCostsNothing) {
  // A table of all its letters times the letters of a flag would take gigabytes.
  EXPECT_EQ(nearest(std::string(1 << 26, 'x'), kFlags), std::nullopt);
}

TEST(NearestTest, TheNearestOfSeveralWins) {
  EXPECT_EQ(nearest("work", {"works", "fork", "work"}), "work");
  EXPECT_EQ(nearest("max_step", {"max_stop_x", "max_steps"}), "max_steps");
}

}  // namespace
}  // namespace muster::inline v0_1
