#include "apps/muster/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "apps/muster/run_muster.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

launch::CompletedProcess answers(int code, const std::string& err = "") {
  return {.status = {.code = code}, .err = err};
}

TEST(Image, TakesTheFirstEngineThatWorks) {
  const auto everywhere = [](const std::string& name) { return "/bin/" + name; };
  const auto choose = [&](const std::string& wanted, const std::string& working) {
    return choose_engine(wanted, everywhere, [&](const std::vector<std::string>& argv) {
      return argv[0] == "/bin/" + working ? answers(0) : answers(125, "no daemon\nat all");
    });
  };
  EXPECT_EQ(choose("", "buildah"), "/bin/buildah");
  EXPECT_EQ(choose("docker", "docker"), "/bin/docker");
  const Error none = error_of([&] { choose("docker", "podman"); });
  EXPECT_THAT(none.message(), HasSubstr("docker does not work: no daemon"));
  const Error nowhere = error_of([&] {
    choose_engine(
        "", [](const std::string&) { return std::string(); },
        [](const auto&) { return answers(0); });
  });
  EXPECT_THAT(nowhere.message(), AllOf(HasSubstr("podman is not here"),
                                       HasSubstr("buildah is not here"), HasSubstr("docker is")));
  EXPECT_THAT(nowhere.hint(), HasSubstr("apt-get install"));
}

TEST(Image, SaysWhatAMachineLacksForContainers) {
  unsetenv("BUILDAH_ISOLATION");
  const auto lacks = [&](const std::string& engine, int code, bool has_runtime = true) {
    const auto find = [&](const std::string& name) {
      return name == "unshare" || (name == "runc" && has_runtime) ? "/bin/" + name : "";
    };
    return lacks_containers(engine, find, [&](const std::vector<std::string>& argv) {
      EXPECT_EQ(argv.front(), "/bin/unshare");
      return answers(code, "unshare failed: Operation not permitted");
    });
  };
  EXPECT_THAT(lacks("/usr/bin/buildah", 1), HasSubstr("user namespaces are not available"));
  EXPECT_THAT(lacks("/usr/bin/buildah", 0, false), HasSubstr("neither crun nor runc"));
  EXPECT_EQ(lacks("/usr/bin/buildah", 0), "");
  EXPECT_EQ(lacks("/usr/bin/docker", 1, false), "");
  setenv("BUILDAH_ISOLATION", "chroot", 1);
  EXPECT_EQ(lacks("/usr/bin/buildah", 1, false), "");
  unsetenv("BUILDAH_ISOLATION");
}

TEST(Image, HasANameThatRegistriesTake) {
  EXPECT_EQ(default_tag("/srv/My_Shapes.2"), "my-shapes-2:latest");
  EXPECT_EQ(default_tag("/srv/shapes/"), default_tag("/srv/shapes"));
}

TEST(Image, IsBuiltAndPushedByTheEnginesOwnWords) {
  const ImageOptions options{.folder = "p", .tag = "r/p:1", .base = "debian:x", .push = true};
  EXPECT_THAT(image_commands(options, "/usr/bin/buildah"),
              ElementsAre(ElementsAre("/usr/bin/buildah", "bud", "--build-arg", "DEBIAN=debian:x",
                                      "--tag", "r/p:1", "p"),
                          ElementsAre("/usr/bin/buildah", "push", "r/p:1")));
  EXPECT_EQ(image_commands(options, "/usr/bin/podman")[0][1], "build");
}

TEST(Image, StandsOnTheSystemOfThisMachine) {
  EXPECT_EQ(default_base("ID=debian\nVERSION_CODENAME=bookworm\n"), "debian:bookworm-slim");
  EXPECT_THAT(error_of([] { default_base("ID=\"fedora\"\nVERSION_ID=40\n"); }).hint(),
              HasSubstr("--base="));
}

TEST(Image, PackagesAreThoseOfWhatTheLibraryLoads) {
  const auto packages =
      packages_to_build({"/x/libmuster-core.so"}, [](const std::vector<std::string>& argv) {
        launch::CompletedProcess ran;
        if (argv[0].ends_with("ldd")) {
          ran.out =
              "\tlinux-vdso.so.1 (0x0)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x1)\n"
              "\tlibgone.so => not found\n";
        } else {
          EXPECT_THAT(argv, AllOf(Contains("/lib/x86_64-linux-gnu/libz.so.1"),
                                  Contains("/usr/lib/x86_64-linux-gnu/libz.so.1")));
          ran.out = "zlib1g:amd64: /lib/x86_64-linux-gnu/libz.so.1\n";
          ran.status.code = 1;  // it does not know the other path
        }
        return ran;
      });
  EXPECT_THAT(packages, AllOf(Contains("zlib1g"), Contains("g++"), Contains("libtorch-dev")));
}

// A test of the installed Muster builds one.
TEST(ImageCommand, SaysWhatItWouldCall) {
  const TempDirectory bin, dir;
  local_file_system()
      .write_atomically(bin / "podman", std::string_view("#!/bin/sh\n[ \"$1\" = info ]\n"))
      .value();
  ASSERT_EQ(chmod((bin / "podman").c_str(), 0755), 0);
  ASSERT_EQ(run_muster("new " + (dir / "shapes")).code, 0);
  const auto ran = run_shell("PATH=" + bin.path() + ":$PATH " +
                             muster_line("image " + (dir / "shapes") + " --base=b --dry-run"));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("podman build --build-arg DEBIAN=b --tag shapes:latest"));
}

TEST(ImageCommand, AFolderWithoutADockerfileIsToldHowToGetOne) {
  const TempDirectory dir;
  const auto ran = run_muster("image " + dir.path());
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, AllOf(HasSubstr("has no Dockerfile"), HasSubstr("muster new")));
}

}  // namespace
}  // namespace muster::app
