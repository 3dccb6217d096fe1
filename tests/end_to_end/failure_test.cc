// Tasks that never appear, die, stand still or are told to stop: who is named, the exit codes, and
// that the others do not wait for ever.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "muster/base/free_ports.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Far more steps than any test waits for.
const Words kLong = {"--max_steps=1000000", "--save_checkpoints_steps=1000000"};

std::string local(int port) { return "127.0.0.1:" + std::to_string(port); }

// How often `text` stands in `whole`.
int count(const std::string& whole, const std::string& text) {
  int found = 0;
  for (size_t at = 0; (at = whole.find(text, at)) != std::string::npos; at += text.size()) ++found;
  return found;
}

// Nothing of glog or the runtime between our lines.
void expect_no_noise(const std::string& output) {
  EXPECT_THAT(output, AllOf(Not(HasSubstr(".cc:")), Not(HasSubstr("terminate called")),
                            Not(HasSubstr("GRPC"))));
}

// A port nobody else gets while this lives.
class BusyPort {
 public:
  BusyPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, generic, size) != 0 || ::listen(socket_, 1) != 0 ||
        ::getsockname(socket_, generic, &size) != 0) {
      ADD_FAILURE() << "cannot hold a port";
    }
    port_ = ntohs(address.sin_port);
  }
  ~BusyPort() { ::close(socket_); }
  int port() const { return port_; }

 private:
  int socket_;
  int port_ = 0;
};

TEST(MissingWorker, IsNamedSoonAndTheWaitCanBeStopped) {
  const TempDirectory directory;
  const std::vector<int> ports = free_ports(2);
  const std::vector<std::string> addresses = {local(ports[0]), local(ports[1])};
  for (int index : {0, 1}) {
    Program program(mnist(directory / "model", kLong), worker_of(addresses, index));
    // Said within 10 s of its start; a loaded machine gets more.
    program.wait_for("is waiting for worker " + std::to_string(1 - index) + " at " +
                         addresses[static_cast<size_t>(1 - index)],
                     25s);
    program.signal(index == 0 ? SIGINT : SIGTERM);
    EXPECT_EQ(program.wait(25s), index == 0 ? 130 : 143) << program.output();
    EXPECT_THAT(program.output(), HasSubstr("stopped"));
    expect_no_noise(program.output());
  }
}

TEST(MissingWorker, WithAHostNameThatIsNotKnownIsToldSo) {
  const TempDirectory directory;
  Variables environment = worker_of({"no-such-host.invalid:2222", local(free_port())}, 1);
  environment["MUSTER_JOB_TOKEN"] = "a token of this test alone";
  Program program(mnist(directory / "model", kLong), environment);
  program.wait_for("is waiting for worker 0 at no-such-host.invalid:2222", 25s);
  EXPECT_THAT(program.output(), HasSubstr("its host name is not known here"));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(25s), 130) << program.output();
}

TEST(MissingWorker, ThatCannotStartTellsTheChief) {
  const TempDirectory directory;
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  Program chief(mnist(directory / "model", kLong), worker_of(addresses, 0));
  Program worker({binary("mnist"), "--data_dir=/nowhere", "--model_dir=" + directory / "model"},
                 worker_of(addresses, 1));
  EXPECT_EQ(worker.wait(25s), 2) << worker.output();
  EXPECT_EQ(chief.wait(25s), 2) << chief.output();
  EXPECT_THAT(chief.output(), HasSubstr("worker 1 failed while joining: NotFound: it could not "
                                        "start: the data directory /nowhere does not exist"));
}

TEST(MissingChief, ThatCannotStartTellsWhoAsks) {
  const TempDirectory directory;
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  Program worker(mnist(directory / "model", kLong), worker_of(addresses, 1));
  Program chief({binary("mnist"), "--data_dir=/nowhere", "--model_dir=" + directory / "model"},
                worker_of(addresses, 0));
  EXPECT_EQ(chief.wait(25s), 2) << chief.output();
  EXPECT_EQ(worker.wait(25s), 2) << worker.output();
  EXPECT_THAT(worker.output(), HasSubstr("worker 0 failed while joining: NotFound: it could not "
                                         "start: the data directory /nowhere does not exist"));
}

