#include "apps/sim/scenarios.h"

#include "apps/sim/elastic_scenario.h"
#include "apps/sim/evaluator_scenario.h"
#include "apps/sim/group_scenario.h"
#include "apps/sim/rendezvous_scenario.h"
#include "apps/sim/save_scenario.h"
#include "apps/sim/servers_scenario.h"

namespace muster::sim {

std::vector<std::unique_ptr<Scenario>> all_scenarios() {
  std::vector<std::unique_ptr<Scenario>> all;
  all.push_back(std::make_unique<SaveScenario>());
  all.push_back(std::make_unique<GroupScenario>());
  all.push_back(std::make_unique<ElasticScenario>());
  all.push_back(std::make_unique<RendezvousScenario>());
  all.push_back(std::make_unique<EvaluatorScenario>());
  all.push_back(std::make_unique<ServersScenario>());
  return all;
}

}  // namespace muster::sim
