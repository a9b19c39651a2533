// Which tests stand for which of the reported cases.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace nestplan::cases {
namespace {

namespace fs = std::filesystem;

const fs::path kTests = fs::path(NESTPLAN_SOURCE_DIR) / "tests";

/// Tests by the case that they stand for: those here, called after it, and others, in the file in
/// which they are.
const std::map<std::string, std::vector<std::string>>& catalogue() {
  static const std::map<std::string, std::vector<std::string>> table{
      {"V02", {"targets/cases_test.cpp FiftyTwoHeadsDoNotSplitEightWays"}},
      {"V03", {}},
      {"V05", {"targets/cases_test.cpp ASingleStageHasNoNumberOfLayers"}},
      {"V07", {"targets/cases_test.cpp InterleavingOverTwoStagesNeedsOverlap"}},
      {"V08", {"targets/cases_test.cpp VocabulariesArePaddedByTensorDegree"}},
      {"V09", {"targets/cases_test.cpp BatchesAreSplitOverCopiesNotDevices"}},
      {"V11", {"targets/cases_test.cpp ExpertTensorDegreeIsInheritedUnlessItIsSet"}},
      {"V12", {"targets/cases_test.cpp ExpertsAreCarvedOutOfShardedRanks"}},
      {"V14", {"targets/cases_test.cpp TradedHeadsAllowReplicatedKvHeads"}},
      {"V15", {"targets/cases_test.cpp ShardedGradientsAndPipelinesExcludeEachOther"}},
      {"V16", {"cost/profile_strategy_test.cpp JoinTheCopiesOfTheTokenTable"}},
      {"V17", {"targets/cases_test.cpp TorchPipelinesSplitTheLocalBatch"}},
      {"V18",
       {"targets/cases_test.cpp ExpertsTurnSequenceParallelismOn",
        "targets/cases_test.cpp Fp8NeedsSequencesInSixteens"}},
      {"M01", {}},
      {"M02", {"cost/memory_test.cpp FormulaOfEveryZeroStage"}},
      {"M03", {}},
      {"M05", {}},
      {"M07", {}},
      {"M09", {"cost/profile_moe_test.cpp WhatADeviceKeepsDoesNotDependOnTheirDealingOut"}},
      {"M11", {}},
      {"M12", {}},
      {"M13", {}},
      {"M14", {}},
      {"M15", {}},
      {"M16", {"cost/profile_strategy_test.cpp OfAGptBlockAreTwoHundredAndSeventyTwoMebibytes"}},
      {"M17", {}},
      {"P01", {}},
      {"P03", {}},
      {"P04", {}},
      {"P06", {}},
      {"P07", {}},
      {"P08", {}},
      {"P09", {}},
      {"P10", {}},
      {"P12", {}},
      {"N01", {}},
      {"N02", {}},
      {"N04", {}},
      {"N05",
       {"network/node_choice_test.cpp GroupsThatFillRacksStraddle",
        "placement/groups_test.cpp CountGroupsThatStraddleRacks"}},
      {"N06",
       {"network/node_choice_test.cpp SegmentsStayInRacks",
        "placement/groups_test.cpp AreTheNodesOfAnExpertGroup"}},
      {"N07", {"network/node_choice_test.cpp UnknownPlacesComeLast"}},
      {"N09", {"network/links_test.cpp OversubscribedLeaves"}},
      {"N10",
       {"network/rails_test.cpp TwoNodesOfTwoOnIsolatedRails",
        "placement/groups_test.cpp CountGroupsThatMixRails"}},
      {"N12",
       {"network/torus_grid_test.cpp MustNotCutHosts",
        "network/torus_grid_test.cpp RingOfEightGoesAlongOneRowAndBackAlongTheOther"}},
      {"N13", {"network/torus_grid_test.cpp DegreesFitEachNetworkByItself"}},
      {"N14", {"network/node_choice_test.cpp LostNodes"}},
      {"N15", {}},
      {"U01", {"solver/infeasible_test.cpp MemoryThatIsAskedForIsExactlyEnough"}},
      {"U02", {"cli/bad_input_test.cpp MissingFileNamesTheNearest"}},
      {"U03", {"cli/batch_test.cpp AFailingJobDoesNotStopTheOthers"}},
      {"U04", {"solver/stopping_test.cpp AtATimeLimit"}},
      {"U05", {"distributed/ranks_test.cpp AFailureOfAllIsSaidByTheFirst"}},
      {"U06", {"targets/cases_test.cpp SixDevicesOfANodeAreSplitByTheirDivisors"}},
      {"U07", {}},
      {"U09", {"distributed/solve_test.cpp EqualsSerialOnRandomProblems"}},
      {"U10", {"cli/bad_input_test.cpp NonFiniteNumbers"}},
      {"U11", {}},
      {"U13", {}},
      {"U14", {}},
      {"U15", {}},
      {"U16", {}},
      {"U17", {"io/graph_file_test.cpp EdgesMakeAnAcyclicGraph"}},
      {"U18", {"targets/cases_test.cpp SingleDegreesAreLegal"}},
  };
  return table;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Ids of cases in the names of the tests of this folder.
std::set<std::string> tested_here() {
  std::set<std::string> ids;
  const std::regex name(R"(TEST(_F)?\(\s*\w*,?\s*Case([VMPNU]\d\d))");
  for (const auto& file : fs::directory_iterator(kTests / "cases")) {
    if (file.path().extension() != ".cpp") continue;
    const std::string text = text_of(file.path());
    for (auto it = std::sregex_iterator(text.begin(), text.end(), name);
         it != std::sregex_iterator(); ++it) {
      ids.insert((*it)[2]);
    }
  }
  return ids;
}

TEST(Catalogue, EveryCaseHasATest) {
  const std::set<std::string> here = tested_here();
  for (const auto& [id, others] : catalogue()) {
    EXPECT_TRUE(here.contains(id) || !others.empty()) << id;
    for (const std::string& test : others) {
      const std::size_t blank = test.find(' ');
      const std::string text = text_of(kTests / test.substr(0, blank));
      EXPECT_NE(text.find(", " + test.substr(blank + 1) + ")"), std::string::npos) << test;
    }
  }
  for (const std::string& id : here) EXPECT_TRUE(catalogue().contains(id)) << id;
}

TEST(Catalogue, EveryReportedCaseIsListed) {
  const fs::path file = kTests.parent_path().parent_path() / "shared" / "cases" / "cases.json";
  if (!fs::exists(file)) GTEST_SKIP() << "no reported cases at " << file;
  int seen = 0;
  for (const auto& item : nlohmann::json::parse(text_of(file))) {
    const std::string id = item.at("id");
    if (std::string("VMPNU").find(id.front()) == std::string::npos) continue;
    ++seen;
    EXPECT_TRUE(catalogue().contains(id)) << id;
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace nestplan::cases