// A refused process is not a task of this run, and does not end it.
TEST(Refused, TasksDoNotEndTheRunThatRefusesThem) {
  const TempDirectory directory;
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  Program chief(mnist(directory / "model", {"--max_steps=4"}), worker_of(addresses, 0));
  Program of_another(mnist(directory / "other", kLong),
                     worker_of({addresses[0], local(free_port())}, 1));
  EXPECT_EQ(of_another.wait(25s), 2) << of_another.output();
  EXPECT_THAT(of_another.output(), HasSubstr("belongs to another cluster"));
  Program worker(mnist(directory / "model", {"--max_steps=4"}), worker_of(addresses, 1));
  EXPECT_EQ(chief.wait(25s), 0) << chief.output();
  EXPECT_EQ(worker.wait(25s), 0) << worker.output();
}

// Flags that must agree: both tasks hear which differ, before anything is trained.
TEST(DifferentFlags, AreToldToAllTasks) {
  struct Case {
    Words first, second;
    std::string said;
  };
  const auto batches = [](const std::string& size) {
    return Words{"--max_steps=100", "--save_checkpoints_steps=50", "--batch_size=" + size};
  };
  const std::vector<Case> cases = {
      {{"--max_steps=400"}, {"--max_steps=300"}, "max_steps is 300 on worker 1; 400 on worker 0"},
      {{"--seed=1"}, {"--seed=2"}, "seed is 1 on worker 0; 2 on worker 1"},
      {batches("64"), batches("32"), "batch_size is 32 on worker 1; 64 on worker 0"}};
  for (const auto& [first, second, said] : cases) {
    const TempDirectory directory;
    const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
    Program one(mnist(directory / "model", first), worker_of(addresses, 0));
    Program two(mnist(directory / "model", second), worker_of(addresses, 1));
    for (Program* program : {&one, &two}) {
      EXPECT_EQ(program->wait(40s), 2) << program->output();
      EXPECT_THAT(program->output(), HasSubstr(said));
    }
  }
}

// The same of a loop written by hand.
TEST(DifferentFlags, OfALoopAreToldToAllTasks) {
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  const auto loop = [](const std::string& batch_size) {
    return Words{binary("custom_loop"), "--strategy=multi_worker", "--batch_size=" + batch_size};
  };
  Program one(loop("50"), worker_of(addresses, 0));
  Program two(loop("25"), worker_of(addresses, 1));
  for (Program* program : {&one, &two}) {
    EXPECT_EQ(program->wait(40s), 2) << program->output();
    EXPECT_THAT(program->output(), HasSubstr("batch_size is 25 on worker 1; 50 on worker 0"));
  }
}

TEST(DifferentTransports, AreToldToAllTasks) {
  const TempDirectory directory;
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  const auto over = [&](int index, const std::string& transport) {
    Variables variables = worker_of(addresses, index);
    variables["MUSTER_TRANSPORT"] = transport;
    return variables;
  };
  Program one(mnist(directory / "model", kLong), over(0, "tcp"));
  Program two(mnist(directory / "model", kLong), over(1, "shared_memory"));
  for (Program* program : {&one, &two}) {
    EXPECT_EQ(program->wait(40s), 2) << program->output();
    EXPECT_THAT(program->output(),
                HasSubstr("transport is shared_memory on worker 1; tcp on worker 0"));
  }
}

// Nothing keeps unauthenticated peers out of a cluster that other machines can reach.
TEST(Token, IsAskedForWhereOthersCouldConnect) {
  const TempDirectory directory;
  const Ran ran =
      run(mnist(directory / "model", kLong), worker_of({"192.0.2.1:2222", "192.0.2.2:2222"}, 1));
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("export MUSTER_JOB_TOKEN="));
}

// A worker of one job that was given the address of another job's chief.
TEST(Token, KeepsTheTasksOfAnotherJobOut) {
  const TempDirectory directory;
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  const auto of_job = [&](int index, const std::string& name) {
    Variables variables = worker_of(addresses, index);
    variables["MUSTER_JOB_ID"] = name;
    variables["MUSTER_JOB_TOKEN"] = "the token of the job " + name;
    return variables;
  };
  const Words two_steps = {"--max_steps=2"};
  Program chief(mnist(directory / "model", two_steps), of_job(0, "ours"));
  Program intruder(mnist(directory / "other", two_steps), of_job(1, "theirs"));
  EXPECT_EQ(intruder.wait(25s), 2) << intruder.output();
  EXPECT_THAT(intruder.output(), AllOf(HasSubstr("'ours'"), HasSubstr("'theirs'")));
  chief.wait_for("refused a connection from 127.0.0.1: it shows the token of another job", 25s);
  Program worker(mnist(directory / "model", two_steps), of_job(1, "ours"));
  EXPECT_EQ(chief.wait(40s), 0) << chief.output();
  EXPECT_EQ(worker.wait(25s), 0) << worker.output();
  EXPECT_THAT(chief.output() + worker.output(), Not(HasSubstr("the token of the job")));
}

