#include "nestplan/frameworks/layers.hpp"

#include <gtest/gtest.h>

namespace nestplan::frameworks {
namespace {

using Parts = std::vector<std::vector<std::string>>;

std::string layout_of(const Parts& parts) {
  const CountedParts result = counted(parts);
  return result.problem.empty() ? targets::megatron_layout(result.layout) : result.problem;
}

TEST(Layers, AreCountedPartByPart) {
  EXPECT_EQ(layout_of({{"embedding", "layer.0", "layer.1", "head"}}), "EttL");
  EXPECT_EQ(layout_of({{"embedding"}, {"layer.0", "layer.1"}, {"layer.2", "mtp.0", "head"}}),
            "E|tt|tmL");
}

TEST(Layers, MayBeInPieces) {
  EXPECT_EQ(layout_of({{"embedding", "layer.0.attention", "layer.0.mlp"},
                       {"layer.1.attention", "layer.1.mlp", "head.norm", "head.output"}}),
            "Et|tL");
  const std::string cut = layout_of({{"embedding", "layer.0.attention"}, {"layer.0.mlp", "head"}});
  EXPECT_EQ(cut, "\"layer.0.mlp\" is cut from what the stage before holds of its layer");
}

TEST(Layers, ThatCountsCannotTellAreRefused) {
  const auto says = [](const Parts& parts, const std::string& what) {
    EXPECT_NE(layout_of(parts).find(what), std::string::npos) << layout_of(parts);
  };
  says({{"embedding", "block.0", "head"}}, "\"block.0\" is neither");
  says({{"embedding", "layer.x", "head"}}, "\"layer.x\" is neither");
  says({{"embedding", "layer.1", "head"}}, "\"layer.1\" is out of the order");
  says({{"embedding", "layer.0", "layer.2", "head"}}, "\"layer.2\" is out of the order");
  says({{"layer.0", "head"}}, "embedding and head");
  says({{"embedding", "layer.0"}}, "embedding and head");
  says({{"layer.0"}, {"embedding", "head"}}, "embedding and head");
  says({{"embedding.tokens"}, {"embedding.norm", "layer.0", "head"}}, "embedding and head");
}

}  // namespace
}  // namespace nestplan::frameworks
