// The errors for a wrong configuration, and their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/strings.h"
#include "muster/jobs/job_config.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Error failure(const std::string& text) {
  return error_of([&] { read_job_config(text, "job.yaml"); });
}

// Each rule, and its error: the place, the value, the fix.
struct Broken {
  const char* text{};
  const char* place{};
  const char* message{};
  const char* hint{};
};

class BrokenConfigTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenConfigTest, IsOneErrorThatShowsTheLine) {
  const Error error = failure(GetParam().text);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), ::testing::StartsWith(GetParam().place));
  EXPECT_THAT(error.message(), AllOf(HasSubstr(GetParam().message), HasSubstr(" | ")));
  EXPECT_THAT(error.message(), ::testing::EndsWith("^"));
  EXPECT_THAT(error.hint(), HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    AiPlatform, BrokenConfigTest,
    ::testing::Values(
        Broken{"trainingInput:\n  scaleTier: CUSTOM\n", "job.yaml:2:3: ", "no masterType",
               "n1-standard-8"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nworkerCount: 2\n",
               "job.yaml:3:1: ", "workerCount is 2, and there is no workerType", "add workerType"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nworkerType: b\n",
               "job.yaml:3:1: ", "workerType is b, but workerCount is 0", "add workerCount"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nworkerType: b\nworkerCount: '0'\n",
               "job.yaml:3:1: ", "workerCount is 0", "add workerCount"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nparameterServerCount: 1\n",
               "job.yaml:3:1: ", "no parameterServerType", "add parameterServerType"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nparameterServerType: b\n",
               "job.yaml:3:1: ", "parameterServerCount is 0", "add parameterServerCount"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nevaluatorCount: 1\n",
               "job.yaml:3:1: ", "no evaluatorType", "add evaluatorType"},
        Broken{"scaleTier: BASIC\nworkerCount: 1\n", "job.yaml:2:1: ",
               "workerCount goes with scaleTier CUSTOM alone, and scaleTier is BASIC",
               "scaleTier: CUSTOM"},
        Broken{"masterType: a\n", "job.yaml:1:1: ", "there is no scaleTier", "scaleTier: CUSTOM"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nworkerConfig:\n  imageUri: x\n", "job.yaml:3:1: ",
               "workerConfig applies to tasks that the job does not have", "workerCount"},
        Broken{"scaleTier: BASIC\nmasterConfig:\n  containerCommand: [x]\n",
               "job.yaml:3:3: ", "needs an imageUri", "imageUri"},
        Broken{"scaleTier: BASIC\nmasterConfig:\n  acceleratorConfig:\n    type: T4\n",
               "job.yaml:3:3: ", "needs both a type and a count", "count: 1"},
        Broken{"scaleTier: HUGE\n", "job.yaml:1:12: ", "'HUGE'; it must be one of: BASIC", ""},
        Broken{"scaleTier: CUSTM\n", "job.yaml:1:12: ", "'CUSTM'", "did you mean CUSTOM?"},
        Broken{"trainingInput:\n  scaleTier: CUSTOM\n  masterTyp: a\n",
               "job.yaml:3:3: ", "no key 'masterTyp'", "did you mean masterType?"},
        Broken{"trainingInput:\n  scaleTier: BASIC\n  runtimeVersoin: a\n", "job.yaml:3:3: ",
               "trainingInput has no key 'runtimeVersoin'", "did you mean runtimeVersion?"},
        Broken{"traningInput:\n  scaleTier: BASIC\n", "job.yaml:1:1: ", "no key 'traningInput'",
               "did you mean trainingInput?"},
        Broken{"scaleTier: BASIC\nargs: --x\n",
               "job.yaml:2:7: ", "args is '--x'; it must be a list", "'- '"},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nworkerType: b\nworkerCount: two\n",
               "job.yaml:4:14: ", "'two'; it must be a whole number", ""},
        Broken{"scaleTier: CUSTOM\nmasterType: a\nworkerType: b\nworkerCount: 1\nworker_count: 1\n",
               "job.yaml:5:1: ", "and as workerCount in line 4", "keep one"},
        Broken{"scaleTier: BASIC\nscaleTier: BASIC\n", "job.yaml:2:1: ", "and in line 1",
               "keep one"},
        Broken{"scaleTier: BASIC\nscheduling: {maxRunningTime: 2h}\n",
               "job.yaml:2:30: ", "'2h'; it must be a time in seconds", "7200s"},
        Broken{"scaleTier: BASIC\nmasterConfig: x\n",
               "job.yaml:2:15: ", "masterConfig is 'x'; it must be a map", ""},
        Broken{"scaleTier: [\n", "job.yaml:", "neither YAML nor JSON", "':'"},
        Broken{", \"minValue\"", "job.yaml:1:1", "more than 100 documents", "':'"},
        Broken{"scaleTier: BASIC\n---\nscaleTier: BASIC\n", "job.yaml:3:1: ", "second document",
               "separate file"}));

