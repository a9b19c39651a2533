#include "report/page.hpp"

#include <fmt/format.h>

#include "report/palette.hpp"

namespace nestplan::report {
namespace {

/// Nothing is wider than the window but what scrolls inside a box of its own, and no text is
/// smaller than 11 px.
constexpr const char* kStyle = R"(*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,"Segoe UI",Roboto,
"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;overflow-wrap:break-word}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);
outline-offset:2px}
.skip{position:absolute;left:-999em}
.skip:focus{position:static}
header,main,footer{max-width:66rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.25rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem}
h2{font-size:1.3rem;line-height:1.3;margin:2.25rem 0 .5rem;padding-top:.75rem;
border-top:1px solid var(--edge)}
h3{font-size:1.05rem;margin:1.5rem 0 .35rem}
p{margin:.5rem 0;max-width:48rem}
nav ul{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.15rem 1rem}
nav a{display:inline-block;padding:.2rem 0}
dl.facts{display:grid;grid-template-columns:minmax(8rem,max-content) 1fr;gap:.3rem 1.25rem;
margin:.75rem 0}
dl.facts dt{color:var(--quiet)}
dl.facts dd{margin:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.6rem;
list-style:none;margin:.75rem 0;padding:0}
.tiles li{background:var(--panel);border-radius:.4rem;padding:.55rem .75rem}
.tiles b{display:block;font-size:1.3rem;line-height:1.3;font-variant-numeric:tabular-nums}
.tiles span{color:var(--quiet);font-size:.875rem}
figure{margin:.75rem 0}
figcaption{color:var(--quiet);font-size:.9rem;margin:.35rem 0;max-width:48rem}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;margin:.5rem 0}
caption{text-align:left;color:var(--quiet);padding:.25rem 0;
max-width:min(48rem,calc(100vw - 2rem))}
th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--panel)}
thead th{background:var(--panel);border-bottom:1px solid var(--edge);vertical-align:bottom}
tbody th{font-weight:600}
.number{text-align:right}
td.number{white-space:nowrap}
.wide{min-width:12rem}
ul.legend{list-style:none;margin:.4rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;
font-size:.875rem}
ul.legend li{display:flex;gap:.4rem;align-items:center}
ul.legend svg{flex:none}
pre{background:var(--panel);padding:.6rem .75rem;border-radius:.4rem;overflow-x:auto;
font:.85rem/1.5 ui-monospace,"DejaVu Sans Mono",Consolas,monospace;margin:.5rem 0;
white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;padding:.25rem 0;color:var(--link)}
.bar{display:grid;grid-template:"label bar number"/5rem 1fr 9rem;column-gap:.6rem;
align-items:center;font-size:.9rem;font-variant-numeric:tabular-nums;break-inside:avoid}
.bar .label{grid-area:label}
.bar .number{grid-area:number}
.bar svg{grid-area:bar}
.bar svg,.split>svg{display:block;width:100%}
.alert{border-left:4px solid var(--edge);background:var(--panel);padding:.5rem .75rem}
svg text{font:11px system-ui,"Segoe UI",Roboto,Arial,"DejaVu Sans",sans-serif;fill:var(--ink)}
svg .quiet{fill:var(--quiet)}
svg .edge{fill:none;stroke:var(--edge)}
svg .line{stroke:var(--edge)}
svg .thin{stroke-width:.6}
svg .cut{fill:none;stroke:var(--ink);stroke-width:1.6}
svg .none{fill:var(--paper);stroke:var(--edge);stroke-dasharray:2 2}
svg .panel{fill:var(--panel);stroke:var(--edge)}
svg .pale{fill:#fff;fill-opacity:.55}
footer{color:var(--quiet);font-size:.875rem;padding-bottom:2rem;margin-top:2.5rem}
@media (max-width:40rem){
body{font-size:15px}
h1{font-size:1.3rem}
dl.facts{display:block}
dl.facts dd{margin:0 0 .5rem}
.bar{grid-template:"label number" "bar bar"/1fr max-content;margin-bottom:.35rem}
}
@media print{
body{font-size:10pt;background:none}
header,main,footer{max-width:none;padding:0}
nav,.skip{display:none}
h2,h3{break-after:avoid}
tr,.tiles li{break-inside:avoid}
.scroll{overflow:visible}
.scroll svg{max-width:100%;height:auto}
thead{display:table-header-group}
table{font-size:8pt}
th,td{padding:.15rem .35rem}
.wide{min-width:0}
a{color:inherit}
details::details-content{content-visibility:visible;block-size:auto}
}
)";

void write_head(Html& html, const std::string& title) {
  const auto head = html.open("head");
  html.add_empty("meta", {{"charset", "utf-8"}});
  html.add_empty("meta",
                 {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  html.add("title", title);
  html.markup("<style>\n" + colour_rules() + kStyle + "</style>\n");
}

void write_contents(Html& html, const std::vector<Section>& sections) {
  const auto nav = html.open("nav", {{"aria-label", "Contents"}});
  const auto list = html.open("ul");
  for (const Section& section : sections) {
    if (!section.in_contents) continue;
    const auto item = html.open("li");
    html.add("a", section.heading, {{"href", "#" + section.id}});
  }
}

}  // namespace

std::string page(const std::string& title, const std::vector<Section>& sections,
                 std::size_t looks) {
  Html html;
  html.markup("<!DOCTYPE html>\n");
  {
    const auto root =
        html.open("html", {{"lang", "en"}, {"xmlns", "http://www.w3.org/1999/xhtml"}});
    write_head(html, title);
    const auto body = html.open("body");
    html.add("a", "Skip to the report", {{"class", "skip"}, {"href", "#report"}});
    html.markup(pattern_definitions(looks));
    {
      const auto header = html.open("header");
      html.add("h1", title);
      write_contents(html, sections);
    }
    {
      const auto main = html.open("main", {{"id", "report"}});
      for (const Section& section : sections) {
        const std::string heading = section.id + "-heading";
        const auto element =
            html.open("section", {{"id", section.id}, {"aria-labelledby", heading}});
        html.add("h2", section.heading, {{"id", heading}});
        section.write(html);
      }
    }
    html.add("footer",
             "Written by nestplan report. Nothing on this page is loaded from elsewhere.");
  }
  return html.str();
}

}  // namespace nestplan::report
