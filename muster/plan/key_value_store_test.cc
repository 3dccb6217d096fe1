#include "muster/plan/key_value_store.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

TEST(Store, Verbs) {
  KeyValueStore store;
  EXPECT_EQ(store.get("k"), std::nullopt);
  store.set("k", std::string("\0b", 2));
  EXPECT_EQ(store.get("k"), std::string("\0b", 2));
  EXPECT_THROW(store.add("k", 1), Error);
  EXPECT_EQ(store.add("n", 5), 5);
  EXPECT_EQ(store.add("n", -7), -2);
  EXPECT_EQ(store.get("n"), "-2");
  EXPECT_TRUE(store.has_all({"k", "n"}));
  EXPECT_TRUE(store.erase("k"));
  EXPECT_FALSE(store.erase("k"));
  EXPECT_FALSE(store.has_all({"k", "n"}));
}

}  // namespace
}  // namespace muster::inline v0_1::plan