INSTANTIATE_TEST_SUITE_P(
    Search, BrokenConfigTest,
    ::testing::Values(
        Broken{"hyperparameters:\n  params: []\n", "job.yaml:1:1: ", "goal is missing", "MAXIMIZE"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n", "job.yaml:1:1: ", "no hyper-parameters",
               "params"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  maxTrials: 0\n",
               "job.yaml:3:3: ", "hyperparameters.maxTrials is 0", "1 or more"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  maxTrials: -3\n",
               "job.yaml:3:3: ", "maxTrials is -3", "1 or more"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  maxParallelTrials: '0'\n",
               "job.yaml:3:3: ", "maxParallelTrials is 0", "1 or more"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  maxTrials: many\n",
               "job.yaml:3:14: ", "'many'; it must be a whole number", ""},
        Broken{"parallelTrialCount: 0\nstudySpec: {metrics: [{metricId: m, goal: "
               "MAXIMIZE}]}\ntrialJobSpec:\n  workerPoolSpecs:\n  - "
               "replicaCount: 1\n    machineSpec: {machineType: a}\n    containerSpec: {imageUri: "
               "x}\n",
               "job.yaml:1:1: ", "parallelTrialCount is 0", "1 or more"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  params:\n  - parameterName: x\n",
               "job.yaml:4:5: ", "type is missing", "parameterName and a type"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  params:\n  - parameterName: x\n    type: "
               "Float\n",
               "job.yaml:5:11: ", "'Float'; it must be one of", "did you mean DOUBLE?"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  params:\n  - parameterName: x\n    type: "
               "INT\n",
               "job.yaml:5:11: ", "'INT'; it must be one of", "did you mean INTEGER?"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  params:\n  - parameterName: x\n    type: "
               "DOUBLE\n    minValue: 1\n",
               "job.yaml:5:5: ", "needs minValue and maxValue", "both"},
        Broken{"hyperparameters:\n  goal: MAXIMIZE\n  params:\n  - parameterName: x\n    type: "
               "DOUBLE\n    minValue: 0\n    maxValue: 1\n    scaleType: UNIT_LOG_SCALE\n",
               "job.yaml:4:5: ", "logarithmic", "above 0"}));

INSTANTIATE_TEST_SUITE_P(
    Vertex, BrokenConfigTest,
    ::testing::Values(
        Broken{"workerPoolSpecs: []\n", "job.yaml:1:1: ", "has no pools", "replicaCount: 1"},
        Broken{"workerPoolSpecs:\n- machineSpec: {machineType: a}\n  replicaCount: 2\n  "
               "containerSpec: {imageUri: x}\n",
               "job.yaml:3:3: ", "replicaCount is 2; the first pool has one replica",
               "replicaCount: 1"},
        Broken{"workerPoolSpecs:\n- {}\n", "job.yaml:2:3: ", "the first pool is empty", ""},
        Broken{"workerPoolSpecs:\n- replicaCount: 1\n  containerSpec: {imageUri: x}\n",
               "job.yaml:2:3: ", "machineSpec.machineType is missing", "n1-standard-8"},
        Broken{"workerPoolSpecs:\n- replicaCount: 1\n  machineSpec: {machineType: a}\n",
               "job.yaml:2:3: ", "neither containerSpec nor pythonPackageSpec", "imageUri"},
        Broken{"workerPoolSpecs:\n- replicaCount: 1\n  machineSpec: {machineType: a, "
               "acceleratorType: T4}\n  containerSpec: {imageUri: x}\n",
               "job.yaml:3:33: ", "acceleratorCount is 0", "write both"},
        Broken{"workerPoolSpecs:\n- replicaCount: 1\n  machineSpec: {machineType: a}\n  "
               "containerSpec: {args: [x]}\n",
               "job.yaml:4:18: ", "imageUri is missing", ""},
        Broken{"workerPoolSpecs:\n- replicaCount: 1\n  machineSpec: {machineType: a}\n  "
               "containerSpec: {imageUri: x, arg: []}\n",
               "job.yaml:4:32: ", "no key 'arg'", "did you mean args?"},
        Broken{"studySpec: {}\n", "job.yaml:1:1: ", "there is no trialJobSpec", "trialJobSpec"},
        Broken{"workerPoolSpecs: [{}, {}, {}, {}, {}]\n", "job.yaml:1:35: ", "5 pools",
               "at most 4"}));

