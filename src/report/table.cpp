#include "report/table.hpp"

namespace nestplan::report {
namespace {

Html::Attributes attributes_of(const Column& column, const char* scope) {
  Html::Attributes attributes;
  if (scope != nullptr) attributes.emplace_back("scope", scope);
  if (column.number) attributes.emplace_back("class", "number");
  if (column.wide) attributes.emplace_back("class", "wide");
  return attributes;
}

void write_cell(Html& html, const Cell& cell, const Column& column, bool heading) {
  const auto element =
      html.open(heading ? "th" : "td", attributes_of(column, heading ? "row" : nullptr));
  if (cell.target.empty()) {
    html.text(cell.text);
  } else {
    html.add("a", cell.text, {{"href", cell.target}});
  }
}

}  // namespace

void write_table(Html& html, const std::string& caption, const std::vector<Column>& columns,
                 const std::vector<std::vector<Cell>>& rows) {
  const auto box = html.open(
      "div", {{"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", caption}});
  const auto table = html.open("table");
  html.add("caption", caption);
  {
    const auto head = html.open("thead");
    const auto row = html.open("tr");
    for (const Column& column : columns) {
      html.add("th", column.heading, attributes_of(column, "col"));
    }
  }
  const auto body = html.open("tbody");
  for (const std::vector<Cell>& cells : rows) {
    const auto row = html.open("tr");
    for (std::size_t c = 0; c < cells.size(); ++c) write_cell(html, cells[c], columns[c], c == 0);
  }
}

void write_facts(Html& html, const Facts& facts) {
  const auto list = html.open("dl", {{"class", "facts"}});
  for (const auto& [term, text] : facts) {
    html.add("dt", term);
    html.add("dd", text);
  }
}

}  // namespace nestplan::report
