#include "nestplan/targets/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::targets {
namespace {

constexpr std::int64_t kMostRepeats = 100'000;
constexpr std::size_t kMostLetters = 10'000'000;

std::string repeated(char letter, std::int64_t count) {
  if (count <= 2) return std::string(static_cast<std::size_t>(count), letter);
  return fmt::format("{}*{}", letter, count);
}

std::string part_text(const LayoutPart& part) {
  return (part.embedding ? "E" : "") + repeated('t', part.layers) +
         repeated('m', part.predictions) + (part.loss ? "L" : "");
}

/// Text with repetitions, which it unrolls: first all "(…)*n", which do not nest, then all "x*n".
class Unroller {
 public:
  explicit Unroller(std::string_view text) : text_(text) {}

  std::string run(bool groups) {
    while (next_ < text_.size()) {
      const bool group = groups && text_[next_] == '(';
      const std::string_view item = group ? take_group() : text_.substr(next_++, 1);
      const std::int64_t count = group || !groups ? take_count() : 1;
      for (std::int64_t i = 0; i < count; ++i) out_ += item;
      if (out_.size() > kMostLetters) fail("too many parts");
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InvalidConfig(fmt::format("layout {}: {}", util::quoted(text_), what));
  }

  std::string_view take_group() {
    const std::size_t end = text_.find(')', next_);
    if (end == std::string_view::npos) fail("a parenthesis is not closed");
    const std::string_view inside = text_.substr(next_ + 1, end - next_ - 1);
    if (inside.find('(') != std::string_view::npos) fail("parentheses are nested");
    next_ = end + 1;
    return inside;
  }

  std::int64_t take_count() {
    if (next_ >= text_.size() || text_[next_] != '*') return 1;
    std::int64_t count = 0;
    const char* const begin = text_.data() + next_ + 1;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), count);
    if (error != std::errc{} || count < 0 || count > kMostRepeats) fail("no count follows \"*\"");
    next_ = static_cast<std::size_t>(stop - text_.data());
    return count;
  }

  std::string_view text_;
  std::size_t next_ = 0;
  std::string out_;
};

void add(LayoutPart& part, char letter, std::string_view text) {
  switch (letter) {
    case 'E':
      if (part.embedding) break;
      part.embedding = true;
      return;
    case 'L':
      if (part.loss) break;
      part.loss = true;
      return;
    case 't':
      ++part.layers;
      return;
    case 'm':
      ++part.predictions;
      return;
    default:
      throw InvalidConfig(fmt::format("layout {}: unknown letter {} (known: E, t, m, L)",
                                      util::quoted(text), util::quoted({&letter, 1})));
  }
  throw InvalidConfig(fmt::format("layout {}: a part has two of {}", util::quoted(text), letter));
}

template <typename Value>
std::int64_t total(const PipelineLayout& layout, Value LayoutPart::*of) {
  std::int64_t sum = 0;
  for (const LayoutPart& part : layout) sum += static_cast<std::int64_t>(part.*of);
  return sum;
}

void check_total(const char* what, std::int64_t there, std::int64_t expected) {
  if (there == expected) return;
  throw InvalidConfig(
      fmt::format("layout: holds {} {} in all, the model has {}", there, what, expected));
}

bool has_predictions(const LayoutPart& part) { return part.predictions > 0; }

void check_predictions(const PipelineLayout& layout, std::int64_t pp) {
  const auto part = std::find_if(layout.begin(), layout.end(), has_predictions);
  if (part == layout.end()) return;
  if (const std::int64_t parts = parts_with_predictions(layout); parts != 1) {
    throw InvalidConfig(
        fmt::format("layout: {} parts hold prediction modules, but one must hold all", parts));
  }
  if (std::any_of(part + 1, layout.end(), [](const LayoutPart& each) { return each.layers > 0; })) {
    throw InvalidConfig("layout: no layer may stand behind the prediction modules");
  }
  if (layout.end() - part > pp) {
    throw InvalidConfig(fmt::format(
        "layout: prediction modules are in part {} of {}, but must be in one of the last "
        "{}, the last chunks of stages",
        part - layout.begin() + 1, layout.size(), pp));
  }
}

}  // namespace

std::int64_t parts_with_predictions(const PipelineLayout& layout) {
  return std::count_if(layout.begin(), layout.end(), has_predictions);
}

std::string megatron_layout(const PipelineLayout& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.size();) {
    std::size_t end = i + 1;
    while (end < layout.size() && layout[end] == layout[i]) ++end;
    // the last part has no bar behind it
    const std::size_t closed = std::min(end, layout.size() - 1) - i;
    const std::string part = part_text(layout[i]);
    if (closed >= 3) {
      text += fmt::format("({}|)*{}", part, closed);
    } else {
      for (std::size_t k = 0; k < closed; ++k) text += part + '|';
    }
    if (i + closed < end) text += part;
    i = end;
  }
  return text;
}

PipelineLayout parse_megatron_layout(std::string_view text) {
  std::string letters(text);
  letters.erase(std::remove(letters.begin(), letters.end(), ','), letters.end());
  PipelineLayout layout(1);
  const std::string groups = Unroller(letters).run(/*groups=*/true);
  for (const char letter : Unroller(groups).run(/*groups=*/false)) {
    if (letter == '|') {
      layout.emplace_back();
    } else {
      add(layout.back(), letter, text);
    }
  }
  return layout;
}

void check_layout(const PipelineLayout& layout, std::int64_t layers, std::int64_t predictions,
                  std::int64_t pp, std::int64_t vpp) {
  const auto parts = static_cast<std::int64_t>(layout.size());
  if (parts != pp * vpp) {
    throw InvalidConfig(
        fmt::format("layout: has {} parts, but pp {} · vpp {} = {}", parts, pp, vpp, pp * vpp));
  }
  check_total("layers", total(layout, &LayoutPart::layers), layers);
  check_total("prediction modules", total(layout, &LayoutPart::predictions), predictions);
  if (!layout.front().embedding || total(layout, &LayoutPart::embedding) != 1) {
    throw InvalidConfig("layout: the embedding must be in the first part, and nowhere else");
  }
  if (!layout.back().loss || total(layout, &LayoutPart::loss) != 1) {
    throw InvalidConfig("layout: the loss must be in the last part, and nowhere else");
  }
  check_predictions(layout, pp);
}

}  // namespace nestplan::targets