INSTANTIATE_TEST_SUITE_P(
    OtherKinds, BrokenConfigTest,
    ::testing::Values(
        Broken{"apiVersion: kubeflow.org/v1\nkind: TFJob\nspec: {}\n",
               "job.yaml:2:1: ", "this is a Kubernetes manifest, kind TFJob", "kubectl apply"},
        Broken{"apiVersion: v1\nkind: Service\n---\napiVersion: batch/v1\nkind: Job\n",
               "job.yaml:2:1: ", "Kubernetes", "trainingInput"},
        Broken{"version: '3'\nservices: {web: {image: x}}\n", "job.yaml:2:1: ", "Docker Compose",
               "trainingInput"},
        Broken{"{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\"}}",
               "job.yaml:1:2: ", "this is a TF_CONFIG", "environment"},
        Broken{"- a\n- b\n", "job.yaml:1:1: ", "the whole file is a list", "trainingInput"},
        Broken{"hello\n", "job.yaml:1:1: ", "the whole file is 'hello'", "trainingInput"},
        Broken{"name: x\nsteps: 3\n", "job.yaml:1:1: ", "no key 'name'", "trainingInput"}));

// As compilers do; the consequences of one mistake are not reported.
TEST(JobConfigTest, AllMistakesAreToldAtOnceInTheirOrder) {
  const Error error = failure(
      "trainingInput:\n  scaleTier: CUSTM\n  masterTyp: a\n  workerCount: two\n  workerType: b\n"
      "  masterConfig:\n    acceleratorConfig: {count: many}\n  hyperparameters:\n"
      "    goal: MAXIMISE\n    maxTrials: 0\n    params:\n    - {parameterName: x, type: FLOAT}\n"
      "    - {parameterName: y, type: DOUBLE, minValue: 2, maxValue: 1}\n");
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  const std::vector<std::string> expected = {
      "job.yaml:2:14: trainingInput.scaleTier is 'CUSTM'",
      "job.yaml:3:3: trainingInput has no key",
      "job.yaml:4:16: trainingInput.workerCount is 'two'",
      "job.yaml:7:32: trainingInput.masterConfig.acceleratorConfig.count is 'many'",
      "job.yaml:9:11: trainingInput.hyperparameters.goal is 'MAXIMISE'",
      "job.yaml:10:5: trainingInput.hyperparameters.maxTrials is 0",
      "job.yaml:12:32: trainingInput.hyperparameters.params[0].type is 'FLOAT'",
      "job.yaml:13:7: "};
  size_t at = 0;
  for (const std::string& mistake : expected) {
    at = error.message().find(mistake, at);
    ASSERT_NE(at, std::string::npos) << mistake << "\n" << error.message();
  }
  size_t count = 0;
  for (size_t found = 0; (found = error.message().find("job.yaml:", found)) != std::string::npos;
       ++found) {
    ++count;
  }
  EXPECT_EQ(count, expected.size()) << error.message();
  EXPECT_THAT(error.message(), HasSubstr("^\nhint: did you mean CUSTOM?\nerror: job.yaml:3:3"));
}

TEST(JobConfigTest, TheErrorShowsTheLineAndACaret) {
  const Error error = failure("scaleTier: CUSTOM\nmasterType: a\n\tworkerCount: 2\n");
  EXPECT_THAT(error.message(), HasSubstr("tab"));
  EXPECT_THAT(
      failure("trainingInput:\n  scaleTier: CUSTOM\n  masterType: a\n  workerCount: 2\n").message(),
      HasSubstr("\n    4 |   workerCount: 2\n      |   ^"));
}

