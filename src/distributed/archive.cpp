#include "distributed/archive.hpp"

#include <fmt/format.h>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "nestplan/util/errors.hpp"

// Members are taken apart by structured bindings, so that a new one does not compile until it
// travels as well.
namespace boost::serialization {

template <class Archive, class... Fields>
void exchange(Archive& archive, Fields&... fields) {
  (void(archive & fields), ...);
}

template <class Archive, class Value>
void serialize(Archive& archive, std::optional<Value>& optional, const unsigned /*version*/) {
  bool given = optional.has_value();
  exchange(archive, given);
  if constexpr (Archive::is_loading::value) {
    optional.reset();
    if (given) optional.emplace();
  }
  if (given) exchange(archive, *optional);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Collective& collective, const unsigned) {
  auto& [phase, op, group, bytes] = collective;
  exchange(archive, phase, op, group, bytes);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::LayerTimes& times, const unsigned) {
  auto& [forward, backward, selective] = times;
  exchange(archive, forward, backward, selective);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::LayerCost& cost, const unsigned) {
  auto& [forward, backward, parameters, experts, activation, checkpoint, collectives, selective,
         selective_s, working, table, others] = cost;
  exchange(archive, forward, backward, parameters, experts, activation, checkpoint, collectives,
           selective, selective_s, working, table, others);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Strategy& strategy, const unsigned) {
  auto& [id, tp, sp, cp, ep, etp, micro_batch, context] = strategy;
  exchange(archive, id, tp, sp, cp, ep, etp, micro_batch, context);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Layer& layer, const unsigned) {
  auto& [id, costs, counted] = layer;
  exchange(archive, id, costs, counted);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Tie& tie, const unsigned) {
  auto& [layers, parameters] = tie;
  exchange(archive, layers, parameters);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Dimensions& dimensions, const unsigned) {
  auto& [heads, kv_heads, hidden, ffn, vocabulary, sequence, blocks, experts, expert_ffn,
         encoder_blocks, windows, sinks, predictions, kind] = dimensions;
  exchange(archive, heads, kv_heads, hidden, ffn, vocabulary, sequence, blocks, experts, expert_ffn,
           encoder_blocks, windows, sinks, predictions, kind);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Edge& edge, const unsigned) {
  auto& [from, to, bytes] = edge;
  exchange(archive, from, to, bytes);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::UpdateRate& update, const unsigned) {
  auto& [fixed, per_byte] = update;
  exchange(archive, fixed, per_byte);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Graph& graph, const unsigned) {
  auto& [name, strategies, layers, edges, tokens, flops, ties, dimensions, updates] = graph;
  exchange(archive, name, strategies, layers, edges, tokens, flops, ties, dimensions, updates);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::DeviceModel& model, const unsigned) {
  auto& [matmul, narrow_matmul, unaligned_matmul, attention_forward, attention_backward,
         ampere_attention, token_ramp, head_ramp, memory, kernel, units, tile, depth_ramp] = model;
  exchange(archive, matmul, narrow_matmul, unaligned_matmul, attention_forward, attention_backward,
           ampere_attention, token_ramp, head_ramp, memory, kernel, units, tile, depth_ramp);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Device& device, const unsigned) {
  auto& [name, memory, reserved, peak, bandwidth, speed, model] = device;
  exchange(archive, name, memory, reserved, peak, bandwidth, speed, model);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::NetworkLevel& level, const unsigned) {
  auto& [name, fanout, bandwidth, latency, oversubscription, fanouts, ports, rails, reduction,
         background] = level;
  exchange(archive, name, fanout, bandwidth, latency, oversubscription, fanouts, ports, rails,
           reduction, background);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::HierarchySpec& network, const unsigned) {
  auto& [collectives, levels] = network;
  exchange(archive, collectives, levels);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::TorusDimension& dimension, const unsigned) {
  auto& [name, size, wrap, bandwidth, latency, background, switched] = dimension;
  exchange(archive, name, size, wrap, bandwidth, latency, background, switched);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::TorusSpec& network, const unsigned) {
  auto& [collectives, dimensions, host, cube] = network;
  exchange(archive, collectives, dimensions, host, cube);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::NetworkSpec& network, const unsigned) {
  auto kind = static_cast<std::int32_t>(network.index());
  exchange(archive, kind);
  if constexpr (Archive::is_loading::value) {
    if (kind == 0) network = nestplan::model::HierarchySpec{};
    if (kind == 1) network = nestplan::model::TorusSpec{};
  }
  std::visit([&archive](auto& spec) { exchange(archive, spec); }, network);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::PlaceRun& run, const unsigned) {
  auto& [first, count] = run;
  exchange(archive, first, count);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::TypeRun& run, const unsigned) {
  auto& [places, type] = run;
  exchange(archive, places, type);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Host& host, const unsigned) {
  auto& [name, places, local] = host;
  exchange(archive, name, places, local);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Cluster& cluster, const unsigned) {
  auto& [name, device, network, host_memory, others, types, unavailable, limit, hosts, per_host] =
      cluster;
  exchange(archive, name, device, network, host_memory, others, types, unavailable, limit, hosts,
           per_host);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::StateBytes& bytes, const unsigned) {
  auto& [weight, gradient, optimizer] = bytes;
  exchange(archive, weight, gradient, optimizer);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::MemoryReserve& reserve, const unsigned) {
  auto& [context, communicator, margin] = reserve;
  exchange(archive, context, communicator, margin);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::StageConstraints::Pin& pin, const unsigned) {
  auto& [layer, stage] = pin;
  exchange(archive, layer, stage);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::StageConstraints::Place& place, const unsigned) {
  auto& [stage, position] = place;
  exchange(archive, stage, position);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::StageConstraints::Confinement& confinement,
               const unsigned) {
  auto& [scope, domain] = confinement;
  exchange(archive, scope, domain);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::StageConstraints& stages, const unsigned) {
  auto& [pins, together, cuts, first, last, least, most, layout, places, confined] = stages;
  exchange(archive, pins, together, cuts, first, last, least, most, layout, places, confined);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Overlap& overlap, const unsigned) {
  auto& [tensor, context, expert, shards, sync, pipeline] = overlap;
  exchange(archive, tensor, context, expert, shards, sync, pipeline);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::PlanOptions& options, const unsigned) {
  auto& [batch, micro_batches, tp, cp, ep, pp, dp, dp_inner, recompute, zero, objective, schedule,
         per_stage, uneven, state_bytes, shard, vpp, reserve, stages, target, precision,
         overlap_p2p, overlap] = options;
  exchange(archive, batch, micro_batches, tp, cp, ep, pp, dp, dp_inner, recompute, zero, objective,
           schedule, per_stage, uneven, state_bytes, shard, vpp, reserve, stages, target, precision,
           overlap_p2p, overlap);
}

template <class Archive>
void serialize(Archive& archive, nestplan::model::Problem& problem, const unsigned) {
  auto& [graph, cluster, options] = problem;
  exchange(archive, graph, cluster, options);
}

}  // namespace boost::serialization

namespace nestplan::distributed {
namespace {

constexpr unsigned kFlags = boost::archive::no_header | boost::archive::no_codecvt;

}  // namespace

std::string to_archive(const model::Problem& problem) {
  std::ostringstream out;
  boost::archive::binary_oarchive(out, kFlags) << problem;
  return std::move(out).str();
}

model::Problem from_archive(const std::string& archive) {
  std::istringstream in(archive);
  model::Problem problem;
  try {
    boost::archive::binary_iarchive(in, kFlags) >> problem;
  } catch (const boost::archive::archive_exception& error) {
    throw InternalError(fmt::format("a problem that another rank sent: {}", error.what()));
  }
  return problem;
}

void broadcast(const mpi::Comm& comm, std::string& text) {
  std::size_t size = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&size, 1)), 0);
  text.resize(size);
  comm.broadcast(std::as_writable_bytes(std::span(text)), 0);
}

void broadcast(const mpi::Comm& comm, model::Problem& problem) {
  if (comm.size() == 1) return;
  const bool first = comm.rank() == 0;
  std::string archive = first ? to_archive(problem) : std::string();
  broadcast(comm, archive);
  if (!first) problem = from_archive(archive);
}

}  // namespace nestplan::distributed
