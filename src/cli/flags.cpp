#include "cli/flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cli/compared_methods.hpp"
#include "cli/export_formats.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/importers/importers.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/placement/placement.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::cli {
namespace {

constexpr unsigned kPlan = static_cast<unsigned>(Command::kPlan);
constexpr unsigned kEvaluate = static_cast<unsigned>(Command::kEvaluate);
constexpr unsigned kInspect = static_cast<unsigned>(Command::kInspect);
constexpr unsigned kBatch = static_cast<unsigned>(Command::kBatch);
constexpr unsigned kSimulate = static_cast<unsigned>(Command::kSimulate);
constexpr unsigned kCalibrate = static_cast<unsigned>(Command::kCalibrate);
constexpr unsigned kCompare = static_cast<unsigned>(Command::kCompare);
constexpr unsigned kReport = static_cast<unsigned>(Command::kReport);
constexpr unsigned kSolving = kPlan | kEvaluate | kSimulate | kCompare | kReport;
constexpr unsigned kDescribing = kSolving | kInspect;
constexpr unsigned kResume = static_cast<unsigned>(Command::kResume);
constexpr unsigned kImport = static_cast<unsigned>(Command::kImport);
constexpr unsigned kExport = static_cast<unsigned>(Command::kExport);
constexpr unsigned kOnCluster = kSolving | kExport;
constexpr unsigned kSearching = kPlan | kResume;
constexpr unsigned kAll = kDescribing | kBatch | kResume;

/// Large enough for every machine, small enough that products of two stay exact.
constexpr std::int64_t kMost = 1'000'000'000;
constexpr double kMostBytes = 1e15;

constexpr std::string_view kInputs = "Inputs";
constexpr std::string_view kSpace = "What the search may choose";
constexpr std::string_view kMachine = "Where on the cluster";
constexpr std::string_view kStages = "What stages may hold";
constexpr std::string_view kModel = "What is assumed";
constexpr std::string_view kQuestions = "Questions beside the plan";
constexpr std::string_view kRun = "Run and output";

std::vector<std::string> loss_names() { return {"cauchy", "huber"}; }

std::vector<std::string> unknown_names() { return {"error", "memory-bound"}; }
std::vector<std::string> attention_names() {
  return {"fused", "flash1", "flash2", std::string(kUnfused)};
}

constexpr std::array<Option, 109> kOptions{{
    {"model", "", "PATH", kInputs, "model: a Hugging Face config.json, or its directory", "",
     kDescribing | kExport, Text{&Flags::model}},
    {"graph", "", "FILE", kInputs, "model: a nestplan.graph/1 file with measured or modelled costs",
     "", kDescribing, Text{&Flags::graph}},
    {"cluster", "", "FILE", kInputs, "machine: a nestplan.cluster/1 file", "",
     kDescribing | kExport | kCalibrate | kImport, Text{&Flags::cluster}},
    {"device", "", "FILE", kInputs,
     "accelerator: a nestplan.device/1 file (that of the --cluster, or of its generation)", "",
     kCalibrate | kImport, Text{&Flags::device}},
    {"format", "", "NAME", kInputs, "of FILE: onnx, fx, chakra (what it looks like)", "", kImport,
     Choice{&Flags::format, importers::format_names}},
    {"dim", "", "NAME=N,…", kInputs,
     "sizes of the symbolic axes of an ONNX model, but for the first axis of its first input: that "
     "is the micro-batch",
     "", kImport, WordList{&Flags::dim}},
    {"micro-batch", "", "N,…", kInputs,
     "sequences per micro-batch, a strategy each (those of FILE, or 1 where it leaves them open)",
     "", kImport, IntegerList{&Flags::micro_batch, 1, kMost}},
    {"tp", "", "N,…", kInputs,
     "tensor-parallel degrees, a strategy each; of a trace: the one that it was taken with", "1",
     kImport, IntegerList{&Flags::tp, 1, kMost}},
    {"granularity", "", "NAME", kInputs,
     "what is one layer: operator (with what is fused into it), or block (of a module path)",
     "block", kImport, Text{&Flags::granularity}},
    {"unknown", "", "WHAT", kInputs,
     "operators that are not known: error, or memory-bound (they only move their inputs and "
     "outputs)",
     "error", kImport, Choice{&Flags::unknown, unknown_names}},
    {"tensor-bytes", "", "SIZE", kInputs,
     "of a trace: what a computation puts out, where the trace does not tell", "", kImport,
     Size{&Flags::tensor_bytes}},
    {"runs", "", "FILE", kInputs, "measured iterations, a table as CSV (see below)", "", kCalibrate,
     Text{&Flags::runs}},
    {"layers", "", "FILE", kInputs, "measured times of layers, a table as CSV (see below)", "",
     kCalibrate, Text{&Flags::layers}},
    {"global-batch", "", "N", kInputs, "sequences per iteration", "", kSolving,
     Integer{&Flags::global_batch, 1}},
    {"seq", "", "N", kInputs,
     "tokens per sequence (--model: 4096 or the model's longest; --graph: to count tokens)", "",
     kDescribing | kExport, Integer{&Flags::seq, 1}},
    {"tokens", "", "PART=N,…", kInputs,
     "tokens per sample of a model's other parts: decoder, vision, audio, text", "", kDescribing,
     Text{&Flags::tokens}},
    {"granularity", "", "NAME", kInputs,
     "what is one layer of a --model: layer (of the model), block (attention and MLP apart), "
     "operator; of a part by itself: block,vision=operator",
     "layer", kDescribing, Text{&Flags::granularity}},

    {"micro-batch", "", "N,…", kSpace,
     "sequences per micro-batch (--model: 1,2,4; --graph: all it has)", "", kSolving,
     IntegerList{&Flags::micro_batch, 1, kMost}},
    {"tp", "", "N,…", kSpace,
     "tensor-parallel degrees (--model: powers of two, and divisors of the nearest level's size, "
     "up to 8)",
     "", kSolving, IntegerList{&Flags::tp, 1, kMost}},
    {"cp", "", "N,…", kSpace, "context-parallel degrees (--model: 1; --graph: all it has)", "",
     kSolving, IntegerList{&Flags::cp, 1, kMost}},
    {"context-form", "", "NAME,…", kSpace,
     "how a --model's attention is split with cp: ring, all_to_all (ring)", "", kSolving,
     ChoiceList{&Flags::context_form, model::context_form_names}},
    {"ep", "", "N,…", kSpace,
     "expert-parallel degrees (--model: ways to deal the experts out, powers of two up to their "
     "number; --graph: all it has)",
     "", kSolving, IntegerList{&Flags::ep, 1, kMost}},
    {"etp", "", "N,…", kSpace, "tensor-parallel degrees inside the experts of a --model (like tp)",
     "", kSolving, IntegerList{&Flags::etp, 1, kMost}},
    {"pp", "", "N,…", kSpace, "numbers of pipeline stages (all)", "", kSolving,
     IntegerList{&Flags::pp, 1, kMost}},
    {"dp", "", "N,…", kSpace, "data-parallel degrees (all)", "", kSolving,
     IntegerList{&Flags::dp, 1, kMost}},
    {"dp-inner", "", "N,…", kSpace, "data-parallel copies inside one pod (all)", "", kSolving,
     IntegerList{&Flags::dp_inner, 1, kMost}},
    {"vpp", "", "N,…", kSpace, "chunks of layers per stage: above 1 stages are interleaved", "1",
     kSolving, IntegerList{&Flags::vpp, 1, kMost}},
    {"recompute", "", "WHAT,…", kSpace, "activation recomputation per stage: none, selective, full",
     "none,selective,full", kSolving, ChoiceList{&Flags::recompute, model::recompute_names}},
    {"zero", "", "N,…", kSpace, "ZeRO stages per pipeline stage: 0 to 3", "0,1,2,3", kSolving,
     IntegerList{&Flags::zero, 0, 3}},
    {"shard", "", "SPAN,…", kSpace,
     "devices that share state under ZeRO: all copies, or those of a pod (hybrid)", "all", kSolving,
     ChoiceList{&Flags::shard, model::shard_span_names}},
    {"per-stage-strategies", "", "", kSpace, "stages of one plan may differ in strategy", "",
     kSolving, Switch{&Flags::per_stage_strategies}},
    {"target", "", "NAME", kSpace,
     "the framework that will run the plan, whose rules hold, see inspect --rules (any, or the "
     "plan's)",
     "", kSolving | kCalibrate, Choice{&Flags::target, targets::rule_set_names}},
    {"allow-uneven-batch", "", "", kSpace,
     "the batch need not divide; the last micro-batches are then partly empty", "", kSolving,
     Switch{&Flags::allow_uneven_batch}},
    {"no-transfer-overlap", "", "", kSpace,
     "the framework shall not overlap transfers between stages with computation, for rules that "
     "ask",
     "", kSolving, Switch{&Flags::no_transfer_overlap}},
    {"overlap", "", "WHAT=SHARE,…", kSpace,
     "communication that runs beside computation, as shares from 0 to 1: tensor, context (of a "
     "ring), expert, shards (ZeRO), sync, pipeline (with --vpp); none first: nothing else (as the "
     "target usually does, see inspect --rules, or as in the plan)",
     "", kSolving | kCalibrate, WordList{&Flags::overlap}},

    {"slice", "", "4x4x8", kMachine,
     "of a torus or mesh: use a part of so many devices per dimension, which must not cut hosts",
     "", kOnCluster, Text{&Flags::slice}},
    {"nodelist", "", "HOSTS", kMachine,
     "use these hosts of the cluster only, such as node[001-064]", "", kOnCluster,
     Text{&Flags::nodelist}},
    {"exclude", "", "HOSTS", kMachine, "leave these hosts out", "", kOnCluster,
     Text{&Flags::exclude}},
    {"whole-hosts", "", "", kMachine, "leave out hosts of which a device is missing", "",
     kOnCluster, Switch{&Flags::whole_hosts}},
    {"choose-nodes", "", "N", kMachine,
     "use N hosts, those that are nearest to each other of the available ones", "", kOnCluster,
     Integer{&Flags::choose_nodes, 1}},
    {"segment", "", "N", kMachine,
     "with --choose-nodes: hosts that share a lowest block, as in sbatch --segment", "", kOnCluster,
     Integer{&Flags::segment, 1}},
    {"background", "", "LEVEL=PERCENT,…", kMachine,
     "what other jobs take of the bandwidth of a level (of a torus: of a dimension)", "",
     kOnCluster, WordList{&Flags::background}},
    {"keep-inside", "", "GROUP=DOMAIN,…", kMachine,
     "groups (tp, cp, ep, dp, or pod: a whole pipeline) that must not leave a block of a level", "",
     kSolving, WordList{&Flags::keep_inside}},
    {"stage-at", "", "STAGE=POSITION,…", kMachine,
     "positions in the pod where stages start: last, or a number from 2", "", kSolving,
     WordList{&Flags::stage_at}},

    {"pin", "", "LAYER=N,…", kStages,
     "layers that belong into a stage: first, last, or its number from 1; * and ? match", "",
     kSolving, WordList{&Flags::pin}},
    {"together", "", "A,B;C,…", kStages, "layers that share a stage, group by group; * and ? match",
     "", kSolving, Text{&Flags::together}},
    {"cut", "", "A,…|B,…", kStages, "sets of layers that no stage mixes; * and ? match", "",
     kSolving, Text{&Flags::cut}},
    {"stage-layers", "", "NAME", kStages,
     "transformer layers per stage: any, first-last (equally many but in the first and the last), "
     "even (any)",
     "", kSolving, Choice{&Flags::stage_layers, layout_names}},
    {"first-stage-layers", "", "N", kStages, "transformer layers of the first stage (any)", "",
     kSolving, Integer{&Flags::first_stage_layers, 0}},
    {"last-stage-layers", "", "N", kStages, "transformer layers of the last stage (any)", "",
     kSolving, Integer{&Flags::last_stage_layers, 0}},
    {"least-stage-layers", "", "N", kStages, "transformer layers that every stage has at least", "",
     kSolving, Integer{&Flags::least_stage_layers, 0}},
    {"most-stage-layers", "", "N", kStages, "transformer layers that no stage has more of", "",
     kSolving, Integer{&Flags::most_stage_layers, 1}},

    {"objective", "", "NAME", kModel,
     "1f1b: sum + (m-1)·max; paper: (m+p-1)·max (1f1b, or the plan's)", "", kSolving,
     Choice{&Flags::objective, model::objective_names}},
    {"schedule", "", "NAME", kModel, "1f1b or gpipe (1f1b, or the plan's)", "", kSolving,
     Choice{&Flags::schedule, model::schedule_names}},
    {"state-bytes", "", "W,G,O", kModel, "bytes per parameter: weight, gradient, optimizer",
     "2,4,12", kSolving, RealList{&Flags::state_bytes, 3}},
    {"attention", "", "NAME", kModel,
     "of a --model: fused by the device's own kernels, by FlashAttention 1 or 2 (flash1, flash2), "
     "or "
     "unfused with the scores of all pairs in memory (fused)",
     "", kSolving | kImport, Choice{&Flags::attention, attention_names}},
    {"no-sequence-parallel", "", "", kModel,
     "every device of a tensor-parallel group holds all tokens of a --model between its operators",
     "", kSolving | kExport, Switch{&Flags::no_sequence_parallel}},
    {"no-mtp", "", "", kModel, "leaves out the modules of multi-token prediction of a --model", "",
     kSolving | kExport, Switch{&Flags::no_mtp}},
    {"vocabulary-multiple", "", "N", kModel,
     "the vocabulary of a --model is padded to a multiple of this times tp (128)", "",
     kSolving | kExport, Integer{&Flags::vocabulary_multiple, 1}},
    {"logit-bytes", "", "B", kModel,
     "bytes alive at once for every logit of a --model during the loss: 10 for an ordinary cross "
     "entropy (6, or 8 at 32 bits: Megatron-LM)",
     "", kSolving, RealList{&Flags::logit_bytes, 1}},
    {"routing-imbalance", "", "X", kModel,
     "copies of tokens that the fullest expert shard of a --model gets, over the average (1)", "",
     kSolving, RealList{&Flags::routing_imbalance, 1}},
    {"capacity-factor", "", "C", kModel,
     "every expert of a --model takes C times its average, padded or cut (0: what comes)", "",
     kSolving, RealList{&Flags::capacity_factor, 1}},
    {"context-reserve", "", "SIZE", kModel,
     "memory of driver and framework on every device (--model: 2.3 GB; --graph: 0 B)", "", kSolving,
     Size{&Flags::context_reserve}},
    {"communicator-buffer", "", "SIZE", kModel,
     "memory for every kind of group that a stage communicates in (--model: 700 MB; --graph: 0 B)",
     "", kSolving, Size{&Flags::communicator_buffer}},
    {"memory-margin", "", "PERCENT", kModel,
     "of the memory, left free for fragmentation (--model: 6%, or 10% with experts that take all "
     "tokens sent to them; --graph: 0%)",
     "", kSolving, Percent{&Flags::memory_margin}},
    {"precision", "", "NAME", kModel, "which of the device's peak rates counts", "bf16",
     kSolving | kExport | kImport, Text{&Flags::precision}},

    {"fewest-devices", "", "", kQuestions,
     "the fewest of the first devices on which a plan fits, with the best plan there", "", kPlan,
     Switch{&Flags::fewest_devices}},
    {"device-counts", "", "N,…", kQuestions,
     "one search for each number of devices, counted from the first, and a table", "", kPlan,
     IntegerList{&Flags::device_counts, 1, kMost}},
    {"weak", "", "", kQuestions,
     "with --device-counts: the batch grows with the devices; it is that of the least count", "",
     kPlan, Switch{&Flags::weak}},
    {"what-if", "", "", kQuestions,
     "after the plan, what more memory and every restriction less would bring", "", kPlan,
     Switch{&Flags::what_if}},
    {"top", "", "K", kQuestions,
     "the K best plans that differ in micro-batch, dp, pp, vpp, tp, cp or ep, what each loses, and "
     "how far costs may be off before another of them is the best",
     "", kPlan, Integer{&Flags::top, 1}},
    {"explain", "", "", kQuestions,
     "after the plan, why it is this one: what binds, what every neighbour loses, and how far "
     "costs "
     "may be off before another strategy is the best",
     "", kPlan, Switch{&Flags::explain}},
    {"pareto", "", "", kQuestions,
     "the plans that trade time, memory and devices for each other (of --device-counts, or all "
     "devices, half of them and so on)",
     "", kPlan, Switch{&Flags::pareto}},
    {"pareto-points", "", "N", kQuestions,
     "with --pareto: at most so many plans for each number of devices (12)", "", kPlan,
     Integer{&Flags::pareto_points, 2}},

    {"rules", "", "", kRun, "list the rules of frameworks, with their sources", "", kInspect,
     Switch{&Flags::rules}},
    {"target", "", "NAME", kRun, "with --rules: of this framework alone", "", kInspect,
     Choice{&Flags::target, targets::rule_set_names}},
    {"to", "", "FORMAT", kRun,
     "placement (JSON), csv, rankfile or hostfile (Open MPI), slurm-hosts (for SLURM_HOSTFILE), "
     "slurm (a batch script); settings of a framework: megatron (Megatron-LM's arguments), bridge "
     "(overrides for Megatron-Bridge and NeMo), deepspeed (JSON), torchtitan (TOML), maxtext "
     "(YAML)",
     "placement", kExport, Choice{&Flags::to, export_format_names}},
    {"rank-order", "", "ORDER", kRun,
     "how the framework numbers its ranks, the fastest index first: tp-cp-ep-dp-pp (Megatron-LM, "
     "torchtitan, DeepSpeed), tp-cp-ep-pp-dp (Megatron-LM --use-tp-pp-dp-mapping)",
     "tp-cp-ep-dp-pp", kExport, Choice{&Flags::rank_order, placement::rank_order_names}},
    {"hosts", "", "LIST", kRun,
     "names of the cluster's hosts in the order of its file, such as node[001-128]", "", kExport,
     Text{&Flags::hosts}},
    {"groups", "", "", kRun, "with --to placement: list all groups of ranks as well", "", kExport,
     Switch{&Flags::groups}},
    {"nearest", "", "", kRun,
     "with --to a framework: where it cannot be told the plan, take what comes nearest, and say so",
     "", kExport, Switch{&Flags::nearest}},
    {"trace", "", "FILE", kRun,
     "write every step there, for ui.perfetto.dev or chrome://tracing (-: to stdout, alone)", "",
     kSimulate, Text{&Flags::trace}},
    {"time-limit", "", "SECONDS", kRun, "stop then with the best plan so far (exit code 4)", "",
     kSearching | kCompare, Duration{&Flags::time_limit}},
    {"checkpoint", "", "FILE", kRun,
     "save the search there, and go on from what is there if it is the same search", "", kPlan,
     Text{&Flags::checkpoint}},
    {"checkpoint-every", "", "SECONDS", kRun, "how often to save, besides on stopping (300)", "",
     kSearching, Duration{&Flags::checkpoint_every}},
    {"grid", "", "GxDxS", kRun,
     "ranks: G groups that take configurations, each of D shares of the downsets x S blocks of the "
     "depths (chosen)",
     "", kSearching | kCompare, Text{&Flags::grid}},
    {"ranks-per-job", "", "N", kRun,
     "ranks that work on one job together (1, or more where there are more ranks than jobs)", "",
     kBatch, Integer{&Flags::ranks_per_job, 1}},
    {"only", "", "NAME,…", kRun, "only these jobs", "", kBatch, WordList{&Flags::only}},
    {"task", "", "I/N", kRun,
     "only every N-th job, from the I-th (1 to N) on: one task of a job array", "", kBatch,
     Text{&Flags::task}},
    {"single-process", "", "", kRun, "one process is meant, whatever the batch system says", "",
     kSearching | kBatch | kCompare, Switch{&Flags::single_process}},
    {"output", "o", "FILE", kRun, "write the plan there as nestplan.plan/1 (- is stdout)", "",
     kPlan | kEvaluate | kResume, Text{&Flags::output}},
    {"output", "o", "FILE", kRun, "write there (-, the default, is stdout)", "",
     kExport | kImport | kReport, Text{&Flags::output}},
    {"output", "o", "DIR", kRun,
     "write every plan there as NAME.plan.json, and what is finished as NAME.done.json", "", kBatch,
     Text{&Flags::output}},
    {"output", "o", "FILE", kRun, "write the device there as nestplan.device/1 (- is stdout)", "",
     kCalibrate, Text{&Flags::output}},
    {"loss", "", "NAME", kRun, "how little outliers count: cauchy (hardly), huber (less)", "cauchy",
     kCalibrate, Choice{&Flags::loss, loss_names}},
    {"folds", "", "N", kRun, "parts of the measurements that are held out in turn", "5", kCalibrate,
     Integer{&Flags::folds, 2}},
    {"methods", "", "NAME,…", kRun, "only these: nestplan, manual, mcmc, phaze, alpa, mist", "",
     kCompare, ChoiceList{&Flags::methods, compared_methods}},
    {"seed", "", "N", kRun, "of the random numbers of mcmc", "1", kCompare,
     Integer{&Flags::seed, 0}},
    {"mcmc-steps", "", "N", kRun, "proposals that mcmc may make", "5000", kCompare,
     Integer{&Flags::mcmc_steps, 1}},
    {"csv", "", "FILE", kRun, "with --pareto: write its plans there as CSV (- is stdout)", "",
     kPlan, Text{&Flags::csv}},
    {"csv", "", "FILE", kRun, "write the summary there as CSV (- is stdout)", "", kBatch | kCompare,
     Text{&Flags::csv}},
    {"svg", "", "FILE", kRun, "draw the throughputs there as SVG (- is stdout)", "", kCompare,
     Text{&Flags::svg}},
    {"config", "", "FILE", kRun, "options from the file's [plan] section; flags win", "", kPlan,
     Text{&Flags::config}},
    {"dump-config", "", "", kRun, "print the options as a file for --config, and stop", "", kPlan,
     Switch{&Flags::dump_config}},
    {"json", "", "", kRun, "print JSON instead of text", "", (kAll & ~kReport) | kCalibrate,
     Switch{&Flags::json}},
    {"verbose", "v", "", kRun, "print every stage, and how the search went", "",
     (kDescribing & ~kReport & ~kCompare) | kResume, Switch{&Flags::verbose}},
    {"verbose", "v", "", kRun, "print plans and reasons in full", "", kCompare,
     Switch{&Flags::verbose}},
    {"verbose", "v", "", kRun, "print reasons in full, and remarks on the inputs of every job", "",
     kBatch, Switch{&Flags::verbose}},
    {"quiet", "q", "", kRun, "no progress and no remarks on stderr", "",
     kAll | kExport | kCalibrate | kImport, Switch{&Flags::quiet}},
}};

std::vector<std::string> split_at_commas(const std::vector<std::string>& values) {
  std::vector<std::string> parts;
  for (const std::string& value : values) {
    for (const std::string_view part : util::split(value, ',')) parts.emplace_back(part);
  }
  return parts;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// Reads the values of one option into the field that the table names.
class Reader {
 public:
  Reader(const Option& option, const std::vector<std::string>& values, Flags& flags)
      : option_(option), values_(values), flags_(flags) {}

  void operator()(const Switch& type) const {
    const std::string& value = single();
    if (value != "true" && value != "false")
      fail(fmt::format("{} is neither true nor false", util::quoted(value)));
    flags_.*type.field = value == "true";
  }

  void operator()(const Text& type) const {
    if (single().empty()) fail("the value is empty");
    flags_.*type.field = single();
  }

  void operator()(const Integer& type) const {
    flags_.*type.field = integer(single(), type.least, kMost);
  }

  void operator()(const Duration& type) const {
    const double seconds = real(single());
    if (seconds <= 0) fail(fmt::format("{} is not a positive number of seconds", single()));
    flags_.*type.field = seconds;
  }

  void operator()(const IntegerList& type) const {
    auto& list = flags_.*type.field;
    for (const std::string& part : split_at_commas(values_)) {
      list.push_back(integer(part, type.least, type.most));
    }
    util::sort_unique(list);
  }

  void operator()(const Size& type) const {
    try {
      flags_.*type.field = std::ceil(util::parse_bytes(single()));
    } catch (const InvalidInput& error) {
      fail(error.what());
    }
    if (*(flags_.*type.field) > kMostBytes) fail("is more than any device has");
  }

  void operator()(const Percent& type) const {
    const std::string& text = single();
    const std::string number = text.substr(0, text.find_first_of(" %"));
    const std::string sign = text.substr(number.size());
    if (sign != "%" && sign != " %") {
      fail(fmt::format("{} is not a percentage, such as \"6%\"", util::quoted(text)));
    }
    const double percent = real(number);
    if (percent < 0 || percent >= 100) fail(fmt::format("{} is not in [0%, 100%)", text));
    flags_.*type.field = percent;
  }

  void operator()(const RealList& type) const {
    const std::vector<std::string> parts = split_at_commas(values_);
    if (parts.size() != type.size) {
      fail(fmt::format("{} numbers are needed, {} given (for example {})", type.size, parts.size(),
                       option_.fallback));
    }
    for (const std::string& part : parts) {
      const double number = real(part);
      if (number < 0) fail(fmt::format("{} is negative", part));
      (flags_.*type.field).push_back(number);
    }
  }

  void operator()(const Choice& type) const { flags_.*type.field = known(single(), type.names()); }

  void operator()(const WordList& type) const {
    flags_.*type.field = split_at_commas(values_);
    const auto& words = flags_.*type.field;
    if (std::find(words.begin(), words.end(), "") != words.end()) fail("a name is empty");
  }

  void operator()(const ChoiceList& type) const {
    auto& list = flags_.*type.field;
    for (const std::string& part : split_at_commas(values_))
      list.push_back(known(part, type.names()));
    util::sort_unique(list);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidConfig(fmt::format("--{}: {}", option_.name, what));
  }

  const std::string& single() const {
    if (values_.size() != 1) {
      fail(fmt::format("given {} times ({}); it takes one value", values_.size(),
                       fmt::join(values_, ", ")));
    }
    return values_.front();
  }

  std::int64_t integer(const std::string& text, std::int64_t least, std::int64_t most) const {
    const auto number = parse_number<std::int64_t>(text);
    if (!number) fail(fmt::format("{} is not a whole number", util::quoted(text)));
    if (*number < least || *number > most) {
      fail(fmt::format("{} is out of range ({} to {})", text, least, most));
    }
    return *number;
  }

  double real(const std::string& text) const {
    const auto number = parse_number<double>(text);
    if (!number || !std::isfinite(*number))
      fail(fmt::format("{} is not a finite number", util::quoted(text)));
    return *number;
  }

  std::string known(const std::string& word, const std::vector<std::string>& names) const {
    if (std::find(names.begin(), names.end(), word) == names.end()) {
      fail(fmt::format("unknown value {}{}", util::quoted(word), util::hint(word, names)));
    }
    return word;
  }

  const Option& option_;
  const std::vector<std::string>& values_;
  Flags& flags_;
};

/// The values of one option as words that the reader takes; none if it is not set.
struct Writer {
  const Flags& flags;

  std::vector<std::string> operator()(const Switch& type) const {
    return flags.*type.field ? std::vector<std::string>{"true"} : std::vector<std::string>{};
  }
  std::vector<std::string> operator()(const Text& type) const {
    const std::string& text = flags.*type.field;
    return text.empty() ? std::vector<std::string>{} : std::vector<std::string>{text};
  }
  std::vector<std::string> operator()(const Integer& type) const { return one(flags.*type.field); }
  std::vector<std::string> operator()(const Duration& type) const { return one(flags.*type.field); }
  std::vector<std::string> operator()(const Size& type) const {
    const auto& bytes = flags.*type.field;
    return bytes ? std::vector{size_text(*bytes)} : std::vector<std::string>{};
  }
  std::vector<std::string> operator()(const Percent& type) const {
    const auto& percent = flags.*type.field;
    return percent ? std::vector{percent_text(*percent)} : std::vector<std::string>{};
  }
  std::vector<std::string> operator()(const Choice& type) const { return one(flags.*type.field); }
  std::vector<std::string> operator()(const IntegerList& type) const {
    return all(flags.*type.field);
  }
  std::vector<std::string> operator()(const RealList& type) const { return all(flags.*type.field); }
  std::vector<std::string> operator()(const WordList& type) const { return flags.*type.field; }
  std::vector<std::string> operator()(const ChoiceList& type) const { return flags.*type.field; }

 private:
  template <typename Value>
  static std::vector<std::string> one(const std::optional<Value>& value) {
    if (!value) return {};
    return {fmt::format("{}", *value)};
  }
  template <typename Value>
  static std::vector<std::string> all(const std::vector<Value>& values) {
    std::vector<std::string> texts;
    for (const Value& value : values) texts.push_back(fmt::format("{}", value));
    return texts;
  }
};

}  // namespace

std::span<const Option> options() { return kOptions; }

std::vector<std::string> layout_names() { return {"any", "first-last", "even"}; }

bool chooses_plans(const Option& option) {
  constexpr std::array<std::string_view, 3> kCosts{"no-transfer-overlap", "overlap", "background"};
  const bool space = option.group == kSpace || option.group == kMachine || option.group == kStages;
  return space && std::find(kCosts.begin(), kCosts.end(), option.name) == kCosts.end();
}

std::string size_text(double bytes) { return fmt::format("{:.0f} B", bytes); }

std::string percent_text(double percent) { return fmt::format("{}%", percent); }

std::map<std::string, std::vector<std::string>> search_values(const Flags& flags) {
  std::map<std::string, std::vector<std::string>> values;
  for (const Option& option : kOptions) {
    if (!option.belongs_to(Command::kPlan) || option.group == kRun || option.group == kQuestions) {
      continue;
    }
    std::vector<std::string> texts = std::visit(Writer{flags}, option.type);
    if (!texts.empty()) values.emplace(option.name, std::move(texts));
  }
  return values;
}

Flags parse_flags(Command command, const RawValues& raw) {
  Flags flags;
  for (const Option& option : kOptions) {
    if (!option.belongs_to(command)) continue;
    const auto given = raw.find(option.name);
    if (given != raw.end()) {
      std::visit(Reader(option, given->second, flags), option.type);
    } else if (!option.fallback.empty()) {
      std::visit(Reader(option, {std::string(option.fallback)}, flags), option.type);
    }
  }
  return flags;
}

}  // namespace nestplan::cli
