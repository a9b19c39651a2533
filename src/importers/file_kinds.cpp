#include "importers/file_kinds.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <vector>

#include "nestplan/io/keys.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

constexpr const char* kTaken =
    "import takes ONNX models, nestplan.fx/1 of inputs/export_torch_graph.py, and Chakra traces";

[[noreturn]] void refuse(const std::string& file, std::string_view what, std::string_view instead) {
  throw InvalidInput(fmt::format("{}: is {} ({}); {}", file, what, instead, kTaken));
}

struct FileKind {
  std::string_view mark;  ///< a format, a key or the first bytes
  std::string_view what;
  std::string_view instead;
};

constexpr std::array kOwnFormats{
    FileKind{io::kGraphFormat, "a graph of nestplan already", "for --graph"},
    FileKind{io::kClusterFormat, "a cluster of nestplan", "for --cluster"},
    FileKind{io::kDeviceFormat, "a device of nestplan", "for --device"},
    FileKind{io::kPlanFormat, "a plan of nestplan", "for evaluate, simulate, export and report"},
    FileKind{io::kBatchFormat, "a batch of nestplan", "for batch"},
};

constexpr std::array kForeignKeys{
    FileKind{"model_type", "a model's config of Hugging Face", "for --model"},
    FileKind{"architectures", "a model's config of Hugging Face", "for --model"},
    FileKind{"_class_name", "a model's config of Hugging Face", "for --model"},
    FileKind{"weight_map", "an index of weights, which tells no operators",
             "the config.json beside it is for --model"},
    FileKind{"traceEvents", "a profiler's trace, which does not tell what waits for what",
             "chakra_trace_link joins it to an execution trace"},
    FileKind{"nodes", "an execution trace as PyTorch writes it, or another graph",
             "chakra_converter makes a Chakra trace of the former"},
};

constexpr std::array kMagic{
    FileKind{"\x1f\x8b", "compressed", "unpack it with gunzip"},
    FileKind{"PK\x03\x04", "a zip archive, as PyTorch saves weights in",
             "inputs/export_torch_graph.py or torch.onnx exports the module"},
    FileKind{"GGUF", "a GGUF file of weights, which tells no operators", "export the module"},
    FileKind{"\x89HDF", "an HDF5 file of weights, which tells no operators", "export the module"},
};

constexpr std::array kEndings{
    FileKind{".safetensors", "a file of weights, which tells no operators",
             "the config.json beside it is for --model"},
    FileKind{".py", "Python",
             "inputs/export_torch_graph.py FILE.py:FUNCTION exports what it builds"},
};

Format format_by_name(const io::Field& format, const std::string& file) {
  const std::string name = format.text();
  if (name == io::kFxFormat) return Format::kFx;
  std::vector<std::string> known{io::kFxFormat};
  for (const FileKind& kind : kOwnFormats) {
    if (name == kind.mark) refuse(file, kind.what, kind.instead);
    known.emplace_back(kind.mark);
  }
  format.fail(
      fmt::format("unknown format {}{}; {}", util::quoted(name), util::hint(name, known), kTaken));
}

}  // namespace

std::size_t end_of_object(std::string_view text, std::size_t begin) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = begin; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

bool holds_several_objects(std::string_view content) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t end = end_of_object(content, content.find_first_not_of(kBlanks));
  const std::size_t next =
      end == std::string_view::npos ? end : content.find_first_not_of(kBlanks, end);
  return next != std::string_view::npos && content[next] == '{';
}

Format format_of_json(std::string_view content, const std::string& file) {
  if (holds_several_objects(content)) return Format::kChakra;
  const io::Document document(content, file);
  const io::Field root = document.root();
  if (const auto format = root.find("format")) return format_by_name(*format, file);
  if (root.find("workload_graph")) return Format::kChakra;
  for (const FileKind& kind : kForeignKeys) {
    if (root.find(std::string(kind.mark))) refuse(file, kind.what, kind.instead);
  }
  std::string hint;
  for (const auto& [key, value] : root.json().items()) {
    const std::vector<std::string> heads{"format", "workload_graph"};
    const auto near = util::nearest(key, heads);
    if (near && hint.empty()) {
      hint = fmt::format(": {} is not {}", util::quoted(key), util::quoted(*near));
    }
  }
  throw InvalidInput(fmt::format("{}: is JSON of no kind that is known{}; {}", file, hint, kTaken));
}

void refuse_known_files(std::string_view content, const std::string& file) {
  for (const FileKind& kind : kMagic) {
    if (content.starts_with(kind.mark)) refuse(file, kind.what, kind.instead);
  }
  for (const FileKind& kind : kEndings) {
    if (file.ends_with(kind.mark)) refuse(file, kind.what, kind.instead);
  }
}

}  // namespace nestplan::importers
