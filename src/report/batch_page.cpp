#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"
#include "report/breakdowns.hpp"
#include "report/page.hpp"
#include "report/table.hpp"

namespace nestplan::report {
namespace {

const std::string kNothing = "–";

std::string time_text(double seconds) {
  return seconds > 0 ? util::precise_seconds(seconds) : kNothing;
}

std::string rate_text(double rate) { return rate > 0 ? util::rate_text(rate) : kNothing; }

std::string section_id(std::size_t job) { return fmt::format("job-{}", job + 1); }

void write_overview(Html& html, const std::vector<JobRecord>& jobs) {
  std::map<std::string, int> counts;
  for (const JobRecord& job : jobs) ++counts[job.status];
  std::vector<std::string> parts;
  for (const auto& [status, count] : counts) parts.push_back(fmt::format("{} {}", count, status));
  html.add("p", fmt::format("{} job{}: {}.", jobs.size(), jobs.size() == 1 ? "" : "s",
                            fmt::join(parts, ", ")));
  std::vector<std::vector<Cell>> rows;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const JobRecord& job = jobs[j];
    rows.push_back({{job.name, "#" + section_id(j)},
                    job.status,
                    job.devices > 0 ? util::format_count(job.devices) : kNothing,
                    time_text(job.iteration_time_s),
                    rate_text(job.tokens_per_s_per_device),
                    job.model_tflops_per_device > 0
                        ? fmt::format("{:.1f}", job.model_tflops_per_device)
                        : kNothing,
                    job.strategy.empty() ? kNothing : job.strategy});
  }
  write_table(html, "All jobs",
              {{"job", false, true},
               {"status"},
               {"devices", true},
               {"iteration", true},
               {"tokens/s per device", true},
               {"TFLOP/s per device", true},
               {"strategy", false, true}},
              rows);
}

Facts facts_of(const JobRecord& job) {
  Facts facts{{"status", job.status}};
  const auto add = [&](const char* term, const std::string& text) {
    if (!text.empty()) facts.emplace_back(term, text);
  };
  add("message", job.message);
  add("model", job.model);
  add("cluster", job.cluster.empty() ? ""
                                     : fmt::format("{}: {} of {} devices in use", job.cluster,
                                                   util::format_count(job.devices_used),
                                                   util::format_count(job.devices)));
  add("batch", job.global_batch > 0 ? rate_text(job.global_batch) + " sequences" : "");
  add("strategy", job.strategy);
  if (job.iteration_time_s > 0) {
    add("iteration", util::precise_seconds(job.iteration_time_s) +
                         (job.gap > 0 ? fmt::format(" (gap {})", util::percent(job.gap)) : ""));
  }
  if (job.tokens_per_s > 0) {
    add("throughput",
        fmt::format("{} tokens/s, {} per device", rate_text(job.tokens_per_s),
                    rate_text(job.tokens_per_s_per_device)) +
            (job.model_tflops_per_device > 0
                 ? fmt::format(", {:.1f} model TFLOP/s per device", job.model_tflops_per_device)
                 : ""));
  }
  add("plan", job.plan_file);
  return facts;
}

void write_job(Html& html, const JobRecord& job, const std::string& id) {
  write_facts(html, facts_of(job));
  if (!job.stages.empty()) {
    write_time_split(html, id + "-time", job.split);
    write_memory_bars(html, id + "-memory", job.stages);
    const auto details = html.open("details");
    html.add("summary", "Stages");
    write_stage_table(html, "Stages; times are of one micro-batch", job.stages);
  }
  const auto back = html.open("p");
  html.add("a", "All jobs", {{"href", "#jobs"}});
}

}  // namespace

std::string batch_page(const std::string& name, const std::vector<JobRecord>& jobs) {
  std::vector<Section> sections{{"jobs", "Jobs", [&](Html& html) { write_overview(html, jobs); }}};
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const std::string id = section_id(j);
    sections.push_back(
        {id, jobs[j].name, [&, j, id](Html& html) { write_job(html, jobs[j], id); }, false});
  }
  return page(name, sections, kBreakdownLooks);
}

}  // namespace nestplan::report
