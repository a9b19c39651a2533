#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nestplan/util/format.hpp"

namespace nestplan::report {

using util::escaped;

/// Writes HTML (SVG included) that is well-formed XML too: elements are closed in the order in
/// which they were opened, and everything but names of elements and attributes is escaped.
class Html {
 public:
  using Attributes = std::vector<std::pair<std::string_view, std::string>>;

  /// Closes an element at the end of its scope.
  class [[nodiscard]] Element {
   public:
    Element(Html& html, std::string_view name) : html_(html), name_(name) {}
    ~Element() { html_.close(name_); }
    Element(const Element&) = delete;
    Element& operator=(const Element&) = delete;

   private:
    Html& html_;
    std::string_view name_;
  };

  /// `name` and the names of attributes have to outlive the element.
  Element open(std::string_view name, const Attributes& attributes = {});
  /// An element with nothing but text.
  void add(std::string_view name, std::string_view text, const Attributes& attributes = {});
  /// An element that cannot hold anything.
  void add_empty(std::string_view name, const Attributes& attributes = {});
  void text(std::string_view text) { out_ += escaped(text); }
  /// Markup of our own: nothing that a file or a command line has a say in.
  void markup(std::string_view markup) { out_ += markup; }

  const std::string& str() const { return out_; }

 private:
  void begin(std::string_view name, const Attributes& attributes);
  void close(std::string_view name);

  std::string out_;
};

}  // namespace nestplan::report
