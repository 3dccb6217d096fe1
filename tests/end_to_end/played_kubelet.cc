#include "tests/end_to_end/played_kubelet.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

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

// The network namespace of each host, if they have some of their own.
std::map<std::string, std::string> host_networks;

// Makes a network namespace for each host, and a bridge between them: host i has 10.77.0.i. They
// end with the mount namespace, in which their names are. Returns whether it was permitted.
bool make_hosts(const std::vector<std::string>& hosts) {
  if (mount("none", "/run", "tmpfs", 0, nullptr) != 0) return false;
  std::string script =
      "set -e; exec >/dev/null 2>&1; ip link add pods type bridge; ip link set pods up;";
  for (size_t i = 1; i <= hosts.size(); ++i) {
    const std::string n = std::to_string(i);
    script += "ip netns add host" + n + "; ip link add to" + n +
              " type veth peer name eth0 netns host" + n + "; ip link set to" + n +
              " master pods up; ip -n host" + n + " link set lo up; ip -n host" + n +
              " addr add 10.77.0." + n + "/24 dev eth0; ip -n host" + n + " link set eth0 up;";
  }
  return std::system(script.c_str()) == 0;
}

}  // namespace

Network enter_network(const std::vector<std::string>& hosts) {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return Network::kNone;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return Network::kNone;
  if (!bring_up_loopback()) return Network::kNone;
  const bool apart = make_hosts(hosts);
  static const TempDirectory folder;  // as long as this process
  std::ofstream file(folder / "hosts");
  file << "127.0.0.1 localhost\n";
  for (size_t i = 0; i < hosts.size(); ++i) {
    file << (apart ? "10.77.0." : "127.0.1.") << i + 1 << " " << hosts[i] << "\n";
    if (apart) host_networks[hosts[i]] = "host" + std::to_string(i + 1);
  }
  file.close();
  if (mount((folder / "hosts").c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0)
    return Network::kNone;
  return apart ? Network::kHosts : Network::kOneHost;
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
    hosts.push_back(host_of(name, pod));
  }
  return hosts;
}

std::string PlayedKubelet::host_of(const std::string& name, const Pod& pod) {
  return name + "." + pod.job->at("/spec/template/spec/subdomain"_json_pointer).get<std::string>();
}

const json& PlayedKubelet::secret(const std::string& name) const {
  const auto it = std::ranges::find_if(documents_, [&](const json& document) {
    return document.at("kind") == "Secret" && document.at("metadata").at("name") == name;
  });
  if (it == documents_.end()) throw std::runtime_error("there is no Secret " + name);
  return *it;
}

std::map<std::string, std::string> PlayedKubelet::mount_secrets(const Pod& pod) const {
  const json& spec = pod.job->at("/spec/template/spec"_json_pointer);
  std::map<std::string, std::string> folders;
  for (const json& volume : spec.value("volumes", json::array())) {
    if (!volume.contains("secret")) continue;
    const json& source = volume["secret"];
    const std::string folder = mounts_ / source.at("secretName").get<std::string>();
    std::filesystem::create_directories(folder);
    for (const json& item : source.at("items")) {
      const std::string path = folder + "/" + item.at("path").get<std::string>();
      std::ofstream(path) << secret(source["secretName"])["stringData"]
                                 .at(item.at("key").get<std::string>())
                                 .get<std::string>();
      chmod(path.c_str(), source.at("defaultMode").get<mode_t>());
    }
    for (const json& mount : spec.at("containers").at(0).at("volumeMounts")) {
      if (mount.at("name") == volume.at("name")) folders[mount.at("mountPath")] = folder;
    }
  }
  return folders;
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
      value = secret(reference.at("name"))["stringData"].at(reference["key"].get<std::string>());
    }
  }
  // All pods see one file system here, so files of a Secret are elsewhere for each.
  for (const auto& [place, folder] : mount_secrets(pod)) {
    for (auto& [name, value] : variables) {
      if (value.starts_with(place + "/")) value = folder + value.substr(place.size());
    }
  }
  // The controller adds it where the manifest does not.
  variables.emplace("JOB_COMPLETION_INDEX", std::to_string(pod.index));
  return variables;
}

void PlayedKubelet::start(const std::string& name, Pod& pod) {
  const json& container = pod.job->at("/spec/template/spec/containers/0"_json_pointer);
  const Variables variables = variables_of(pod);
  Words words;
  if (const auto it = host_networks.find(host_of(name, pod)); it != host_networks.end())
    words = {"ip", "netns", "exec", it->second};  // which becomes the program
  for (const char* part : {"command", "args"}) {
    for (const json& word : container.value(part, json::array())) {
      words.push_back(expanded(word, variables));
    }
  }
  pod.processes.push_back(std::make_unique<Program>(words, variables));
}

void PlayedKubelet::start() {
  for (auto& [name, pod] : pods_) start(name, pod);
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
      start(name, pod);
    }
    if (std::chrono::steady_clock::now() > end) {
      std::string printed;
      for (const auto& [name, pod] : pods_) {
        for (const auto& process : pod.processes) printed += name + ":\n" + process->output();
      }
      throw std::runtime_error("the job did not end; its pods printed:\n" + printed);
    }
    // Ends of processes are looked for as often as this; nothing depends on it.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace muster::testing