// Kubernetes sends SIGTERM, and SIGKILL 30 s later.
TEST(Sigterm, IsHeardWhileTheOthersStandStill) {
  const TempDirectory directory;
  const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
  Program one(mnist(directory / "model", kLong), worker_of(addresses, 0));
  Program two(mnist(directory / "model", kLong), worker_of(addresses, 1));
  one.wait_for("step 1/");
  two.signal(SIGSTOP);
  one.signal(SIGTERM);
  const int code = one.wait(25s);
  EXPECT_TRUE(code == 143 || code == 138) << code << one.output();
  two.signal(SIGCONT);
  EXPECT_NE(two.wait(25s), 0) << two.output();
}

// Before the group has formed: the same for who serves it and for who asks.
TEST(Sigterm, EndsAWaitForOthersAtOnce) {
  for (const size_t task : {0, 1}) {
    const TempDirectory directory;
    const std::vector<std::string> addresses = {local(free_port()), local(free_port())};
    Program program(mnist(directory / "model", kLong), worker_of(addresses, task));
    program.wait_for("is waiting for");
    program.signal(SIGTERM);
    // Long before the 20 s after which a task ends that others keep from saving.
    EXPECT_EQ(program.wait(15s), 143) << program.output();
  }
}

// A loop written by hand that asks should_stop(): one task gets the signal, all save the same step.
TEST(Sigterm, OfOneTaskEndsALoopBehindTheSameStep) {
  const TempDirectory directory;
  const auto loop = [&](const std::string& epochs) {
    return muster_run({"--workers=2"},
                      {binary("custom_loop"), "--strategy=multi_worker",
                       "--model_dir=" + directory / "model", "--epochs=" + epochs});
  };
  Program program(loop("1000000"));
  program.wait_for("epoch  2 ");
  ASSERT_EQ(::kill(program.task("worker", 1), SIGTERM), 0);
  EXPECT_EQ(program.wait(40s), 143) << program.output();
  EXPECT_THAT(program.output(),
              AllOf(HasSubstr("stopped by SIGTERM after saving step "),
                    HasSubstr("worker 1 was asked to stop; all stopped after saving")));
  const Ran again = run(loop("1"));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("continuing after step"));
}

TEST(PortInUse, IsSaidWithTheAddressAndAsksForARestart) {
  const TempDirectory directory;
  const BusyPort busy;
  const Ran ran = run(mnist(directory / "model", kLong),
                      worker_of({local(busy.port()), local(free_port())}, 0));
  EXPECT_EQ(ran.code, 138) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr(local(busy.port())), HasSubstr("ddress already in use"),
                                HasSubstr("hint: ")));
  expect_no_noise(ran.output);
}

TEST(PortInUse, MusterRunTakesNewPortsOnce) {
  const TempDirectory directory;
  const BusyPort busy;
  // The first start of worker 0 finds its port taken.
  const std::string script =
      "sed_() { echo \"$TF_CONFIG\" | sed -E 's/(\"worker\":\\[\"127.0.0.1:)[0-9]+/\\1" +
      std::to_string(busy.port()) +
      "/'; }\n"
      "case \"$TF_CONFIG\" in *'\"index\":0'*) task=0 ;; *) task=1 ;; esac\n"
      "if mkdir '" +
      directory / "started" +
      "'.$task 2>/dev/null; then TF_CONFIG=$(sed_); fi\n"
      "exec \"$@\"\n";
  Words program = {"/bin/sh", "-c", script, "sh"};
  for (const std::string& word : mnist(directory / "model", {"--max_steps=2"})) {
    program.push_back(word);
  }
  const Ran ran = run(muster_run({"--workers=2"}, program));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(count(ran.output, "starting all tasks again on new ports"), 1) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("result: {\"global_step\":2"));
}

struct Loss {
  int signal;
  int victim;
};

class LossTest : public ::testing::TestWithParam<Loss> {};

