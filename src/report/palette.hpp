#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace nestplan::report {

/// A light colour with its darker mark, of which its pattern is drawn. Text in kInk is readable on
/// both (WCAG 2.1, 1.4.3: a contrast of at least 4.5).
struct Tint {
  const char* fill;
  const char* mark;
};

/// Told apart with the common kinds of colour blindness (hues after Okabe and Ito, Color Universal
/// Design, 2008); no two neighbours have the same pattern either.
inline constexpr std::array<Tint, 8> kTints{{{"#a9d4f2", "#4c97c9"},
                                             {"#f9cd8f", "#cf8a20"},
                                             {"#9bdcc0", "#38a884"},
                                             {"#f4ec9c", "#b5a51c"},
                                             {"#e6bcd6", "#bb70a1"},
                                             {"#f4ae94", "#d46c45"},
                                             {"#d3d6da", "#878d93"},
                                             {"#bcc0f2", "#7f85da"}}};
inline constexpr std::size_t kPatterns = 8;
inline constexpr const char* kInk = "#14171a";  ///< of text on tints

/// Text, lines and ground outside of tints.
struct Scheme {
  const char* paper;  ///< ground
  const char* panel;  ///< ground of boxes and headings of tables
  const char* ink;
  const char* quiet;  ///< text of less weight
  const char* link;
  const char* edge;  ///< outlines and axes: a contrast of at least 3 (1.4.11)
};
inline constexpr Scheme kLight{"#ffffff", "#f2f4f6", "#14171a", "#4a5259", "#0b5394", "#5d666e"};
inline constexpr Scheme kDark{"#14181c", "#1f252b", "#e9edf0", "#b4bdc5", "#8ec5ff", "#98a3ad"};

/// Of the `index`-th thing in a row of unlike things. 64 of them have different looks.
std::size_t tint_of(std::size_t index);
std::size_t pattern_of(std::size_t index);

/// What `fill` has to be for it, once pattern_definitions() is on the page.
std::string fill_of(std::size_t index);

/// An invisible SVG with the patterns of the first `count` things, to be on the page once.
std::string pattern_definitions(std::size_t count);

/// The colours as CSS custom properties, light and dark, light in print; and the classes `on` of
/// text on tints, `forward` and `backward` of steps, one dark beside the other.
std::string colour_rules();

}  // namespace nestplan::report
