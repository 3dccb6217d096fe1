// Slurm's short way to write many host names: "gpu[01-03,7],login2,rack[1-2]n[0-3]".
// Thread safety: pure functions.
//
//   list  = name *("," name)
//   name  = one or more of: text, "[" range *("," range) "]"
//   range = digits | digits "-" digits        zeros in front are kept: 01-03 is 01, 02, 03; the
//                                             second number is not below the first
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::cluster {

// Returns the names in the order in which Slurm counts its nodes; of several brackets in one name
// the last one runs first. Throws InvalidArgument, with the place, for other text, and for a list
// of more than a million names.
std::vector<std::string> expand_nodelist(std::string_view list);

// Returns the names as a list that expand_nodelist() gives back as they were: neighbours that
// differ in the number at their end alone share a bracket. REQUIRES: names of letters, digits, '-',
// '_' and '.', none of them empty.
std::string compress_nodelist(const std::vector<std::string>& names);

// "2(x3),1": how many tasks each node has. Returns one number for each node, which is 0 if a node
// has none: "2,0,1". Throws InvalidArgument for another text, a count that comes 0 times, and one
// of more than a million nodes.
std::vector<int> expand_tasks_per_node(std::string_view text);

}  // namespace muster::inline v0_1::cluster
