// A rank of a group on one host, as each of its ranks sees it. No LibTorch here.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "muster/base/file_descriptor.h"
#include "muster/collectives/internal/control_page.h"

namespace muster::inline v0_1::internal {

struct GroupMember {
  // A ControlPage. Between processes its two staging buffers follow.
  std::shared_ptr<std::byte> control{};
  // To the process of this rank; closed for this rank itself, and between threads of one process.
  FileDescriptor socket{};

  ControlPage& page() const { return *reinterpret_cast<ControlPage*>(control.get()); }
};

// By rank. The engine and the classes that move data for it share them.
using GroupMembers = std::shared_ptr<const std::vector<GroupMember>>;

// Ranks that are threads of this process.
inline GroupMembers members_of_one_process(int size) {
  std::vector<GroupMember> members(static_cast<size_t>(size));
  for (GroupMember& member : members) {
    auto page = std::make_shared<ControlPage>();
    member.control = std::shared_ptr<std::byte>(page, reinterpret_cast<std::byte*>(page.get()));
  }
  return std::make_shared<const std::vector<GroupMember>>(std::move(members));
}

}  // namespace muster::inline v0_1::internal
