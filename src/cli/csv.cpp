#include "cli/csv.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_array()) {
    text = text.substr(1, text.size() - 2);  // without the brackets
  }
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string csv_text(const std::vector<Json>& records) {
  std::string text;
  for (const Json& fields : records) {
    std::string heading, line;
    for (const auto& [key, value] : fields.items()) {
      heading += (heading.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + csv_field(value);
    }
    if (text.empty()) text = heading + "\r\n";
    text += line + "\r\n";
  }
  return text;
}

}  // namespace nestplan::cli
