# Throughputs of several methods beside reported ones: a table to stdout, a chart to `svg`.
#   awk -v figure=F -v title=T -v base=devices|micro_batch -v svg=FILE -f report.awk reported.csv results.tsv

function ratio(value) { return value == "" ? "X" : sprintf("%.2f", value) }

function text(x, y, what, more) {
  printf "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, more, what > svg
}

# A bar of what was found, and a line where the paper has its own.
function draw(method, found, reported,   x, width) {
  text(150, y + 11, method, " text-anchor=\"end\"" (method == "nestplan" ? " font-weight=\"bold\"" : ""))
  if (found == "") {
    text(160, y + 11, "X", " font-weight=\"bold\"")
  } else {
    width = 480 * found / most
    printf "<rect x=\"160\" y=\"%d\" width=\"%.1f\" height=\"13\" fill=\"%s\" stroke=\"#1a1a1a\"/>\n",
      y, width, method == "nestplan" ? "#1f4e79" : "#c9d3dd" > svg
  }
  if (reported != "") {
    x = 160 + 480 * reported / most
    printf "<path d=\"M%.1f %d v17\" stroke=\"#b34700\" stroke-width=\"3\"/>\n", x, y - 2 > svg
  }
  text(660, y + 11, ratio(found) " found, " (reported == "" ? "–" : sprintf("%.2f", reported)) " reported")
  y += 18
}

BEGIN { methods = split("nestplan manual mcmc phaze alpa mist", method, " ") }

FILENAME ~ /reported\.csv$/ {
  split($0, field, ",")
  if (field[1] == figure && field[6] != "") reported[field[2], field[3], field[4], field[5]] = field[6]
  next
}

{
  split($0, field, "\t")
  group = field[1] SUBSEP field[2] SUBSEP field[3]
  if (!(group in seen)) { seen[group] = 1; order[++groups] = group }
  if (field[5] != "") found[group, field[4]] = field[5]
  plan[group, field[4]] = field[7]
  # Where the paper has its own 1.00, else the first: results come by rising size.
  if (field[4] == "manual" && field[5] != "") {
    if (!(field[1] in hand) || reported[group, "manual"] == "1.00") hand[field[1]] = field[5]
  }
  if (field[4] == "nestplan" && field[5] != "" && !(field[1] in own)) own[field[1]] = field[5]
}

END {
  for (g = 1; g <= groups; ++g) {
    split(order[g], key, SUBSEP)
    one = key[1] in hand ? hand[key[1]] : own[key[1]]
    for (m = 1; m <= methods; ++m) {
      if ((order[g], method[m]) in found) found[order[g], method[m]] /= one
      if (found[order[g], method[m]] > most) most = found[order[g], method[m]]
      if (reported[order[g], method[m]] > most) most = reported[order[g], method[m]]
    }
  }
  height = 70 + groups * (18 * methods + 34)
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"%d\" viewBox=\"0 0 900 %d\" " \
    "role=\"img\" aria-labelledby=\"title desc\" font-family=\"sans-serif\" font-size=\"12\">\n" \
    "<title id=\"title\">%s</title>\n<desc id=\"desc\">Throughput over the recipe by hand: bars are what " \
    "was found, vertical lines what the paper reports, X a method without a plan.</desc>\n" \
    "<rect width=\"900\" height=\"%d\" fill=\"#ffffff\"/>\n", height, height, title, height > svg
  text(16, 26, title, " font-size=\"16\" font-weight=\"bold\"")
  text(16, 46, "Throughput over the recipe by hand. Bars: found. Lines: reported by the paper. X: no plan.")
  y = 70
  printf "%s\nThroughput over manual at the %s where the paper has its 1.00, else the first with a plan; in\n" \
    "parentheses what the paper reports.\n", title, base
  printf "%-14s %7s %4s", "model", "devices", "mbs"
  for (m = 1; m <= methods; ++m) printf " %14s", method[m]
  print "  plan of nestplan"
  for (g = 1; g <= groups; ++g) {
    split(order[g], key, SUBSEP)
    printf "%-14s %7s %4s", key[1], key[2], key[3]
    text(16, y + 8, key[1] ", " key[2] " devices, micro-batch " key[3], " font-weight=\"bold\"")
    y += 16
    for (m = 1; m <= methods; ++m) {
      theirs = reported[order[g], method[m]]
      printf " %14s", ratio(found[order[g], method[m]]) (theirs == "" ? "" : " (" sprintf("%.2f", theirs) ")")
      draw(method[m], found[order[g], method[m]], theirs)
    }
    print "  " plan[order[g], "nestplan"]
    y += 18
    for (m = 2; m <= methods; ++m) {
      if (found[order[g], method[m]] == "" || found[order[g], "nestplan"] == "") continue
      gain[m] += found[order[g], "nestplan"] / found[order[g], method[m]]
      ++gains[m]
    }
  }
  print "</svg>" > svg
  printf "%-27s %14s", "nestplan over it, mean", ""
  for (m = 2; m <= methods; ++m) {
    theirs = reported["mean", figure == "figure7" ? "1024" : "", 1, method[m]]
    printf " %14s", (gains[m] ? sprintf("%.2f", gain[m] / gains[m]) : "–") (theirs == "" ? "" : " (" theirs ")")
  }
  print ""
}
