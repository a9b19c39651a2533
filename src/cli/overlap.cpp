#include "cli/overlap.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "nestplan/targets/overlap.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::string_view kNothing = "none";

double parse_share(std::string_view text) {
  double share = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc{} || stop != text.data() + text.size() || !(share >= 0 && share <= 1)) {
    throw InvalidConfig(
        fmt::format("--overlap: {} is no share from 0 to 1, such as 0.5", util::quoted(text)));
  }
  return share;
}

double& share_of(model::Overlap& overlap, std::string_view name) {
  std::vector<std::string> known;
  for (const model::OverlapTerm& term : model::kOverlapTerms) {
    if (name == term.name) return overlap.*term.share;
    known.emplace_back(term.name);
  }
  throw InvalidConfig(fmt::format("--overlap: unknown communication {}{}", util::quoted(name),
                                  util::hint(name, known)));
}

void change(model::Overlap& overlap, std::string_view word) {
  if (word == kNothing) {
    overlap = {};
    return;
  }
  const std::vector<std::string_view> parts = util::split(word, '=');
  if (parts.size() != 2) {
    throw InvalidConfig(fmt::format("--overlap: {} is not WHAT=SHARE, such as sync=0.5, nor {}",
                                    util::quoted(word), kNothing));
  }
  share_of(overlap, parts[0]) = parse_share(parts[1]);
}

}  // namespace

model::Overlap overlap_of(const Flags& flags) {
  model::Overlap overlap =
      targets::default_overlap(flags.target ? std::string_view(*flags.target) : targets::kAny);
  if (flags.no_transfer_overlap) overlap.pipeline = 0;
  for (const std::string& word : flags.overlap) change(overlap, word);
  if (flags.no_transfer_overlap && overlap.pipeline > 0) {
    throw InvalidConfig("--overlap: pipeline above 0 contradicts --no-transfer-overlap");
  }
  return overlap;
}

std::vector<std::string> overlap_words(const model::Overlap& overlap) {
  std::vector<std::string> words{std::string(kNothing)};
  for (const auto& [name, share] : model::kOverlapTerms) {
    if (overlap.*share > 0) words.push_back(fmt::format("{}={}", name, overlap.*share));
  }
  return words;
}

std::string overlap_text(const model::Overlap& overlap) {
  std::string text;
  for (const auto& [name, share] : model::kOverlapTerms) {
    if (overlap.*share <= 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, overlap.*share);
  }
  return text.empty() ? std::string(kNothing) : text;
}

}  // namespace nestplan::cli
