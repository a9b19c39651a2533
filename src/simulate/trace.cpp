#include "nestplan/simulate/trace.hpp"

#include <fmt/format.h>

#include <string_view>

#include "nestplan/simulate/engine.hpp"

namespace nestplan::simulate {
namespace {

constexpr double kMicroseconds = 1e6;

class TraceWriter : public Observer {
 public:
  TraceWriter(const Pipeline& pipeline, std::ostream& out) : pipeline_(pipeline), out_(out) {
    out_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  }

  void begin_kind(std::size_t index) {
    process_ = index;
    const PodKind& kind = pipeline_.kinds[index];
    const std::string pods = kind.pods == 1
                                 ? fmt::format("pod {}", kind.first_pod)
                                 : fmt::format("{} pods like pod {}", kind.pods, kind.first_pod);
    name("process_name", 0, fmt::format(R"("name": "{}")", pods));
    for (std::int64_t stage = 0; stage < pipeline_.stages; ++stage) {
      name("thread_name", stage, fmt::format(R"("name": "stage {}")", stage + 1));
      name("thread_sort_index", stage, fmt::format(R"("sort_index": {})", stage));
    }
  }

  void done(std::int64_t stage, const Step& step, const StepTimes& times) override {
    const bool forward = step.kind == Step::Kind::kForward;
    std::string arguments = fmt::format(R"("microbatch": {})", step.microbatch);
    if (pipeline_.chunks > 1) arguments += fmt::format(R"(, "chunk": {})", step.chunk);
    if (times.received_s > times.start_s) {
      span("receive", stage, times.start_s, times.received_s, arguments);
    }
    span(forward ? "forward" : "backward", stage, times.received_s, times.end_s, arguments);
  }

  void span(std::string_view name, std::int64_t stage, double start_s, double end_s,
            std::string_view arguments) {
    event(name, 'X', stage,
          fmt::format(R"("ts": {:.3f}, "dur": {:.3f}, "args": {{{}}})", start_s * kMicroseconds,
                      (end_s - start_s) * kMicroseconds, arguments));
  }

  void end() { out_ << "\n]}\n"; }

 private:
  void name(std::string_view what, std::int64_t stage, std::string_view arguments) {
    event(what, 'M', stage, fmt::format(R"("args": {{{}}})", arguments));
  }

  void event(std::string_view name, char phase, std::int64_t stage, std::string_view more) {
    out_ << fmt::format(R"({}{{"name": "{}", "ph": "{}", "pid": {}, "tid": {}, {}}})",
                        first_ ? "\n" : ",\n", name, phase, process_, stage, more);
    first_ = false;
  }

  const Pipeline& pipeline_;
  std::ostream& out_;
  std::size_t process_ = 0;
  bool first_ = true;
};

}  // namespace

void write_trace(const Pipeline& pipeline, const Simulation& simulation, std::ostream& out) {
  TraceWriter writer(pipeline, out);
  for (std::size_t k = 0; k < pipeline.kinds.size(); ++k) {
    writer.begin_kind(k);
    run(pipeline, pipeline.kinds[k], true, &writer);
    for (std::size_t s = 0; s < simulation.stages.size(); ++s) {
      const StageSummary& stage = simulation.stages[s];
      if (stage.sync_s <= 0) continue;
      writer.span("sync", static_cast<std::int64_t>(s), stage.sync_start_s, stage.sync_end_s, "");
    }
    for (const TieEvent& tie : simulation.ties) {
      for (const std::int64_t stage : {std::int64_t{0}, tie.stage}) {
        writer.span("tie", stage, tie.start_s, tie.end_s, "");
      }
    }
  }
  writer.end();
}

}  // namespace nestplan::simulate
