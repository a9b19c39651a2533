#include "io/json.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "io/descriptor.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::io {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLargestFile = std::size_t{1} << 30U;

namespace fs = std::filesystem;

[[noreturn]] void fail_read(const fs::path& path, const char* reason) {
  throw IoError(fmt::format("{}: cannot be read: {}", path.string(), reason));
}

std::vector<std::string> names_in(const fs::path& directory) {
  constexpr std::size_t kMostNames = 10'000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
    if (names.size() == kMostNames) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The nearest thing that exists where `path` first names one that does not: " (did you mean …?)",
/// or nothing.
std::string existing_hint(const fs::path& path) {
  fs::path known;
  std::error_code error;
  for (const fs::path& part : path) {
    if (fs::exists(known / part, error)) {
      known /= part;
      continue;
    }
    const fs::path directory = known.empty() ? fs::path(".") : known;
    const auto near = util::nearest(part.string(), names_in(directory));
    // a link to nowhere is listed, but does not exist
    return near && *near != part
               ? fmt::format(" (did you mean {}?)", util::quoted((known / *near).string()))
               : "";
  }
  return "";
}

/// What was named as an input is none: the user's mistake, not the system's.
[[noreturn]] void refuse_input(const fs::path& path, const char* reason) {
  throw InvalidInput(
      fmt::format("{}: cannot be read: {}{}", path.string(), reason, existing_hint(path)));
}

bool is_plain_key(std::string_view key) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !key.empty() && key.size() <= 40 && std::all_of(key.begin(), key.end(), plain);
}

std::string member_path(const std::string& parent, std::string_view key) {
  if (!is_plain_key(key)) return fmt::format("{}[{}]", parent, util::quoted(key));
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

std::string located(const std::string& file, const std::string& path, std::string_view problem) {
  return path.empty() ? fmt::format("{}: {}", file, problem)
                      : fmt::format("{}: {}: {}", file, path, problem);
}

struct TextPosition {
  std::size_t line = 1;
  std::size_t column = 1;
};

/// Line and column (in code points) of the byte at `offset`.
TextPosition position_of(std::string_view text, std::size_t offset) {
  TextPosition position;
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {
      ++position.column;
    }
  }
  return position;
}

/// The telling part of a parser message "[…] parse error at line 1, column 2: syntax error while
/// parsing value - REASON; last read: '…'; expected …".
std::string reason_of(std::string_view message) {
  const auto dash = message.find(" - ");
  if (dash != std::string_view::npos) message.remove_prefix(dash + 3);
  return std::string(message.substr(0, std::min<std::size_t>(message.find(';'), 100)));
}

/// Builds the value event by event: no recursion, and duplicate keys and deep nesting are seen
/// where they occur.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = open_.back();
    level.key = name;
    const auto [slot, inserted] = level.container->emplace(name, nullptr);
    if (!inserted) {
      const std::string parent = path(open_.size() - 1);
      throw InvalidInput(located(file_, parent, "duplicate key " + util::quoted(name)));
    }
    level.slot = &*slot;
    return true;
  }

  bool parse_error(std::size_t offset, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    const bool overflow = error.id == kNumberOverflow;
    // the parser stands behind the offending character, or behind the whole of a number
    const std::size_t start = offset - std::min(offset, overflow ? token.size() : 1);
    const std::string_view rest = text_.substr(std::min(start, text_.size()));
    std::string reason = reason_of(error.what());
    if (overflow) {
      reason = fmt::format("the number {} is too large", util::quoted(token, 24));
    } else if (rest.starts_with("NaN") || rest.starts_with("Infinity")) {
      reason = "NaN and infinity are not allowed";
    }
    const TextPosition at = position_of(text_, start);
    throw InvalidInput(located(file_, path(open_.size()),
                               fmt::format("line {}, column {}: {}", at.line, at.column, reason)));
  }

 private:
  struct Level {
    Json* container;
    Json* slot = nullptr;  ///< of the last key, in an object
    std::string key;
  };

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    const Level& level = open_.back();
    if (level.container->is_array()) {
      level.container->push_back(std::move(value));
      return &level.container->back();
    }
    *level.slot = std::move(value);
    return level.slot;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kDeepest) {
      throw InvalidInput(
          located(file_, "", fmt::format("is nested deeper than {} levels", kDeepest)));
    }
    open_.push_back({place(std::move(container)), nullptr, ""});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  /// Of the value that is being read inside the outermost `levels` containers; long ones are cut.
  std::string path(std::size_t levels) const {
    constexpr std::size_t kShownLevels = 12;
    std::string path;
    for (std::size_t i = 0; i < std::min(levels, kShownLevels); ++i) {
      const Level& level = open_[i];
      if (level.container->is_array()) {
        const bool inside = i + 1 < open_.size();
        path += fmt::format("[{}]", level.container->size() - (inside ? 1 : 0));
      } else if (level.slot != nullptr) {
        path = member_path(path, level.key);
      }
    }
    return path;
  }

  std::string_view text_;
  const std::string& file_;
  Json root_;
  std::vector<Level> open_;
};

