#include "report/html.hpp"

namespace nestplan::report {

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
