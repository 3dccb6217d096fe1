#include "apps/muster/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "apps/muster/new_project.h"
#include "apps/muster/run_muster.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// The steps of a Dockerfile, with continued lines joined, without comments.
std::vector<std::string> steps_of(const std::string& text) {
  std::vector<std::string> steps;
  bool continues = false;
  for (std::string line : split(text, '\n')) {
    if (trim(line).empty() || line.starts_with('#')) continue;
    const bool more = line.ends_with('\\');
    if (more) line.pop_back();
    if (continues) {
      steps.back() += " " + std::string(trim(line));
    } else {
      steps.emplace_back(trim(line));
    }
    continues = more;
  }
  return steps;
}

class ProjectsDockerfile : public ::testing::Test {
 protected:
  ProjectsDockerfile() {
    made_ = write_new_project(folder_ / "shapes");
    steps_ = steps_of(local_file_system().read_file(folder_ / "shapes/Dockerfile").value());
    second_ = std::find_if(steps_.rbegin(), steps_.rend(),
                           [](const std::string& step) { return step.starts_with("FROM"); })
                  .base() -
              1;
  }

  TempDirectory folder_;
  NewProject made_;
  std::vector<std::string> steps_;
  std::vector<std::string>::iterator second_;  // where the last stage begins
};

TEST_F(ProjectsDockerfile, HasTwoStagesOnOneBase) {
  std::vector<std::string> from;
  for (const std::string& step : steps_) {
    const std::string word = step.substr(0, step.find(' '));
    EXPECT_THAT(
        (std::vector<std::string>{"ARG", "FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT"}),
        Contains(word))
        << step;
    if (word == "FROM") from.push_back(step);
  }
  EXPECT_THAT(from, ElementsAre("FROM ${BASE} AS build", "FROM ${BASE}"));
  EXPECT_THAT(steps_.front(), HasSubstr("ARG BASE=docker.io/library/debian:"));
}

// What the build stage copies is there; the image gets nothing but what that stage made.
TEST_F(ProjectsDockerfile, CopiesWhatIsThere) {
  for (auto step = steps_.begin(); step != steps_.end(); ++step) {
    if (!step->starts_with("COPY")) continue;
    const std::vector<std::string> words = split(*step, ' ');
    if (step >= second_) {
      EXPECT_EQ(words[1], "--from=build") << *step;
    } else if (words[1] != "muster_*.deb") {
      EXPECT_TRUE(local_file_system().exists(folder_ / ("shapes/" + words[1])).value()) << *step;
    }
  }
  const std::string ignored =
      local_file_system().read_file(folder_ / "shapes/.dockerignore").value();
  EXPECT_THAT(split(ignored, '\n'), AllOf(Contains("build"), Contains(".git")));
}

TEST_F(ProjectsDockerfile, TheImageHasNoCompilerAndNoRoot) {
  const std::vector<std::string> second(second_, steps_.end());
  EXPECT_THAT(second,
              Each(AllOf(Not(HasSubstr("-dev")), Not(HasSubstr("g++")), Not(HasSubstr(".deb /")))));
  EXPECT_THAT(second, Contains("USER 10001:10001"));
  EXPECT_EQ(second.back(), "ENTRYPOINT [\"/usr/local/bin/shapes\"]");
}

// Engines that note what they are asked, and answer as a test says.
class ImageCommand : public ::testing::Test {
 protected:
  ImageCommand() {
    local_file_system().make_directories(folder_ / "bin").value();
    write_new_project(folder_ / "shapes");
    std::ofstream(folder_ / "muster_0.1.0_amd64.deb") << "package";
  }
  // Its script sees the words in "$*".
  void engine(const std::string& name, const std::string& script) {
    const std::string path = folder_ / "bin/" + name;
    std::ofstream(path) << "#!/bin/sh\necho \"" << name << " $*\" >>'" << folder_ / "asked"
                        << "'\ncase \"$*\" in\n"
                        << script << "\nesac\n";
    chmod(path.c_str(), 0700);
  }
  // One that works.
  void podman(const std::string& run = "exit 0") {
    engine("podman",
           "*--format*) echo 734003200;;\n"
           "image*) echo '[{\"Config\": {\"Entrypoint\": [\"/usr/local/bin/shapes\"]}}]';;\n"
           "run*) " +
               run + ";;");
  }
  ShellOutput image(const std::string& arguments) {
    return run_shell("cd '" + folder_.path() + "' && PATH='" + folder_ / "bin" + "' " +
                     muster_line("image " + arguments));
  }
  std::vector<std::string> asked() const {
    const auto text = local_file_system().read_file(folder_ / "asked");
    return text.ok() ? split(trim(text.value()), '\n') : std::vector<std::string>{};
  }
  const std::string package_ = " --package=muster_0.1.0_amd64.deb";