// What is seen of a task that was killed, or that stands still, while it trains.
TEST_P(LossTest, IsNamedByTheSurvivorAndByMusterRun) {
  const auto [signal, victim] = GetParam();
  const std::string lost = "worker " + std::to_string(victim);
  const std::string other = "worker " + std::to_string(1 - victim);
  const TempDirectory directory;
  // One that stands still is not waited for.
  const Words options =
      signal == SIGKILL ? Words{"--workers=2"} : Words{"--workers=2", "--survivor-time=1"};
  Program program(muster_run(options, mnist(directory / "model", kLong)));
  program.wait_for("step 101/");
  ASSERT_EQ(::kill(program.task("worker", victim), signal), 0);
  program.wait_for("[" + other + "] E ", 30s);
  // The root cause is a task that died by itself; one that stands still did not.
  const int code = program.wait(40s);
  const std::string output = program.output();
  if (signal == SIGKILL) {
    EXPECT_EQ(code, 137) << output;
    EXPECT_THAT(output, HasSubstr("stopped because " + lost + " failed: killed by SIGKILL"));
  } else {
    EXPECT_EQ(code, 138) << output;
  }
  EXPECT_THAT(output, AllOf(HasSubstr("] E "),
                            HasSubstr("PeerLost: " + lost + " was lost, last heard of at step"),
                            HasSubstr("; this task is at step "), HasSubstr("(training)"),
                            HasSubstr("[muster] " + other + ": exit code 138")));
  EXPECT_EQ(count(output, "[" + other + "] E "), 1) << output;
  expect_no_noise(output);
  // Nothing was lost: the same directory goes on.
  const Ran again = run(mnist(directory / "model", {"--max_steps=2"}));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("continuing after step 0"));
}

INSTANTIATE_TEST_SUITE_P(Cases, LossTest,
                         ::testing::Values(Loss{SIGKILL, 1}, Loss{SIGKILL, 0}, Loss{SIGSTOP, 1},
                                           Loss{SIGSTOP, 0}),
                         [](const auto& info) {
                           return std::string(info.param.signal == SIGKILL ? "Kill" : "Stop") +
                                  "Worker" + std::to_string(info.param.victim);
                         });

TEST(NonFinite, EndsAllWorkersWithOneReason) {
  const TempDirectory directory;
  const Ran ran = run(muster_run(
      {"--workers=2"}, mnist(directory / "model", {"--max_steps=20", "--learning_rate=1e30"})));
  EXPECT_EQ(ran.code, 1) << ran.output;
  EXPECT_THAT(ran.output,
              AllOf(HasSubstr("NonFinite: the loss over all replicas is"), HasSubstr("at step 2")));
  expect_no_noise(ran.output);
}

TEST(MissingData, OfOneWorkerEndsTheOthersWithItsReason) {
  const TempDirectory directory;
  // Worker 1 looks for its data in the wrong place.
  const std::string script =
      "case \"$TF_CONFIG\" in *'\"index\":1'*) data=/nowhere ;; *) data=" + digits() +
      " ;; esac\nexec \"$@\" --data_dir=$data --max_steps=1000000\n";
  const Words program = {
      "/bin/sh", "-c", script, "sh", binary("mnist"), "--model_dir=" + directory / "model"};
  const Ran ran = run(muster_run({"--workers=2", "--survivor-time=20"}, program));
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr("the data directory /nowhere does not exist"),
                                HasSubstr("stopped because worker 1 failed: exit code 2")));
  expect_no_noise(ran.output);
}

// Each waits for the other for seconds, where that does not know yet; on a busy machine the tasks
// may begin far from each other.
TEST(WrongFlag, OfAllWorkersNeedsNoWaiting) {
  const TempDirectory directory;
  Ran ran;
  for (int i = 0; i < 5; ++i) {
    ran = run(muster_run({"--workers=2"}, mnist(directory / "model", {"--epocs=5"})));
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_EQ(count(ran.output, "did you mean --epochs?"), 2) << ran.output;
    if (ran.output.find(", for ") == std::string::npos) break;
  }
  EXPECT_THAT(ran.output, Not(HasSubstr(", for "))) << "neither told the other in time";
}

TEST(KillingMusterRun, LeavesNoTaskBehind) {
  const TempDirectory directory;
  Program program(muster_run({"--workers=2"}, mnist(directory / "model", kLong)));
  program.wait_for("step 1/");
  const std::vector<pid_t> tasks = program.children();
  EXPECT_EQ(tasks.size(), 3u);  // two tasks, and the process that ends what they leave behind
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait(), -SIGKILL);
  wait_until_gone(tasks);
}

}  // namespace
}  // namespace muster::testing
