#include "tests/end_to_end/played_kubelet.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "muster/base/temp_directory.h"

namespace muster::testing {
namespace {

using nlohmann::json;

bool bring_up_loopback() {
  const int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool up = descriptor >= 0 && ioctl(descriptor, SIOCSIFFLAGS, &request) == 0;
  if (descriptor >= 0) close(descriptor);
  return up;
}

// Replaces $(NAME) by variables that are known, and $$ by $, as Kubernetes does.
std::string expanded(const std::string& text, const Variables& known) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      result += text[i];
    } else if (text[i + 1] == '$') {
      result += text[i++];
    } else {
      const size_t end = text[i + 1] == '(' ? text.find(')', i) : std::string::npos;
      const auto it =
          end == std::string::npos ? known.end() : known.find(text.substr(i + 2, end - i - 2));
      if (it == known.end()) {
        result += text[i];
      } else {
        result += it->second;
        i = end;
      }
    }
  }
  return result;
}

}  // namespace

bool enter_network(const std::vector<std::string>& hosts) {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return false;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (!bring_up_loopback()) return false;
  static const TempDirectory folder;  // as long as this process
  std::ofstream file(folder / "hosts");
  file << "127.0.0.1 localhost\n";
  int number = 1;
  for (const std::string& host : hosts) file << "127.0.1." << number++ << " " << host << "\n";
  file.close();
  return mount((folder / "hosts").c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
}

PlayedKubelet::PlayedKubelet(std::vector<json> documents) : documents_(std::move(documents)) {
  for (const json& document : documents_) {
    if (document.at("kind") != "Job") continue;
    for (int i = 0; i < document.at("spec").at("completions"); ++i) {
      const std::string name = document.at("metadata").at("name");
      Pod& pod = pods_[name + "-" + std::to_string(i)];
      pod.job = &document;
      pod.index = i;
    }
  }
}

std::vector<std::string> PlayedKubelet::hosts() const {
  std::vector<std::string> hosts;
  for (const auto& [name, pod] : pods_) {
    const std::string subdomain = pod.job->at("/spec/template/spec/subdomain"_json_pointer);
    hosts.push_back(name + "." + subdomain);
  }
  return hosts;
}

Variables PlayedKubelet::variables_of(const Pod& pod) const {
  const json& container = pod.job->at("/spec/template/spec/containers/0"_json_pointer);
  Variables variables;
  for (const json& variable : container.value("env", json::array())) {
    std::string& value = variables[variable.at("name")];
    if (variable.contains("value")) {
      value = expanded(variable.at("value"), variables);
    } else if (variable.at("valueFrom").contains("fieldRef")) {
      EXPECT_EQ(variable["valueFrom"]["fieldRef"]["fieldPath"],
                "metadata.annotations['batch.kubernetes.io/job-completion-index']");
      value = std::to_string(pod.index);
    } else {
      const json& reference = variable.at("valueFrom").at("secretKeyRef");
      for (const json& document : documents_) {
        if (document["kind"] != "Secret" || document["metadata"]["name"] != reference["name"]) {
          continue;
        }
        value = document["stringData"].at(reference["key"].get<std::string>());
      }
    }
  }
  // The controller adds it where the manifest does not.
  variables.emplace("JOB_COMPLETION_INDEX", std::to_string(pod.index));
  return variables;
}

void PlayedKubelet::start(Pod& pod) {
  const json& container = pod.job->at("/spec/template/spec/containers/0"_json_pointer);
  const Variables variables = variables_of(pod);
  Words words;
  for (const char* part : {"command", "args"}) {
    for (const json& word : container.value(part, json::array())) {
      words.push_back(expanded(word, variables));
    }
  }
  pod.processes.push_back(std::make_unique<Program>(words, variables));
}

void PlayedKubelet::start() {
  for (auto& [name, pod] : pods_) start(pod);
}

void PlayedKubelet::kill_pod(const std::string& pod) { running(pod).signal(SIGKILL); }

Program& PlayedKubelet::running(const std::string& pod) { return *pods_.at(pod).processes.back(); }

std::string PlayedKubelet::output(const std::string& pod, size_t attempt) const {
  return pods_.at(pod).processes.at(attempt)->output();
}

std::vector<int> PlayedKubelet::exit_codes(const std::string& pod) const {
  return pods_.at(pod).exit_codes;
}

bool PlayedKubelet::may_restart(const Pod& pod, int code) {
  const json& spec = pod.job->at("spec");
  for (const json& rule : spec.at("podFailurePolicy").at("rules")) {
    if (!rule.contains("onExitCodes")) continue;
    const std::vector<int> values = rule["onExitCodes"]["values"];
    const bool listed = std::ranges::find(values, code) != values.end();
    if (listed == (rule["onExitCodes"]["operator"] == "In")) return rule["action"] != "FailJob";
  }
  return ++failures_[pod.job->at("metadata").at("name")] <= spec.at("backoffLimit").get<int>();
}

bool PlayedKubelet::run(std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (bool all_done = false; !all_done;) {
    all_done = true;
    for (auto& [name, pod] : pods_) {
      if (!pod.exit_codes.empty() && pod.exit_codes.back() == 0) continue;
      all_done = false;
      if (pod.processes.back()->running()) continue;
      const int code = pod.processes.back()->wait();
      pod.exit_codes.push_back(code < 0 ? 128 - code : code);
      if (code == 0) continue;
      if (!may_restart(pod, pod.exit_codes.back())) return false;
      start(pod);
    }
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("the job did not end");
    // Ends of processes are looked for as often as this; nothing depends on it.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace muster::testing
