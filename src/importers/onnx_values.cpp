#include "importers/onnx_values.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "io/descriptor.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

/// Bytes of an item in raw data.
std::size_t width_of(std::int32_t type) {
  switch (type) {
    case onnx::TensorProto::DOUBLE:
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64:
      return 8;
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
      return 4;
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      return 2;
    default:
      return 1;
  }
}

template <typename Field>
OnnxValues::Items items_of(const Field& field) {
  constexpr std::size_t kWidth = sizeof(*field.data());
  return {{reinterpret_cast<const char*>(field.data()),
           static_cast<std::size_t>(field.size()) * kWidth},
          kWidth};
}

std::string entry(const onnx::TensorProto& tensor, std::string_view key) {
  for (const auto& each : tensor.external_data()) {
    if (each.key() == key) return each.value();
  }
  return "";
}

/// What is no number is beyond the end of every file.
std::size_t number(const std::string& text, std::size_t fallback) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty()) return fallback;
  return error == std::errc{} && stop == end ? value : std::string_view::npos;
}

bool leads_out(const std::filesystem::path& location) {
  return location.is_absolute() ||
         std::find(location.begin(), location.end(), "..") != location.end();
}

}  // namespace

/// Empty where the file cannot be read.
class OnnxValues::Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    const io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const start =
        size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0) : MAP_FAILED;
    if (start != MAP_FAILED) bytes_ = {static_cast<const char*>(start), size};
  }
  ~Mapping() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

OnnxValues::OnnxValues(const std::string& model)
    : model_(model), folder_(std::filesystem::path(model).parent_path()) {}

OnnxValues::~OnnxValues() = default;

std::string_view OnnxValues::external(const onnx::TensorProto& tensor) {
  const std::string location = entry(tensor, "location");
  if (location.empty()) return {};
  if (leads_out(location)) {
    throw InvalidInput(fmt::format(
        "{}: initializer {}: its values are said to be in {}, which is not in the folder of the "
        "model",
        model_, util::quoted(tensor.name()), util::quoted(location)));
  }
  std::unique_ptr<Mapping>& file = files_[location];
  if (!file) file = std::make_unique<Mapping>(folder_ / location);
  const std::string_view bytes = file->bytes();
  const std::size_t offset = number(entry(tensor, "offset"), 0);
  if (offset > bytes.size()) return {};
  const std::size_t length = number(entry(tensor, "length"), bytes.size() - offset);
  return length > bytes.size() - offset ? std::string_view() : bytes.substr(offset, length);
}

OnnxValues::Items OnnxValues::of(const onnx::TensorProto& tensor) {
  const std::size_t width = width_of(tensor.data_type());
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return {external(tensor), width};
  if (tensor.has_raw_data()) return {tensor.raw_data(), width};
  if (tensor.float_data_size() > 0) return items_of(tensor.float_data());
  if (tensor.int32_data_size() > 0) return items_of(tensor.int32_data());
  if (tensor.int64_data_size() > 0) return items_of(tensor.int64_data());
  if (tensor.double_data_size() > 0) return items_of(tensor.double_data());
  return items_of(tensor.uint64_data());
}

}  // namespace nestplan::importers
