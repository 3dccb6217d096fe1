#include "muster/stores/kubernetes_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/stores/internal/for_tests.h"
#include "tests/support/web_server.h"

namespace muster::inline v0_1::stores {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kNone = R"({"kind":"PodList","items":[]})";

class KubernetesApiTest : public ::testing::Test {
 protected:
  KubernetesApiTest() { write_token("first"); }
  void write_token(const std::string& token) {
    local_file_system().write_atomically(account_ / "token", token + "\n").value();
  }
  KubernetesApiOptions options(const std::string& name_space = "") {
    return {.server = server_.url(),
            .account_folder = account_.path(),
            .name_space = name_space,
            .limits = internal::quick_limits()};
  }

  const TempDirectory account_;
  WebServer server_{
      [](const httplib::Request&, httplib::Response& response) { response.body = kNone; }};
};

TEST_F(KubernetesApiTest, ListsPodsByTheirLabels) {
  const KubernetesApi all({}, options());
  EXPECT_EQ(all.list_pods("app=train,role in (a,b)").value(), kNone);
  EXPECT_THAT(server_.requests(),
              ElementsAre("GET /api/v1/pods?labelSelector=app%3Dtrain%2Crole%20in%20%28a%2Cb%29"));
  EXPECT_EQ(server_.last_header("/pods", "Authorization"), "Bearer first");
  // Kubernetes renews the token.
  write_token("second");
  KubernetesApi({}, options("team")).list_pods("app=x").value();
  EXPECT_EQ(server_.last_header("/api/v1/namespaces/team/pods?", "Authorization"), "Bearer second");
}

TEST_F(KubernetesApiTest, TriesAgainAndSaysWhatWasRefused) {
  const KubernetesApi api({}, options());
  server_.fail({.status = 503});
  EXPECT_EQ(api.list_pods("a=b").value(), kNone);
  server_.fail({.status = 403,
                .body = R"({"kind":"Status","reason":"Forbidden","message":"pods is forbidden"})"});
  const Error denied = api.list_pods("a=b").error();
  EXPECT_EQ(denied.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(denied.what(), AllOf(HasSubstr("\"a=b\""), HasSubstr("pods is forbidden"),
                                   HasSubstr("may list pods")));
}

TEST_F(KubernetesApiTest, NeedsAPod) {
  EXPECT_THAT(error_of([] { KubernetesApi api(Environment{}); }).what(),
              HasSubstr("KUBERNETES_SERVICE_HOST"));
  KubernetesApiOptions elsewhere = options();
  elsewhere.account_folder = account_ / "none";
  EXPECT_EQ(KubernetesApi({}, elsewhere).list_pods("a=b").error().kind(), ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::inline v0_1::stores
