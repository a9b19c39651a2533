#include "report/html.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::report {
namespace {

TEST(Html, EscapesWhatMarkupIsMadeOf) {
  EXPECT_EQ(escaped("a<b>&\"c\"'d'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
  EXPECT_EQ(escaped("layer.0–15 · größer"), "layer.0–15 · größer");
}

TEST(Html, EscapesWhatXmlDoesNotAllow) {
  EXPECT_EQ(escaped(std::string("\0\x1b[2J", 5)), "\\x00\\x1b[2J");
  EXPECT_EQ(escaped("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(escaped("a\xEF\xBF\xBF"), "a\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xE2\x80\xAE"), "\\xe2\\x80\\xae");  // right to left
}

TEST(Html, ClosesElementsInTheirOrder) {
  Html html;
  {
    const auto list = html.open("ul", {{"class", "a\"b"}});
    html.add("li", "<x>");
    html.add_empty("br");
  }
  EXPECT_EQ(html.str(), "<ul class=\"a&quot;b\"><li>&lt;x&gt;</li>\n<br/></ul>\n");
}

/// Nothing that is written can open or close an element or end an attribute.
TEST(Html, NoTextIsMarkup) {
  for (std::uint64_t seed = 0; seed < testing::seeds(200); ++seed) {
    testing::Dice dice(seed);
    std::string text;
    for (int i = 0; i < 40; ++i) text += static_cast<char>(dice.between(0, 255));
    const std::string out = escaped(text);
    EXPECT_EQ(out.find_first_of("<>\"'"), std::string::npos);
    for (std::size_t i = 0; (i = out.find('&', i)) != std::string::npos; ++i) {
      EXPECT_NE(out.find(';', i), std::string::npos);
    }
    EXPECT_TRUE(std::all_of(out.begin(), out.end(),
                            [](char c) { return static_cast<unsigned char>(c) >= 0x20U; }));
  }
}

}  // namespace
}  // namespace nestplan::report
