#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/io/keys.hpp"

namespace nestplan::io {

using Json = nlohmann::json;

/// A value inside a document that knows where it is: all its complaints are InvalidInput with
/// "file: path: …". Refers to the document it came from.
class Field {
 public:
  Field(const Json& value, const std::string& file, std::string path)
      : value_(&value), file_(&file), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const std::string& file() const { return *file_; }
  const Json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  bool is_boolean() const { return value_->is_boolean(); }

  [[noreturn]] void fail(std::string_view problem) const;

  /// Checks that this is an object with all required keys of `keys` and no unknown one.
  const Field& expect(const KeySet& keys) const;

  Field at(const std::string& key) const;                   ///< fails when missing
  std::optional<Field> find(const std::string& key) const;  ///< in an object

  std::vector<Field> items() const;                            ///< of a list
  std::vector<std::pair<std::string, Field>> members() const;  ///< of an object, sorted by key

  std::string text() const;
  std::string identifier() const;  ///< text that is not empty
  bool boolean() const;

  /// A number in [0, most].
  double number(double most) const;
  /// A whole number in [least, most]. 2.0 is whole.
  std::int64_t integer(std::int64_t least, std::int64_t most) const;

  /// Text with a unit, read by `parse` (see util/units.hpp); `example` is shown for other types.
  double quantity(double (*parse)(std::string_view), std::string_view example) const;

  /// `parse` applied to the text; what it throws is located here.
  template <class Value>
  Value named(Value (*parse)(std::string_view)) const;

  Field member(const std::string& key, const Json& value) const;  ///< of an object
  Field item(std::size_t index, const Json& value) const;         ///< of a list

 private:
  const Json* value_;
  const std::string* file_;
  std::string path_;
};

/// A parsed document, strictly: UTF-8 (a byte order mark is skipped), one object, no duplicate
/// keys, numbers within the range of double, nesting of at most 64. Syntax errors are InvalidInput
/// with line and column.
class Document {
 public:
  /// `file` is how messages call it.
  Document(std::string_view text, std::string file);

  /// Throws InvalidInput, or IoError if the system fails while reading.
  static Document read(const std::filesystem::path& path);

  Field root() const { return Field(value_, file_, ""); }

  /// The root, after checking its `format`.
  Field root_of(const std::string& format) const;

 private:
  std::string file_;
  Json value_;
};

/// Largest values that files may hold, far beyond any machine; they keep sums and products of what
/// was read finite and within 64 bits.
inline constexpr double kMostSeconds = 1e9;
inline constexpr double kMostCount = 1e18;  ///< bytes, parameters
inline constexpr double kMostFlops = 1e30;  ///< per sequence
inline constexpr std::int64_t kMostDevices = 2147483647;
inline constexpr std::int64_t kMostDegree = 1048576;  ///< tp, cp, ep, etp, sp, micro-batch

/// A double as JSON: whole numbers below 2^53 without a fraction, others in the shortest form that
/// reads back as the same double. Throws InternalError if it is not finite.
nlohmann::ordered_json number_to_json(double value);

/// The document as text: indented by two, ending in a newline.
std::string to_text(const nlohmann::ordered_json& document);

template <class Value>
Value Field::named(Value (*parse)(std::string_view)) const {
  const std::string written = text();
  try {
    return parse(written);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

}  // namespace nestplan::io