Json parse_strictly(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) throw InvalidInput(file + ": is empty");
  if (text[first] != '{') {
    throw InvalidInput(fmt::format("{}: is not a JSON object: it starts with {}", file,
                                   util::quoted(text.substr(first, 40), 16)));
  }
  Builder builder(text, file);
  if (!Json::sax_parse(text, &builder)) throw InternalError(file + ": parser gave up silently");
  return builder.take();
}

/// What a value is, for "must be …, not …".
std::string described(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::string:
      return "the text " + util::quoted(value.get_ref<const std::string&>());
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    default:
      return value.dump();
  }
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) refuse_input(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_read(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse_input(path, "it is a directory");

  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16U);
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(path, std::strerror(errno));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kLargestFile) refuse_input(path, "it is larger than 1 GiB");
  }
}

void Field::fail(std::string_view problem) const {
  throw InvalidInput(located(*file_, path_, problem));
}

Field Field::member(const std::string& key, const Json& value) const {
  return {value, *file_, member_path(path_, key)};
}

Field Field::item(std::size_t index, const Json& value) const {
  return {value, *file_, fmt::format("{}[{}]", path_, index)};
}

const Field& Field::expect(const KeySet& keys) const {
  if (!value_->is_object()) fail("must be an object, not " + described(*value_));
  std::vector<std::string> known = keys.required;
  known.insert(known.end(), keys.optional.begin(), keys.optional.end());
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail(fmt::format("unknown key {}{}", util::quoted(key), util::hint(key, known)));
    }
  }
  for (const std::string& key : keys.required) {
    if (!value_->contains(key)) fail(fmt::format("missing key {}", util::quoted(key)));
  }
  return *this;
}

std::optional<Field> Field::find(const std::string& key) const {
  if (!value_->is_object()) fail("must be an object, not " + described(*value_));
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return member(key, *found);
}

Field Field::at(const std::string& key) const {
  auto found = find(key);
  if (!found) fail(fmt::format("missing key {}", util::quoted(key)));
  return *std::move(found);
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) fail("must be a list, not " + described(*value_));
  std::vector<Field> items;
  items.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) items.push_back(item(i, (*value_)[i]));
  return items;
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  if (!value_->is_object()) fail("must be an object, not " + described(*value_));
  std::vector<std::pair<std::string, Field>> members;
  for (const auto& [key, value] : value_->items()) members.emplace_back(key, member(key, value));
  return members;
}

std::string Field::text() const {
  if (!value_->is_string()) fail("must be text, not " + described(*value_));
  return value_->get<std::string>();
}

std::string Field::identifier() const {
  std::string value = text();
  if (value.empty()) fail("must not be empty");
  return value;
}

bool Field::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false, not " + described(*value_));
  return value_->get<bool>();
}

double Field::number(double most) const {
  if (!value_->is_number()) fail("must be a number, not " + described(*value_));
  const double value = value_->get<double>();
  if (value < 0) fail("must not be negative, but is " + value_->dump());
  if (!(value <= most)) fail(fmt::format("must be at most {:g}, but is {}", most, value_->dump()));
  return std::abs(value);  // -0.0 is 0
}

std::int64_t Field::integer(std::int64_t least, std::int64_t most) const {
  if (!value_->is_number()) fail("must be a whole number, not " + described(*value_));
  const double value = value_->get<double>();
  if (value != std::floor(value)) fail("must be a whole number, but is " + value_->dump());
  // `most` is below 2^53, so that the comparison in double is exact where it matters
  if (value < static_cast<double>(least)) {
    fail(fmt::format("must be at least {}, but is {}", least, value_->dump()));
  }
  if (value > static_cast<double>(most)) {
    fail(fmt::format("must be at most {}, but is {}", most, value_->dump()));
  }
  return static_cast<std::int64_t>(value);
}

double Field::quantity(double (*parse)(std::string_view), std::string_view example) const {
  if (!value_->is_string()) {
    fail(fmt::format("must be text with a unit, such as \"{}\", not {}", example,
                     described(*value_)));
  }
  return named(parse);
}

Document::Document(std::string_view text, std::string file)
    : file_(std::move(file)), value_(parse_strictly(text, file_)) {}

Document Document::read(const std::filesystem::path& path) {
  return Document(read_text(path), path.string());
}

Field Document::root_of(const std::string& format) const {
  Field top = root();
  const auto written = top.find("format");
  if (!written) top.fail(fmt::format("missing key \"format\" (expected {})", util::quoted(format)));
  if (written->text() != format) {
    written->fail(
        fmt::format("is {}, expected {}", util::quoted(written->text()), util::quoted(format)));
  }
  return top;
}

nlohmann::ordered_json number_to_json(double value) {
  if (!std::isfinite(value)) throw InternalError("a number to be written is not finite");
  constexpr double kWholeLimit = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kWholeLimit) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

std::string to_text(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace nestplan::io
