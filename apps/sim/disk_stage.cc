#include "apps/sim/disk_stage.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::sim {

void DiskStage::start(Task& task, const std::string& name,
                      std::function<void(Stage::Process&, SimulatedDisk::Mount&)> body,
                      std::function<void()> ended) {
  Stage::Process& process = stage_.make_process();
  mounts_.push_back(disk_.mount(process));
  task.process = &process;
  task.files = mounts_.back().get();
  task.alive = true;
  stage_.start(process, [this, &task, &process, name, files = task.files, body = std::move(body),
                         ended = std::move(ended)] {
    note(fmt::format("process {}: {} begins", process.number(), name));
    try {
      body(process, *files);
    } catch (const Error& error) {
      note(fmt::format("process {}: {} ends: {}", process.number(), name, error.message()));
    }
    task.alive = false;
    if (!stage_.over()) ended();
  });
}

void DiskStage::cut_power() {
  for (const auto& files : mounts_) files->kill();
  disk_.cut_power();
}

void DiskStage::end_stage() {
  for (const auto& files : mounts_) files->kill();
  stage_.end();
}

}  // namespace muster::sim