// JSON of programs is mostly one line.
TEST(JobConfigTest, OfALongLineTheErrorShowsAPart) {
  const std::string args(5000, '1');
  const std::string message = failure("{\"trainingInput\": {\"region\": \"" + args +
                                      "\", \"maserType\": 1, \"jobDir\": \"" + args + "\"}}")
                                  .message();
  const auto lines = split(message, '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_LT(lines[1].size(), 200u);
  EXPECT_EQ(lines[1].find("\"maserType\""), lines[2].find('^')) << message;
  // Letters stay whole.
  std::string letters;
  for (int i = 0; i < 1000; ++i) letters += "ü";
  EXPECT_TRUE(is_utf8(
      failure("{\"trainingInput\": {\"region\": \"" + letters + "\", \"x\": \"" + letters + "\"}}")
          .message()));
}

TEST(JobConfigTest, TextsThatAProcessCannotGet) {
  EXPECT_THAT(failure("trainingInput: {args: [\"a\\0b\"]}").message(), HasSubstr("a byte of zero"));
  for (const char* name : {"A=B", "P Q", "A\\n"}) {
    EXPECT_THAT(failure(std::string("workerPoolSpecs:\n- machineSpec: {machineType: a}\n"
                                    "  containerSpec: {imageUri: i, env: [{name: \"") +
                        name + "\", value: x}]}\n")
                    .message(),
                AllOf(StartsWith("job.yaml:3:"), HasSubstr("cannot be the name of a variable")))
        << name;
  }
}

TEST(JobConfigTest, AnEmptyFileAndAScript) {
  EXPECT_THAT(failure("").message(), HasSubstr("job.yaml is empty"));
  EXPECT_THAT(failure("# nothing\n").message(), HasSubstr("job.yaml is empty"));
  EXPECT_THAT(failure("#!/bin/bash\n#SBATCH -n 2\n").message(), HasSubstr("a script: #!/bin/bash"));
}

TEST(JobConfigTest, BytesThatAreNotTextAreNotShown) {
  for (const std::string& bytes :
       {std::string("\x7f"
                    "ELF\2\1\1\0\0",
                    9),
        std::string("\x89PNG\r\n\x1a\n\0\0", 10), "trainingInput:" + std::string(2 << 20, '\0')}) {
    const Error error = failure(bytes);
    EXPECT_EQ(error.message(), "job.yaml is not text");
    EXPECT_THAT(error.hint(), HasSubstr("--config=FILE PROGRAM"));
  }
  // As an editor of another system writes it.
  std::string wide = "\xff\xfe";
  for (const char c : std::string("scaleTier: STANDARD_1\n")) wide += {c, '\0'};
  EXPECT_EQ(read_job_config(wide, "job.yaml").job.task_count(), 8);
}

// In the terms of JSON; wherever it is cut, and whatever is missing.
TEST(JobConfigTest, BrokenJsonIsToldAsJson) {
  const Error comma =
      failure("{\"trainingInput\": {\n  \"scaleTier\": \"BASIC\"\n  \"args\": [\"a\"]}}");
  EXPECT_THAT(comma.message(), AllOf(StartsWith("job.yaml is not valid JSON at line 3, column 8: "),
                                     HasSubstr("expected '}'"), HasSubstr("<-- here -->")));
  EXPECT_THAT(comma.hint(), AllOf(HasSubstr("comma"), Not(HasSubstr("YAML"))));
  const std::string whole = R"({"trainingInput": {"scaleTier": "BASIC", "args": ["a"]}})";
  EXPECT_EQ(read_job_config(whole, "job.yaml").job.args, std::vector<std::string>{"a"});
  for (size_t end = 1; end < whole.size(); ++end)
    EXPECT_THAT(failure(whole.substr(0, end)).message(), HasSubstr("is not valid JSON at line 1"))
        << end;
  // Braces of YAML.
  EXPECT_THAT(failure("{scaleTier: BASIC").message(), HasSubstr("neither YAML nor JSON"));
}

TEST(JobConfigTest, AliasesThatGrowOrHaveNoEndAreRefused) {
  EXPECT_THAT(failure("&a\nargs: [*a]\n").message(), HasSubstr("levels"));
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'i'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) bomb += "*" + before + (i < 9 ? ", " : "]\n");
  }
  EXPECT_THAT(failure(bomb).message(), HasSubstr("20,000 values"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
