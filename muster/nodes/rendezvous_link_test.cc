#include "muster/nodes/rendezvous_link.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::nodes {
namespace {

class RendezvousLinkTest : public ::testing::Test {
 protected:
  void heard(double now) { link_.heard({.rendezvous = 5}, now); }

  RendezvousLink link_{{.heartbeat_timeout = 6, .reconnect_timeout = 2}, {.node = 1}, 0};
};

TEST_F(RendezvousLinkTest, AReportIsSentWhenItIsNewAndOnceASecond) {
  link_.opened(10);
  EXPECT_FALSE(link_.has_said_all());
  EXPECT_TRUE(link_.take_due(10));
  EXPECT_FALSE(link_.has_said_all()) << "the connection may break before it is sent";
  link_.sent(*link_.take_due(10));
  EXPECT_TRUE(link_.has_said_all());
  EXPECT_FALSE(link_.take_due(11));
  EXPECT_TRUE(link_.take_due(11.1));
  NodeReport report = link_.report();
  link_.say(report);
  EXPECT_FALSE(link_.take_due(11.2));
  report.round = 3;
  link_.say(report);
  EXPECT_EQ(link_.take_due(11.3)->round, 3);
  link_.sent(report);
  // Another connection has not carried it.
  link_.opened(11.4);
  EXPECT_EQ(link_.take_due(11.4)->round, 3);
}

TEST_F(RendezvousLinkTest, AConnectionWithoutAWordIsBroken) {
  link_.opened(10);
  EXPECT_FALSE(link_.silence(16));
  EXPECT_EQ(link_.silence(16.5)->message(), "no word for 6.5 s");
  heard(16.5);
  EXPECT_FALSE(link_.silence(20));
  link_.opened(30);
  EXPECT_FALSE(link_.silence(31));
}

TEST_F(RendezvousLinkTest, SilenceIsALossUntilTheNextWord) {
  EXPECT_TRUE(link_.loss(1)->never);
  EXPECT_EQ(link_.loss(1)->reason, "no answer yet");
  link_.failed("unknown host", /*nobody_listens=*/false, 1);
  EXPECT_EQ(link_.loss(3)->reason, "unknown host");
  EXPECT_EQ(link_.loss(3)->seconds, 3);
  heard(4);
  EXPECT_FALSE(link_.loss(10));
  EXPECT_EQ(link_.loss(10.5)->reason, "it does not answer");
  link_.failed("no route", /*nobody_listens=*/false, 10.5);
  const auto loss = link_.loss(11);
  EXPECT_EQ(loss->reason, "no route");
  EXPECT_FALSE(loss->ended || loss->never);
  heard(12);
  EXPECT_FALSE(link_.loss(12));
}

TEST_F(RendezvousLinkTest, AnAddressWhereNobodyListensIsTheEndOfTheRendezvous) {
  heard(0);
  link_.failed("refused", /*nobody_listens=*/true, 1);
  EXPECT_FALSE(link_.loss(3));
  EXPECT_TRUE(link_.loss(3.1)->ended);
  // An address that does not answer says nothing of its processes.
  link_.failed("timeout", /*nobody_listens=*/false, 3.2);
  link_.failed("refused", /*nobody_listens=*/true, 4);
  EXPECT_FALSE(link_.loss(5));
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
