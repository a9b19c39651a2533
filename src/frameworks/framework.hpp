#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/demands.hpp"
#include "frameworks/launch.hpp"
#include "nestplan/frameworks/recipe.hpp"
#include "nestplan/targets/targets.hpp"

namespace nestplan::frameworks {

/// What a writer of settings gets.
struct Sheet {
  const Recipe& recipe;
  const Job& job;
  ModelKind kind;
  const Launch& launch;
  const std::vector<std::string>& remarks;
};

/// How a framework numbers the ranks of its mesh.
enum class Numbering : std::uint8_t {
  kPipelineLast,  ///< as placement::RankOrder::kPipelineLast
  kEither,        ///< as told
  kNone           ///< it puts devices into its mesh by itself
};

struct Fit;

struct Framework {
  std::string_view name;            ///< of the format
  std::string_view title;           ///< of the framework
  std::string_view version;         ///< of the sources that the settings were read from
  const targets::RuleSet* rules;    ///< null: its demands are all there is
  std::span<const Demand> demands;  ///< what only this format asks
  Numbering numbering;
  /// Of the communication that a recipe hides, what the framework hides, asked or by itself.
  Hidden (*hides)(const Recipe& recipe);
  /// Remarks on what is told otherwise, though it is the same strategy.
  void (*note)(const Fit& fit, const Job& job, std::vector<std::string>& remarks);
  std::string (*write)(const Sheet& sheet);
  Recipe (*read)(std::string_view text, std::int64_t ranks);
  Recipe (*carried)(Recipe recipe, ModelKind kind);  ///< see frameworks::carried
};

const Framework& megatron();
const Framework& bridge();
const Framework& deepspeed();
const Framework& torchtitan();
const Framework& maxtext();

/// TF32 is a switch of PyTorch and no setting: fp32 as far as these go, and a remark.
Recipe without_tf32(Recipe recipe);
void note_tf32(const Fit& fit, const Job& job, std::vector<std::string>& remarks);

/// A remark on a model whose family is none of `families`, which is all that `title` brings along.
void note_family(const Job& job, std::string_view title, std::span<const std::string_view> families,
                 std::vector<std::string>& remarks);

/// The first lines of settings: what they are of, and the remarks.
std::vector<std::string> heading(const Framework& framework, const Sheet& sheet);

/// Lines behind "# ", ended.
std::string as_comment(const std::vector<std::string>& lines);

}  // namespace nestplan::frameworks