  TempDirectory folder_;
};

TEST_F(ImageCommand, BuildsLooksAndPushes) {
  podman();
  const ShellOutput ran = image("shapes --tag=lab/shapes:v1 --base=debian:13 --push" + package_);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(ran.text,
            "image: lab/shapes:v1 (700.0 MiB, /usr/local/bin/shapes answers --help; pushed)\n");
  EXPECT_THAT(asked(),
              ElementsAre("podman info",
                          "podman build --tag=lab/shapes:v1 --build-arg=BASE=debian:13 "
                          "--file=shapes/Dockerfile shapes",
                          "podman image inspect lab/shapes:v1",
                          "podman run --rm --entrypoint=/usr/local/bin/shapes lab/shapes:v1 --help",
                          "podman push lab/shapes:v1",
                          "podman image inspect --format={{.Size}} lab/shapes:v1"));
  EXPECT_TRUE(local_file_system().exists(folder_ / "shapes/muster_0.1.0_amd64.deb").value());
}

TEST_F(ImageCommand, TakesTheFirstEngineThatWorks) {
  engine("podman", "info) echo 'cannot set up namespace' >&2; exit 125;;");
  engine("buildah",
         "inspect*) echo '{\"OCIv1\": {\"config\": {\"Entrypoint\": [\"/bin/shapes\"]}}}';;\n"
         "from*) echo shapes-working-container;;\nimages*) echo '700 MB';;");
  const ShellOutput ran = image("shapes" + package_);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(ran.text, "image: shapes (700 MB, /bin/shapes answers --help)\n");
  EXPECT_THAT(asked(), AllOf(Contains("buildah run shapes-working-container -- /bin/shapes --help"),
                             Contains("buildah rm shapes-working-container")));
}

TEST_F(ImageCommand, SaysWhyNoEngineWorks) {
  engine("docker",
         "info) echo 'Client: 28'; echo 'Cannot connect to the Docker daemon.' >&2; exit 1;;");
  const ShellOutput ran = image("shapes" + package_);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, AllOf(HasSubstr("error: no program that builds images works here: podman: "
                                        "not installed; buildah: not installed; docker: Cannot "
                                        "connect to the Docker daemon."),
                              HasSubstr("hint: install one")));
  EXPECT_THAT(image("shapes --engine=podman" + package_).text, Not(HasSubstr("docker")));
}

TEST_F(ImageCommand, AnImageWithoutTheProgramIsNoSuccess) {
  podman("echo 'exec: \"/usr/local/bin/shapes\": stat: no such file or directory' >&2; exit 127");
  ShellOutput ran = image("shapes" + package_);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text,
              HasSubstr("error: the image shapes has no program /usr/local/bin/shapes: "));
  podman(
      "echo 'shapes: error while loading shared libraries: libtorch.so.1: cannot open shared "
      "object "
      "file: No such file' >&2; exit 127");
  ran = image("shapes" + package_);
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.text, AllOf(HasSubstr("does not answer --help"), HasSubstr("libtorch.so.1")));
  engine("podman", "image*) echo '[{\"Config\": {}}]';;");
  ran = image("shapes" + package_);
  EXPECT_THAT(ran.text, HasSubstr("error: the image shapes has no entry point"));
}

TEST_F(ImageCommand, BadInputIsNamedBeforeAnythingIsBuilt) {
  podman();
  EXPECT_THAT(image("nowhere").text, HasSubstr("error: there is no Dockerfile in nowhere"));
  const ShellOutput without = image("shapes");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.text, AllOf(HasSubstr("holds no muster_*.deb"), HasSubstr("--package=FILE")));
  EXPECT_THAT(image("shapes --package=other.deb").text, HasSubstr("--package is 'other.deb'"));
  EXPECT_THAT(image("shapes --package=muster_9.deb").text, HasSubstr("cannot copy muster_9.deb"));
  EXPECT_THAT(asked(), Not(Contains(HasSubstr("build"))));
  engine("podman", "build*) echo 'step 2 failed'; exit 1;;");
  const ShellOutput failed = image("shapes" + package_);
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.text, AllOf(HasSubstr("step 2 failed"),
                                 HasSubstr("error: cannot build the image: podman ended with exit "
                                           "code 1")));
}

}  // namespace
}  // namespace muster::app
