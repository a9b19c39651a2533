#pragma once

#include <string>

#include "nestplan/model/problem.hpp"
#include "nestplan/mpi/mpi.hpp"

namespace nestplan::distributed {

/// A problem as bytes for ranks of the same build; equal problems, equal bytes. Not a file format.
std::string to_archive(const model::Problem& problem);

/// The problem that `to_archive` packed, every field bit for bit. Throws InternalError for anything
/// else.
model::Problem from_archive(const std::string& archive);

/// The first rank's `text`, or problem, on all ranks of `comm`. *Collective.*
void broadcast(const mpi::Comm& comm, std::string& text);
void broadcast(const mpi::Comm& comm, model::Problem& problem);

}  // namespace nestplan::distributed
