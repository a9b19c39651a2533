#include "nestplan/placement/launch_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::placement {
namespace {

using util::idx;

void require_names(const Placement& placement, const char* what) {
  if (placement.named_hosts) return;
  throw InvalidInput(
      fmt::format("the cluster does not name its {} hosts, and {} needs their names: give --hosts "
                  "\"node[1-{}]\"",
                  placement.hosts.size(), what, placement.hosts.size()));
}

const std::string& host_name(const Placement& placement, const Seat& seat) {
  return placement.hosts[idx(seat.host)].name;
}

/// Whether the ranks of every host are neighbours.
bool host_by_host(const Placement& placement) {
  std::vector<bool> left(placement.hosts.size(), false);
  std::int64_t current = -1;
  for (const Seat& seat : placement.seats) {
    if (seat.host == current) continue;
    if (left[idx(seat.host)]) return false;
    if (current >= 0) left[idx(current)] = true;
    current = seat.host;
  }
  return true;
}

}  // namespace

std::string csv(const Placement& placement) {
  std::string out = "rank,device,place,host,local,pod,stage,dp,cp,tp,ep,etp\n";
  for (const Seat& s : placement.seats) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{},{},{},{}\n", s.rank,
                   s.device, s.place, host_name(placement, s), s.local, s.pod, s.stage, s.dp, s.cp,
                   s.tp, s.ep, s.etp);
  }
  for (const Seat& s : placement.idle) {
    fmt::format_to(std::back_inserter(out), ",{},{},{},{},,,,,,,\n", s.device, s.place,
                   host_name(placement, s), s.local);
  }
  return out;
}

std::string rankfile(const Placement& placement) {
  std::vector<std::int64_t> number(placement.hosts.size(), 0);
  std::int64_t next = 0;
  for (const std::int64_t host : placement.used_hosts()) number[idx(host)] = next++;
  std::string out;
  for (const Seat& seat : placement.seats) {
    const std::string host = placement.named_hosts ? host_name(placement, seat)
                                                   : fmt::format("+n{}", number[idx(seat.host)]);
    fmt::format_to(std::back_inserter(out), "rank {}={} slot={}\n", seat.rank, host, seat.local);
  }
  return out;
}

std::string hostfile(const Placement& placement) {
  require_names(placement, "a host file");
  if (!host_by_host(placement)) {
    return "# one line for each rank: mpirun --map-by seq\n" + slurm_hosts(placement);
  }
  std::string out;
  for (std::size_t r = 0; r < placement.seats.size();) {
    const HostSeats& host = placement.hosts[idx(placement.seats[r].host)];
    fmt::format_to(std::back_inserter(out), "{} slots={}\n", host.name, host.used);
    r += idx(host.used);
  }
  return out;
}

std::string slurm_hosts(const Placement& placement) {
  require_names(placement, "a host file");
  std::string out;
  for (const Seat& seat : placement.seats) out += host_name(placement, seat) + '\n';
  return out;
}

std::vector<std::vector<std::int64_t>> device_order(const Placement& placement) {
  std::vector<std::vector<std::int64_t>> order(placement.hosts.size());
  for (const Seat& seat : placement.seats) order[idx(seat.host)].push_back(seat.local);
  return order;
}

}  // namespace nestplan::placement
