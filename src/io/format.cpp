#include <fmt/format.h>

#include <algorithm>

#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::io {

std::string detect_format(const std::filesystem::path& path) {
  return detect_format(read_text(path), path.string());
}

std::string detect_format(std::string_view text, const std::string& file) {
  const Document document(text, file);
  const Field root = document.root();
  const std::vector<std::string> known{kClusterFormat, kGraphFormat, kPlanFormat, kBatchFormat,
                                       kDeviceFormat};
  if (const auto format = root.find("format")) {
    const std::string name = format->text();
    if (std::find(known.begin(), known.end(), name) != known.end()) return name;
    format->fail(fmt::format("unknown format {}{}", util::quoted(name), util::hint(name, known)));
  }
  for (const char* key : {"model_type", "architectures", "_class_name"}) {
    if (root.find(key)) return "huggingface";
  }
  root.fail("has neither \"format\" (nestplan's files) nor \"model_type\" (a model config)");
}

}  // namespace nestplan::io
