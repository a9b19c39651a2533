#include "report/html.hpp"

#include "nestplan/util/format.hpp"

namespace nestplan::report {
namespace {

/// U+FFFE and U+FFFF, which printable() keeps and XML does not allow.
bool is_noncharacter(std::string_view text) {
  return text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
}

}  // namespace

std::string escaped(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  const std::string printed = util::printable(text);
  const std::string_view all = printed;
  std::string out;
  out.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_noncharacter(all.substr(i))) {
      out += kReplacement;
      i += 2;
      continue;
    }
    switch (all[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += all[i];
    }
  }
  return out;
}

Html::Element Html::open(std::string_view name, const Attributes& attributes) {
  begin(name, attributes);
  out_ += '>';
  return {*this, name};
}

void Html::add(std::string_view name, std::string_view content, const Attributes& attributes) {
  const Element element = open(name, attributes);
  text(content);
}

void Html::add_empty(std::string_view name, const Attributes& attributes) {
  begin(name, attributes);
  out_ += "/>";
}

void Html::begin(std::string_view name, const Attributes& attributes) {
  out_ += '<';
  out_ += name;
  for (const auto& [key, value] : attributes) {
    out_ += ' ';
    out_ += key;
    out_ += "=\"";
    out_ += escaped(value);
    out_ += '"';
  }
}

void Html::close(std::string_view name) {
  out_ += "</";
  out_ += name;
  out_ += ">\n";
}

}  // namespace nestplan::report
